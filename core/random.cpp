#include "wick/core/random.h"

#include <array>

#include "wick/core/base/check.h"

namespace wick {

namespace {

std::array<Generator, 1 + kMaxGpus>& generators() {
  static auto& all = *new std::array<Generator, 1 + kMaxGpus>;  // until the program's end
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

std::vector<RandomKey> random_states() {
  std::vector<RandomKey> states;
  for (const Generator& generator : generators()) states.push_back(generator.get_state());
  return states;
}

void set_random_states(const std::vector<RandomKey>& states) {
  WICK_CHECK(states.size() == generators().size(),
             "set_random_states: wrong number of states: got ", states.size(), ", expected ",
             generators().size(), ", as random_states() gives them");
  for (size_t i = 0; i < states.size(); ++i) generators()[i].set_state(states[i]);
}

}  // namespace wick
