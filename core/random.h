#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "wick/core/base/device.h"
#include "wick/kernels/random.h"

namespace wick {

/// The seed generators start with.
inline constexpr uint64_t kDefaultSeed = 67280421310721;

/// A source of random numbers for tensors: a seed, and how many tensors were drawn. The numbers
/// depend on these two alone, not on device or threads, so saving them saves the generator.
/// Safe to use from several threads, though the order of their draws is then theirs.
class Generator {
 public:
  explicit Generator(uint64_t seed = kDefaultSeed) : state_{seed, 0} {}

  /// Starts anew from `seed`.
  void manual_seed(uint64_t seed) { set_state({seed, 0}); }
  /// What a checkpoint keeps: the seed and the number of draws.
  RandomKey get_state() const {
    const std::lock_guard lock(mutex_);
    return state_;
  }
  void set_state(RandomKey state) {
    const std::lock_guard lock(mutex_);
    state_ = state;
  }
  /// Takes a draw, enough for a tensor of any size, or `draws` of them: the first is returned.
  RandomKey next(int64_t draws = 1) {
    const std::lock_guard lock(mutex_);
    const RandomKey key = state_;
    state_.offset += static_cast<uint64_t>(draws);
    return key;
  }

 private:
  mutable std::mutex mutex_;
  RandomKey state_;
};

/// The generator that operations on `device` draw from unless told otherwise.
Generator& default_generator(Device device);

/// Seeds the default generators of all devices.
void manual_seed(uint64_t seed);

/// The states of the default generators of all devices, as `set_random_states` takes them.
std::vector<RandomKey> random_states();
void set_random_states(const std::vector<RandomKey>& states);

}  // namespace wick
