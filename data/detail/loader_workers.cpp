#include "wick/data/detail/loader_workers.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "wick/core/base/detail/start_thread.h"
#include "wick/core/base/philox.h"
#include "wick/core/base/threads.h"
#include "wick/data/detail/streams.h"
#include "wick/data/worker_info.h"

namespace wick::data {

namespace {

thread_local const WorkerInfo* current_worker = nullptr;

}  // namespace

const WorkerInfo* get_worker_info() { return current_worker; }

namespace loading {

struct Workers::State {
  // A thread, and what it does.
  struct Thread {
    Thread(int id, const std::atomic<bool>& stop) : status(concat("worker ", id, ", "), stop) {}
    Status status;
    int64_t number = -1;  // of its task; -1: none
    bool done = false;
  };

  State(std::shared_ptr<Reader> reader_in, Options options_in)
      : reader(std::move(reader_in)),
        options(std::move(options_in)),
        active(options.count),
        taken(options.first),
        started(options.first) {}

  bool may_start() const {
    return started < options.end && started - taken < int64_t{active} * options.prefetch;
  }
  /// The result that is next to be taken, if it is there.
  std::map<int64_t, Result>::iterator next_result() {
    if (options.in_order) return results.find(taken);
    // One of this epoch: as many were taken as have lower numbers than `taken`.
    const bool any = !results.empty() && reader->epoch_and_task(results.begin()->first).first ==
                                             reader->epoch_and_task(taken).first;
    return any ? results.begin() : results.end();
  }

