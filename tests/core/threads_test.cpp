// What becomes of CPU threads in a forked process, and of errors in them.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "wick/core/base/parallel.h"
#include "wick/core/core.h"
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
  std::atomic<int> there{0};
  parallel_for(2, 1, [&](int64_t begin, int64_t) {
    ids[begin] = std::this_thread::get_id();
    there.fetch_add(1);
    while (there.load() < 2) std::this_thread::yield();  // the other piece runs meanwhile
  });
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

TEST(Parallel, SaysWhereItGetsNoThread) {
  if (testing::kSanitized) GTEST_SKIP() << "sanitizers need the address space";
  const std::string text = in_a_fork([] {
    std::string error;
    std::thread user([&] {
      rlimit limit{};
      std::ifstream("/proc/self/statm") >> limit.rlim_cur;  // pages
      limit.rlim_cur = limit.rlim_max =
          limit.rlim_cur * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (1 << 20);
      setrlimit(RLIMIT_AS, &limit);
      set_num_threads(300);
      error = error_of([] { parallel_for(300, 1, [](int64_t, int64_t) {}); });
      set_num_threads(1);  // nothing is left half done
      use_two_threads();
    });
    user.join();
    return error;
  });
  EXPECT_EQ(text,
            "threads: cannot start a thread: Resource temporarily unavailable: the limit of "
            "processes (ulimit -u) or the memory may be too small");
}

// Every piece runs once, whatever the threads of calls before are still at.
TEST(Parallel, RunsEachPieceOnce) {
  for (const int threads : {2, 3, 7, 2}) {
    const ThreadsScope scope(threads);
    for (int64_t n = 1; n < 200; ++n) {
      std::vector<std::atomic<int>> times(static_cast<size_t>(n));
      parallel_for(n, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) times[static_cast<size_t>(i)].fetch_add(1);
      });
      for (const std::atomic<int>& count : times) ASSERT_EQ(count.load(), 1) << n;
    }
  }
}

// A piece may use memory that goes by its thread's number: no two threads have one number.
TEST(Parallel, NumbersItsThreads) {
  const ThreadsScope scope(3);
  std::atomic<bool> used[3] = {};
  for (int call = 0; call < 2000; ++call) {
    const int64_t threads = 2 + call % 2;
    parallel_for_threads(12, threads, [&](int64_t thread, int64_t, int64_t) {
      ASSERT_LT(thread, threads);
      EXPECT_FALSE(used[thread].exchange(true));
      used[thread].store(false);
    });
  }
}

TEST(Parallel, RunsAPieceOfAPieceOnItsThread) {
  const ThreadsScope scope(2);
  std::atomic<int> pieces{0};
  parallel_for(8, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const std::thread::id here = std::this_thread::get_id();
      parallel_for(8, 1, [&](int64_t from, int64_t to) {
        EXPECT_EQ(std::this_thread::get_id(), here);
        pieces.fetch_add(static_cast<int>(to - from));
      });
    }
  });
  EXPECT_EQ(pieces.load(), 64);
}

// An executor that starts a thread for each task, or runs all tasks on the calling one.
class Tasks : public Executor {
 public:
  explicit Tasks(bool threads) : threads_(threads) {}
  void run(int tasks, void (*task)(const void*, int), const void* context) override {
    ++calls;
    std::vector<std::thread> threads;
    for (int i = 0; i < tasks; ++i) {
      if (threads_) {
        threads.emplace_back(task, context, i);
      } else {
        task(context, i);
      }
    }
    for (std::thread& thread : threads) thread.join();
  }
  int calls = 0;

 private:
  bool threads_;
};

TEST(Executor, RunsKernelsWithTheSameBits) {
  const ThreadsScope scope(3);
  const Tensor a = wick::rand({257, 129}), b = wick::rand({129, 65});
  const auto result = [&] { return a.matmul(b).softmax(0).sum(1).to_vector<float>(); };
  const std::vector<float> expected = result();
  for (const bool threads : {true, false}) {
    const auto executor = std::make_shared<Tasks>(threads);
    set_executor(executor);
    const std::vector<float> found = result();
    const std::string error = error_of([] {
      parallel_for(
          2, 1, [](int64_t begin, int64_t) { WICK_CHECK(begin == 0, "body: wrong: got ", begin); });
    });
    set_executor(nullptr);
    EXPECT_GT(executor->calls, 1);
    EXPECT_EQ(found, expected);
    EXPECT_EQ(error, "body: wrong: got 1");
  }
  EXPECT_EQ(result(), expected);
}

TEST(Parallel, ServesSeveralThreadsAtOnce) {
  std::vector<std::thread> users;
  std::atomic<int64_t> sum{0};
  for (int user = 0; user < 4; ++user) {
    users.emplace_back([&] {
      set_num_threads(3);
      for (int call = 0; call < 300; ++call) {
        parallel_for(64, 1, [&](int64_t begin, int64_t end) { sum.fetch_add(end - begin); });
        if (call % 100 == 99) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  for (std::thread& user : users) user.join();
  EXPECT_EQ(sum.load(), 4 * 300 * 64);
}

TEST(Backward, OfSeveralThreadsAddsToOneLeaf) {
  constexpr int kThreads = 3, kPasses = 3;
  const Tensor leaf = ones({64}).set_requires_grad();
  for (int round = 0; round < 300; ++round) {
    leaf.set_grad({});
    std::atomic<int> waiting{kThreads};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        --waiting;
        while (waiting > 0) std::this_thread::yield();
        for (int pass = 0; pass < kPasses; ++pass) (leaf * 2).sum().backward();
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_TRUE(leaf.grad().equal(full({64}, 2 * kThreads * kPasses))) << round;
  }
}

}  // namespace
}  // namespace wick
