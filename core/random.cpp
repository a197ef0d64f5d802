#include "wick/core/random.h"

#include <array>
#include <utility>

#include "wick/core/base/check.h"
#include "wick/core/detail/capture.h"

namespace wick {

namespace {

constexpr size_t kGenerators = 1 + kMaxGpus;

thread_local Generator* own_generators = nullptr;  // of the innermost scope
thread_local DrawLog::Recording* active_recording = nullptr;
thread_local DrawLog::Replay* active_replay = nullptr;

// kGenerators of them.
Generator* generators() {
  static auto& all = *new std::array<Generator, kGenerators>;  // until the program's end
  return own_generators != nullptr ? own_generators : all.data();
}

std::unique_ptr<Generator[]> generators_of_a_scope() {
  WICK_CHECK(!is_capturing(),
             "random scope: within captured work, whose numbers are those of the "
             "default generator at each replay");
  return std::make_unique<Generator[]>(kGenerators);
}

}  // namespace

RandomKey Generator::next(int64_t draws) {
  RandomKey key;
  if (active_replay != nullptr && active_replay->log_ != nullptr) {
    const std::vector<RandomKey>& keys = active_replay->log_->keys;
    WICK_CHECK(active_replay->drawn_ < keys.size(),
               "checkpoint: the function did something else when it was run again: it draws more "
               "than the ",
               keys.size(), " times of its first run");
    key = keys[active_replay->drawn_++];
  } else {
    const std::lock_guard lock(mutex_);
    key = state_;
    state_.offset += static_cast<uint64_t>(draws);
  }
  for (DrawLog::Recording* r = active_recording; r != nullptr; r = r->around_) {
    if (r->log_ != nullptr) r->log_->keys.push_back(key);
  }
  return key;
}

void Generator::set_state(RandomKey state) {
  if (active_replay != nullptr && active_replay->log_ != nullptr) return;
  const std::lock_guard lock(mutex_);
  state_ = state;
}

Generator& default_generator(Device device) {
  const int index = device.is_cpu() ? 0 : 1 + device.index;
  WICK_CHECK(index >= 0 && index <= kMaxGpus, "default_generator: no such device: got ", device);
  return generators()[index];
}

void manual_seed(uint64_t seed) {
  for (size_t i = 0; i < kGenerators; ++i) generators()[i].manual_seed(seed);
}

std::vector<RandomKey> random_states() {
  std::vector<RandomKey> states;
  for (size_t i = 0; i < kGenerators; ++i) states.push_back(generators()[i].get_state());
  return states;
}

void set_random_states(const std::vector<RandomKey>& states) {
  WICK_CHECK(states.size() == kGenerators, "set_random_states: wrong number of states: got ",
             states.size(), ", expected ", kGenerators, ", as random_states() gives them");
  for (size_t i = 0; i < states.size(); ++i) generators()[i].set_state(states[i]);
}

RandomScope::RandomScope(uint64_t seed)
    : own_(generators_of_a_scope()), in_force_(own_generators, own_.get()) {
  wick::manual_seed(seed);
}

RandomScope::RandomScope() : RandomScope(random_states()) {}

RandomScope::RandomScope(const std::vector<RandomKey>& states)
    : own_(generators_of_a_scope()), in_force_(own_generators, own_.get()) {
  set_random_states(states);
}

DrawLog::Recording::Recording(DrawLog* log)
    : log_(log), around_(std::exchange(active_recording, this)) {}

DrawLog::Recording::~Recording() { active_recording = around_; }

DrawLog::Replay::Replay(const DrawLog* log)
    : log_(log),
      around_(std::exchange(active_replay, this)),
      recording_around_(std::exchange(active_recording, nullptr)) {}

DrawLog::Replay::~Replay() {
  active_replay = around_;
  active_recording = recording_around_;
}

}  // namespace wick
