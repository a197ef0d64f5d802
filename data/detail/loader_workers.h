#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "wick/data/detail/loader_reader.h"

namespace wick::data::loading {

/// Threads that read ahead what a Reader makes, by its numbers of tasks.
class Workers {
 public:
  struct Options {
    int count = 1;     // to begin with
    int most = 1;      // that `set_count` will ask for
    int prefetch = 2;  // results held per worker
    bool in_order = true;
    int64_t first = 0;  // number of the first task
    int64_t end = 0;    // number behind the last one that may be begun
    std::function<void(int)> init = {};
  };
  Workers(std::shared_ptr<Reader> reader, Options options);
  /// Waits a second for threads to end; those that do not are left to themselves.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Waits for the result of the next task in turn, or of any of its epoch. With `timeout` seconds
  /// above 0, throws once they have passed.
  Result take(double timeout);
  bool ready();
  /// Error in a fork of the process whose threads these are: a fork has none of them.
  void check_process() const;
  /// How many threads take new tasks.
  int count() const;
  /// Throws std::system_error, and leaves the count as it was, where no more threads can be had.
  void set_count(int count);
  /// Goes on with other tasks, once all of the last ones are taken or of no interest.
  void jump(int64_t first, int64_t end);

 private:
  struct State;
  static void work(const std::shared_ptr<State>& state, int id);
  void start_threads(int count);
  void stop();
  std::string describe_wait(double seconds) const;

  const int process_;             // that the threads are in
  std::shared_ptr<State> state_;  // which threads left to themselves share
  std::vector<std::thread> threads_;
};

}  // namespace wick::data::loading
