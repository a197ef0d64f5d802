#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "wick/core/base/device.h"
#include "wick/core/base/scoped_value.h"
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
  /// Of no effect where a region is run again for backward, whose numbers are those of its first
  /// run (core/recompute_region.h).
  void set_state(RandomKey state);
  /// Takes a draw, enough for a tensor of any size, or `draws` of them: the first is returned.
  RandomKey next(int64_t draws = 1);
  /// Another generator that goes on from the same state.
  Generator clone() const { return Generator(get_state()); }

 private:
  explicit Generator(RandomKey state) : state_(state) {}

  mutable std::mutex mutex_;
  RandomKey state_;
};

/// The generator that operations of this thread on `device` draw from unless told otherwise: the
/// process's, or that of the thread's RandomScope.
Generator& default_generator(Device device);

/// Seeds the default generators of all devices.
void manual_seed(uint64_t seed);

/// The states of the default generators of all devices, as `set_random_states` takes them.
std::vector<RandomKey> random_states();
void set_random_states(const std::vector<RandomKey>& states);

/// Gives this thread default generators of its own, one per device, while it lives: threads that
/// each train in a scope draw what each of them would draw alone. Those of before are in force
/// again afterwards, as they were (PyTorch's `fork_rng`). Ends in the thread that began it. Not in
/// the work of a CUDA graph, which is an error.
class RandomScope {
 public:
  /// Generators that start from `seed`.
  explicit RandomScope(uint64_t seed);
  /// Generators that go on from where those in force are.
  RandomScope();

 private:
  explicit RandomScope(const std::vector<RandomKey>& states);

  std::unique_ptr<Generator[]> own_;
  ScopedValue<Generator*> in_force_;
};

/// What a thread drew from any generators while a DrawLog::Recording lived, to be drawn again. For
/// the library's own use.
struct DrawLog {
  std::vector<RandomKey> keys = {};

  /// Adds this thread's draws to a log, and to those whose recordings it stands in.
  class Recording {
   public:
    explicit Recording(DrawLog* log);  // null: of nothing
    ~Recording();
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

   private:
    friend class Generator;
    DrawLog* log_;
    Recording* around_;
  };

  /// Lets this thread draw again what a log holds, in its order, whichever generators are asked;
  /// they stay as they are. More draws than that are an error.
  class Replay {
   public:
    explicit Replay(const DrawLog* log);  // null: of nothing
    ~Replay();
    Replay(const Replay&) = delete;
    Replay& operator=(const Replay&) = delete;

   private:
    friend class Generator;
    const DrawLog* log_;
    size_t drawn_ = 0;
    Replay* around_;
    Recording* recording_around_;
  };
};

}  // namespace wick
