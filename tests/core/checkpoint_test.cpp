#include "wick/core/checkpoint.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "wick/core/core.h"
#include "wick/core/file.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/temporary_folder.h"

namespace wick::testing {
namespace {

namespace fs = std::filesystem;

Checkpoint checkpoint_of(int64_t step, double value) {
  Checkpoint checkpoint;
  checkpoint.step = step;
  checkpoint.parts["weights"] = {{"w", full({3}, value)}};
  return checkpoint;
}

double value_of(const Checkpoint& checkpoint) {
  return checkpoint.parts.at("weights").at("w")[0].item();
}

class CheckpointStoreTest : public ::testing::Test {
 protected:
  void damage(int64_t step) {
    write_file(concat(folder_.path(), "/step-", step, "/weights.safetensors"), "nonsense");
  }
  TemporaryFolder folder_;
};

TEST_F(CheckpointStoreTest, KeepsTheNewestOfThoseUpToTheOneSaved) {
  const CheckpointStore store(folder_.path(), 2);
  for (const int64_t step : {10, 20, 30}) store.save(checkpoint_of(step, double(step)));
  EXPECT_FALSE(fs::exists(folder_.path() + "/step-10"));
  damage(20);
  damage(30);
  EXPECT_FALSE(store.load_newest());
  // From the beginning again: what is saved stays, whatever lies beyond it.
  store.save(checkpoint_of(5, 5));
  EXPECT_EQ(store.load_newest()->step, 5);
  store.save(checkpoint_of(6, 6));
  store.save(checkpoint_of(7, 7));
  EXPECT_EQ(store.load_newest()->step, 7);
  EXPECT_TRUE(fs::exists(folder_.path() + "/step-6"));
  EXPECT_FALSE(fs::exists(folder_.path() + "/step-5"));
}

TEST_F(CheckpointStoreTest, PassesOverOneOfAnotherVersion) {
  const CheckpointStore store(folder_.path());
  store.save(checkpoint_of(1, 1));
  store.save(checkpoint_of(2, 2));
  const std::string manifest = folder_.path() + "/step-2/manifest.json";
  std::string text = read_file(manifest, 1 << 20);
  text.replace(text.find("\"version\": 1"), 12, "\"version\": 2");
  write_file(manifest, text);
  std::string rejected;
  EXPECT_EQ(store.load_newest(&rejected)->step, 1);
  EXPECT_NE(rejected.find("is of version 2, expected 1: another release"), std::string::npos);
}

TEST_F(CheckpointStoreTest, ReplacesOneOfTheSameStep) {
  const CheckpointStore store(folder_.path(), 1);
  store.save(checkpoint_of(5, 1));
  store.save(checkpoint_of(5, 2));
  EXPECT_EQ(value_of(*store.load_newest()), 2);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 1);
}

// Of a terabyte: reading it would take until the test is ended.
TEST_F(CheckpointStoreTest, DoesNotReadAFileOfTheWrongSize) {
  const CheckpointStore store(folder_.path(), 2);
  store.save(checkpoint_of(1, 1));
  store.save(checkpoint_of(2, 2));
  fs::resize_file(folder_.path() + "/step-2/weights.safetensors", uint64_t{1} << 40);
  std::string rejected;
  EXPECT_EQ(store.load_newest(&rejected)->step, 1);
  EXPECT_NE(rejected.find("wrong size: got 1099511627776"), std::string::npos) << rejected;
}

TEST_F(CheckpointStoreTest, SaysThatAFolderCannotBeRead) {
  EXPECT_FALSE(CheckpointStore(folder_.path() + "/none", 2).load_newest());
  const std::string file = folder_.path() + "/file";
  write_file(file, "no folder");
  EXPECT_NE(
      error_of([&] { CheckpointStore(file, 2).load_newest(); }).find("checkpoint: cannot read"),
      std::string::npos);
}

}  // namespace
}  // namespace wick::testing
