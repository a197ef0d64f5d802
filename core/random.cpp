#include "wick/core/random.h"

#include <array>

#include "wick/core/base/check.h"

namespace wick {

namespace {

std::array<Generator, 1 + kMaxGpus>& generators() {
  static std::array<Generator, 1 + kMaxGpus> all;
  return all;
}
}  // namespace

Generator& default_generator(Device device) {
  const int index = device.is_cpu() ? 0 : 1 + device.index;
  WICK_CHECK(index >= 0 && index <= kMaxGpus, "default_generator: no such device: got ", device);
  return generators()[static_cast<size_t>(index)];
}

void manual_seed(uint64_t seed) {
  for (Generator& generator : generators()) generator.manual_seed(seed);
}

}  // namespace wick
