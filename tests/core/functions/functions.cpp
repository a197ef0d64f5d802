#include "wick/tests/core/functions/functions.h"

namespace wick::testing {

std::vector<Function> all_functions() {
  std::vector<Function> all;
  for (const auto& part : {elementwise_functions(), shape_functions(), reducing_functions(),
                           product_functions(), network_functions()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace wick::testing
