// What becomes of CPU threads in a forked process, and of errors in them.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "wick/core/base/parallel.h"
#include "wick/core/ops/matmul.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/sanitized.h"

namespace wick {
namespace {

using wick::testing::error_of;

struct ThreadsScope {
  explicit ThreadsScope(int threads) { set_num_threads(threads); }
  ~ThreadsScope() { set_num_threads(before); }
  ThreadsScope(const ThreadsScope&) = delete;
  ThreadsScope& operator=(const ThreadsScope&) = delete;
  int before = num_threads();
};

// What `work` returns in a child of this process.
template <class Work>
std::string in_a_fork(const Work& work) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // rather than hang
    const std::string text = work();
    if (write(ends[1], text.data(), text.size()) < 0) _exit(1);
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[256];
  for (ssize_t got = 0; (got = read(ends[0], buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0 ? text : text + " (status " + std::to_string(status) + ")";
}

void use_two_threads() {
  parallel_for(2, 1, [](int64_t, int64_t) {});
}

TEST(Fork, AfterAParallelRegionIsAnErrorThatSaysWhatToDo) {
  const ThreadsScope threads(2);
  use_two_threads();
  const std::string region = in_a_fork([] { return error_of(use_two_threads); });
  EXPECT_EQ(region,
            "threads: this process was forked after its parent had computed on several threads, "
            "which a fork does not copy: got num_threads() of 2, expected set_num_threads(1), or a "
            "fork before the first operation");
  const std::string matmul = in_a_fork([] {
    return error_of([] { ones({64, 64}).matmul(ones({64, 64})); });
  });
  EXPECT_EQ(matmul.substr(0, 33), "matmul: this process was forked a");
}

TEST(Fork, ComputesOnOneThreadWhereAsked) {
  const ThreadsScope threads(2);
  use_two_threads();
  EXPECT_EQ(in_a_fork([] {
              set_num_threads(1);
              const Tensor y = ones({64, 64}).matmul(ones({64, 64}));
              return std::to_string(y.to_vector<float>()[4095]);
            }),
            "64.000000");
}

TEST(Fork, LeavesTheParentAsItWas) {
  const ThreadsScope threads(2);
  use_two_threads();
  in_a_fork([] { return std::string(); });
  EXPECT_EQ(error_of(use_two_threads), "no error");
}

TEST(Parallel, RunsOnSeveralThreads) {
  const ThreadsScope threads(2);
  std::thread::id ids[2];
  parallel_for(2, 1, [&](int64_t begin, int64_t) { ids[begin] = std::this_thread::get_id(); });
  EXPECT_NE(ids[0], ids[1]);
}

TEST(Parallel, HandsOnWhatABodyThrows) {
  const ThreadsScope threads(2);
  EXPECT_EQ(error_of([] {
              parallel_for(2, 1, [](int64_t begin, int64_t) {
                WICK_CHECK(begin == 0, "body: wrong: got ", begin);
              });
            }),
            "body: wrong: got 1");
  EXPECT_EQ(error_of(use_two_threads), "no error");
}

}  // namespace
}  // namespace wick
