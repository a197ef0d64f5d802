#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <new>
#include <random>
#include <stdexcept>
#include <thread>

#include "wick/data/worker_info.h"
#include "wick/tests/data/loader_testing.h"
#include "wick/tests/harness/sanitized.h"

// What workers must withstand: being dropped at any moment, sources that block or break, and epoch
// after epoch.
namespace wick::data {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

int64_t threads_of_process() {
  std::thread([] {}).join();  // ThreadSanitizer starts one of its own with the first
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

// A thread that was joined can be listed a moment longer.
void expect_threads(int64_t count) {
  for (int i = 0; i < 2000 && threads_of_process() > count; ++i) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(threads_of_process(), count);
}

// How often a random test is repeated: WICK_LOADER_ROUNDS says it for a campaign.
int rounds(int usual) {
  const char* text = std::getenv("WICK_LOADER_ROUNDS");
  return text == nullptr ? usual : std::atoi(text);
}

class Slow final : public RandomDataset {
 public:
  explicit Slow(int64_t size) : RandomDataset(size) {}
  void read(int64_t index, PhiloxStream random, std::span<void* const> out) const override {
    if (index % 9 == 0) std::this_thread::sleep_for(microseconds(index));
    WICK_CHECK(index != 40, "broken");
    RandomDataset::read(index, random, out);
  }
};

TEST(LoaderWorkers, CanBeDroppedAndBegunAgainAtAnyMoment) {
  const auto dataset = std::make_shared<Slow>(64);
  const int64_t threads = threads_of_process();
  std::minstd_rand random(7);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < rounds(200); ++round) {
    DataLoader loader(dataset, {.batch_size = 4,
                                .shuffle = true,
                                .num_workers = below(6) == 0 ? kAuto : 1 + below(5),
                                .prefetch_factor = 1 + below(3),
                                .persistent_workers = below(2) == 0,
                                .in_order = below(4) != 0});
    for (int walks = below(3); walks >= 0; --walks) {
      for (int i = below(20); i > 0; --i) {
        try {
          loader.next();
        } catch (const Error&) {  // that of sample 40
        }
      }
      if (below(3) == 0) std::this_thread::sleep_for(microseconds(below(400)));
      if (walks > 0) loader.seek(below(3), below(16));
    }
  }
  expect_threads(threads);
}

// Waits at sample 5 for ever, or until it is told that nobody wants it.
class Stuck final : public RandomDataset {
 public:
  explicit Stuck(bool asks) : RandomDataset(20), asks_(asks) {}
  void read(int64_t index, PhiloxStream random, std::span<void* const> out) const override {
    while (index == 5 && !released) {
      reached = true;
      std::this_thread::sleep_for(milliseconds(1));
      WICK_CHECK(!asks_ || !get_worker_info()->stopping(), "given up");
    }
    RandomDataset::read(index, random, out);
  }
  mutable std::atomic<bool> reached{false}, released{false};

 private:
  bool asks_;
};

void reach(const Stuck& dataset) {
  while (!dataset.reached) std::this_thread::yield();
}

TEST(LoaderWorkers, ASourceIsToldWhenNobodyWantsIt) {
  const int64_t threads = threads_of_process();
  const auto dataset = std::make_shared<Stuck>(true);
  {
    DataLoader loader(dataset, {.batch_size = 2, .num_workers = 2});
    loader.next();
    reach(*dataset);
  }
  expect_threads(threads);  // none is left, though nothing was delivered
}

TEST(LoaderWorkers, ASourceThatBlocksForEverIsLeftToItself) {
  auto dataset = std::make_shared<Stuck>(false);
  const std::weak_ptr<Stuck> held = dataset;
  {
    DataLoader loader(dataset, {.batch_size = 2, .num_workers = 2});
    loader.next();
    reach(*dataset);
  }  // this ends, or the test never does
  Stuck& stuck = *dataset;
  dataset.reset();
  ASSERT_FALSE(held.expired());  // the thread still reads from it
  stuck.released = true;
  while (!held.expired()) std::this_thread::yield();
}

// Each sample is a byte of a FIFO.
class Fifo final : public RandomDataset {
 public:
  explicit Fifo(std::string path)
      : RandomDataset(8), path_(std::move(path)), file_(open(path_.c_str(), O_RDWR)) {}
  Fifo(const Fifo&) = delete;
  Fifo& operator=(const Fifo&) = delete;
  ~Fifo() override { close(file_); }
  void read(int64_t index, PhiloxStream random, std::span<void* const> out) const override {
    char byte = 0;
    asked_ = true;
    WICK_CHECK(::read(file_, &byte, 1) == 1, path_, ": cannot be read");
    RandomDataset::read(index, random, out);
  }
  std::string name(int64_t) const override { return path_; }
  bool asked() const { return asked_; }
  void deliver(size_t bytes) const {
    const std::string data(bytes, 'x');
    ASSERT_EQ(write(file_, data.data(), bytes), static_cast<ssize_t>(bytes));
  }