  const std::shared_ptr<Reader> reader;
  Options options;
  std::mutex mutex;
  std::condition_variable filled, freed, ended;
  std::map<int64_t, Result> results;
  std::vector<std::unique_ptr<Thread>> threads;
  int active;
  int64_t taken;    // results so far: in order, the number that is next
  int64_t started;  // the task that is next to be begun
  std::atomic<bool> stop{false};
};

Workers::Workers(std::shared_ptr<Reader> reader, Options options)
    : process_(getpid()), state_(std::make_shared<State>(std::move(reader), std::move(options))) {
  try {
    start_threads(state_->active);
  } catch (...) {
    stop();
    throw;
  }
}

void Workers::start_threads(int count) {
  while (static_cast<int>(threads_.size()) < count) {
    const auto id = static_cast<int>(threads_.size());
    {
      const std::lock_guard lock(state_->mutex);
      state_->threads.push_back(std::make_unique<State::Thread>(id, state_->stop));
    }
    try {
      threads_.push_back(
          wick::detail::start_thread("data loader", [state = state_, id] { work(state, id); }));
    } catch (...) {
      const std::lock_guard lock(state_->mutex);
      state_->threads.pop_back();
      throw;
    }
  }
}

Workers::~Workers() { stop(); }

void Workers::stop() {
  constexpr std::chrono::milliseconds kPatience{900};
  if (getpid() != process_) {
    // A worker may have held the lock when the process was forked: nothing here would free it.
    for (std::thread& thread : threads_) thread.detach();
    return;
  }
  State& state = *state_;
  state.stop = true;
  std::unique_lock lock(state.mutex);
  state.freed.notify_all();
  state.ended.wait_for(lock, kPatience, [&] {
    for (const auto& thread : state.threads) {
      if (!thread->done) return false;
    }
    return true;
  });
  std::vector<bool> done;
  for (const auto& thread : state.threads) done.push_back(thread->done);
  lock.unlock();
  for (size_t i = 0; i < threads_.size(); ++i) {
    done[i] ? threads_[i].join() : threads_[i].detach();
  }
}

void Workers::check_process() const {
  WICK_CHECK(getpid() == process_,
             "data loader: this process was forked after its parent had started the workers, which "
             "a fork does not copy: got process ",
             getpid(), " and workers of ", process_,
             ", expected a loader made in this process, or a fork before the first batch");
}

int Workers::count() const {
  const std::lock_guard lock(state_->mutex);
  return state_->active;
}

void Workers::set_count(int count) {
  start_threads(count);
  {
    const std::lock_guard lock(state_->mutex);
    state_->active = count;
  }
  state_->freed.notify_all();
}

void Workers::jump(int64_t first, int64_t end) {
  std::map<int64_t, Result> dropped;
  {
    const std::lock_guard lock(state_->mutex);
    state_->taken = state_->started = first;
    state_->options.end = end;
    dropped.swap(state_->results);
  }
  state_->freed.notify_all();
}

bool Workers::ready() {
  const std::lock_guard lock(state_->mutex);
  return state_->next_result() != state_->results.end();
}

Result Workers::take(double timeout) {
  constexpr double kMostSeconds = 1e9;
  State& state = *state_;
  Result result;
  bool all_active = true;
  {
    std::unique_lock lock(state.mutex);
    const auto there = [&] { return state.next_result() != state.results.end(); };
    if (timeout == 0) {
      state.filled.wait(lock, there);
    } else {
      const auto patience = std::chrono::duration_cast<std::chrono::steady_clock::duration>(
          std::chrono::duration<double>(std::min(timeout, kMostSeconds)));
      const bool came = state.filled.wait_for(lock, patience, there);
      if (!came) throw Error(describe_wait(timeout));
    }
    const auto next = state.next_result();
    result = std::move(next->second);
    state.results.erase(next);
    ++state.taken;
    all_active = state.active == static_cast<int>(state.threads.size());
  }
  // One can go on, but only one that is active.
  all_active ? state.freed.notify_one() : state.freed.notify_all();
  return result;
}

// Under the lock.
std::string Workers::describe_wait(double seconds) const {
  const State& state = *state_;
  const auto [epoch, task] = state.reader->epoch_and_task(state.taken);
  const int shards = state.reader->shards();
  std::string text = concat("data loader: timed out: no batch ", shards > 0 ? task / shards : task,
                            " of epoch ", epoch, " within ", seconds, " s");
  for (const auto& thread : state.threads) {
    if (thread->number != state.taken && state.options.in_order) continue;
    if (thread->number < 0) continue;
    const int64_t own_task = state.reader->epoch_and_task(thread->number).second;
    text += concat("; ", thread->status.who, "reads ",
                   state.reader->describe(own_task, thread->status.sample.load()));
  }
  return text;
}

void Workers::work(const std::shared_ptr<State>& shared, int id) {
  State& state = *shared;
  set_num_threads(1);
  const auto seed_in = [&](int64_t epoch) {
    const BatchRead::Randomness from = state.reader->randomness(epoch);
    PhiloxStream random = data_stream(from.seed, from.epoch, kStreamsOfWorkers);
    const uint64_t high = random.next();
    return (high << 32 | random.next()) + static_cast<uint64_t>(id);
  };
  const int64_t first_epoch = state.reader->epoch_and_task(state.options.first).first;
  WorkerInfo info{id, state.options.most, seed_in(first_epoch), &state.stop};
  current_worker = &info;
  std::unique_lock lock(state.mutex);
  State::Thread& own = *state.threads[static_cast<size_t>(id)];
  lock.unlock();
  std::exception_ptr init_error;
  try {
    if (state.options.init) state.options.init(id);
  } catch (...) {
    init_error = current_error_at(concat("data loader: worker_init_fn of worker ", id, ": "));
  }
  lock.lock();
  while (true) {
    state.freed.wait(lock, [&] { return state.stop || (id < state.active && state.may_start()); });
    if (state.stop) break;
    own.number = state.started++;
    const auto [epoch, task] = state.reader->epoch_and_task(own.number);
    lock.unlock();
    info.seed = seed_in(epoch);
    Result result = state.reader->read(epoch, task, own.status);
    if (init_error) result.error = std::exchange(init_error, nullptr);
    lock.lock();
    const int64_t number = std::exchange(own.number, -1);
    // After a jump there is no interest in earlier tasks.
    if (!state.options.in_order || number >= state.taken) {
      state.results[number] = std::move(result);
    }
    state.filled.notify_one();
  }
  own.done = true;
  current_worker = nullptr;
  state.ended.notify_all();
}

}  // namespace loading

}  // namespace wick::data
