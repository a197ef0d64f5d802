#include "wick/optim/detail/count.h"

#include <cmath>

namespace wick::optim {

int64_t count_in(std::string_view who, std::string_view name, const Tensor& value) {
  WICK_CHECK(value.defined(), who, ": load_state_dict: ", name, ": got an undefined tensor");
  const double count = value.item();
  WICK_CHECK(!(count < 0), who, ": load_state_dict: ", name, ": got ", count,
             ", expected 0 or more");
  WICK_CHECK(count < 0x1p53 && count == std::floor(count), who, ": load_state_dict: ", name,
             ": got ", count, ", expected a whole number below 2^53");
  return static_cast<int64_t>(count);
}

}  // namespace wick::optim