 private:
  std::string path_;
  int file_;
  mutable std::atomic<bool> asked_ = false;
};

TEST(LoaderWorkers, ATimeoutNamesTheSourceAndTheBatchCanStillCome) {
  const TemporaryFolder folder;
  const std::string path = folder.path("never.fifo");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const auto dataset = std::make_shared<Fifo>(path);
  DataLoader loader(dataset, {.batch_size = 2, .num_workers = 1, .timeout = 0.05});
  while (!dataset->asked()) EXPECT_THROW(loader.next(), Error);  // a slow machine's worker
  for (int i = 0; i < 2; ++i) {
    expect_error([&] { loader.next(); }, {"timed out", "no batch 0 of epoch 0", "within 0.05 s",
                                          "worker 0, reads sample 0 (" + path + ")"});
  }
  dataset->deliver(8);
  std::vector<int64_t> seen;
  while (seen.size() < 8) {
    try {
      for (const int64_t i : indices(*loader.next())) seen.push_back(i);
    } catch (const Error&) {  // too slow a machine: it comes later
    }
  }
  EXPECT_EQ(seen, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  dataset->deliver(64);  // for what is read ahead
}

// One sample in ten is broken.
class Broken final : public RandomDataset {
 public:
  explicit Broken(int64_t size) : RandomDataset(size) {}
  void read(int64_t index, PhiloxStream random, std::span<void* const> out) const override {
    WICK_CHECK(index % 10 != 3, "/data/", index, ".jpg: damaged JPEG");
    RandomDataset::read(index, random, out);
  }
};

TEST(LoaderWorkers, BrokenSamplesCanBeSkippedAndCounted) {
  std::vector<Bytes> expected;
  for (const int workers : {0, 1, 4}) {
    DataLoader loader(std::make_shared<Broken>(40), {.batch_size = 4,
                                                     .shuffle = true,
                                                     .num_workers = workers,
                                                     .seed = 3,
                                                     .on_error = OnError::kSkip});
    const std::vector<Bytes> got = take(loader, 22);
    EXPECT_EQ(loader.epoch(), 2);
    EXPECT_EQ(loader.skipped(), 8);
    EXPECT_NE(loader.last_skipped().find("3.jpg: damaged JPEG"), std::string::npos);
    if (expected.empty()) expected = got;
    EXPECT_EQ(got, expected) << workers;
  }
  DataLoader ordered(std::make_shared<Broken>(8), {.batch_size = 4, .on_error = OnError::kSkip});
  EXPECT_EQ(indices(*ordered.next()), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(indices(*ordered.next()), (std::vector<int64_t>{4, 5, 6, 7}));
  // A batch of which nothing is left is passed over.
  DataLoader single(std::make_shared<Broken>(5), {.on_error = OnError::kSkip});
  std::vector<int64_t> seen;
  for (const Batch& batch : single) seen.push_back(indices(batch)[0]);
  EXPECT_EQ(seen, (std::vector<int64_t>{0, 1, 2, 4}));
}

// Throws what is no error of Wick's.
class Foreign final : public RandomDataset {
 public:
  explicit Foreign(bool in_memory) : RandomDataset(4), in_memory_(in_memory) {}
  void read(int64_t index, PhiloxStream random, std::span<void* const> out) const override {
    if (index == 1 && in_memory_) throw std::bad_alloc();
    if (index == 1) throw std::runtime_error("damaged row");
    RandomDataset::read(index, random, out);
  }

 private:
  bool in_memory_;
};

TEST(LoaderWorkers, SamplesAreSkippedWhateverTheirException) {
  for (const int workers : {0, 2}) {
    const DataLoaderOptions options{
        .batch_size = 2, .num_workers = workers, .on_error = OnError::kSkip};
    DataLoader stacked(std::make_shared<Foreign>(false), options);
    EXPECT_EQ(indices(*stacked.next()), (std::vector<int64_t>{0}));
    EXPECT_EQ(indices(*stacked.next()), (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(stacked.skipped(), 1);
    EXPECT_EQ(stacked.last_skipped(), "sample 1: damaged row");
    const auto get = [](int64_t index, PhiloxStream) -> Sample {
      if (index == 1) throw std::runtime_error("damaged row");
      return {scalar_tensor(index, kInt64)};
    };
    DataLoader gathered(std::make_shared<FunctionDataset>(4, get), options);
    EXPECT_EQ(gathered.next()->size(), 1);
    EXPECT_EQ(gathered.skipped(), 1);
    // There is no memory for other samples either.
    DataLoader none(std::make_shared<Foreign>(true), options);
    EXPECT_THROW(none.next(), Error);
    EXPECT_EQ(none.skipped(), 0);
  }
}

TEST(LoaderWorkers, AForkHasNone) {
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
  GTEST_SKIP() << "ThreadSanitizer ends a child that detaches a thread which the fork did not copy";
#endif
#endif
  DataLoader loader = loader_of(8, {.batch_size = 2, .num_workers = 2});
  loader.next();
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // rather than hang
    std::string error;
    {
      DataLoader forked = std::move(loader);
      try {
        forked.next();
      } catch (const Error& thrown) {
        error = thrown.what();
      }
    }
    _exit(error.starts_with("data loader: this process was forked") ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(loader.next());
}

class OutOfMemoryDataset final : public RandomDataset {
 public:
  OutOfMemoryDataset() : RandomDataset(2) {}
  void read(int64_t, PhiloxStream, std::span<void* const>) const override {
    throw OutOfMemory("no memory", 77);
  }
};

TEST(LoaderWorkers, OtherErrorsAreNeitherSkippedNorChanged) {
  for (const int workers : {0, 1}) {
    DataLoader loader(std::make_shared<OutOfMemoryDataset>(),
                      {.num_workers = workers, .on_error = OnError::kSkip});
    try {
      loader.next();
      ADD_FAILURE() << "no error";
    } catch (const OutOfMemory& error) {
      EXPECT_EQ(error.requested_bytes(), 77u);
      EXPECT_NE(std::string(error.what()).find("sample 0: no memory"), std::string::npos);
    }
  }
}

int64_t resident_kilobytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::atoll(line.c_str() + 6);
  }
  return 0;
}

TEST(LoaderWorkers, MemoryStaysLevelOverManyEpochs) {
  if (testing::kSanitized) GTEST_SKIP() << "sanitizers keep what is freed";
  DataLoader loader = loader_of(200, {.batch_size = 16, .shuffle = true, .num_workers = 3});
  const auto walk = [&](int epochs) {
    for (int i = 0; i < epochs; ++i) {
      while (loader.next()) continue;
    }
    return resident_kilobytes();
  };
  const int64_t before = walk(30);
  const int64_t after = walk(rounds(200));
  EXPECT_LT(after, before + before / 50 + 256);
}

}  // namespace
}  // namespace wick::data
