#include "wick/train/inspection.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "wick/core/checkpoint.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/temporary_folder.h"
#include "wick/tests/train/small_run.h"

namespace wick::testing {
namespace {

using Kind = train::Difference::Kind;
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Inspection, CountsWhatIsNotFinite) {
  const Tensor x = tensor<float>({3, 4, float(NAN), float(kInf), float(-kInf), float(NAN)});
  const train::TensorFigures figures = train::figures_of(x.view({2, 3}));
  EXPECT_EQ(figures.nan, 2);
  EXPECT_EQ(figures.infinite, 2);
  EXPECT_EQ(figures.norm, 5);
  EXPECT_EQ(figures.shape, (Shape{2, 3}));
  // sha256sum of the four bytes of 1.0F
  EXPECT_EQ(train::figures_of(tensor<float>({1})).sha256,
            "e00e5eb9444182f352323374ef4e08ebcb784725fdd4fd612d7730540b3e0c8c");
}

TEST(Inspection, NamesEachDifference) {
  const int64_t large = (int64_t{1} << 60) + 1;  // which no double is
  train::Inspected a, b;
  a.tensors = {{"bits", tensor<int64_t>({large})},      {"dtype", ones({2})}, {"gone", ones({1})},
               {"nan", tensor<float>({float(NAN), 1})}, {"same", ones({3})},  {"shape", ones({2})}};
  b.tensors = {{"bits", tensor<int64_t>({large - 1})},
               {"dtype", ones({2}, kFloat64)},
               {"nan", tensor<float>({float(NAN), 1.5F})},
               {"new", ones({1})},
               {"same", ones({3})},
               {"shape", ones({3})}};
  const std::vector<train::Difference> found = train::differences(a, b);
  std::vector<std::pair<std::string, Kind>> kinds;
  for (const train::Difference& d : found) kinds.emplace_back(d.name, d.kind);
  const std::vector<std::pair<std::string, Kind>> expected = {
      {"bits", Kind::kElements}, {"dtype", Kind::kDtype},    {"gone", Kind::kOnlyFirst},
      {"nan", Kind::kElements},  {"new", Kind::kOnlySecond}, {"shape", Kind::kShape}};
  EXPECT_EQ(kinds, expected);
  EXPECT_EQ(found[0].elements, 1);
  EXPECT_EQ(found[3].elements, 1);
  EXPECT_EQ(found[3].largest, 0.5);
  EXPECT_EQ(found[3].relative_norm, 0.5);
  EXPECT_NE(a.sha256(), b.sha256());
  EXPECT_TRUE(train::differences(a, a).empty());
}

TEST(Inspection, ReadsFilesCheckpointsAndRuns) {
  const TemporaryFolder folder;
  const std::string run = folder.path("run");
  SmallRun({.epochs = 2, .folder = run}).trainer.run();
  const auto weights = train::inspect(run + "/weights.safetensors");
  const auto whole = train::inspect(run);
  EXPECT_EQ(whole.path, run + "/weights.safetensors");
  EXPECT_EQ(whole.sha256(), weights.sha256());
  const auto checkpoint = train::inspect(run + "/checkpoints/step-10");
  EXPECT_EQ(checkpoint.tensors.count("weights/0.weight"), 1u);
  EXPECT_EQ(checkpoint.tensors.count("position/random_seed"), 1u);
  std::filesystem::remove(run + "/weights.safetensors");
  const auto newest = train::inspect(run);
  EXPECT_EQ(newest.path, run + "/checkpoints/step-20");
  EXPECT_EQ(newest.sha256(), weights.sha256());
  std::filesystem::resize_file(run + "/checkpoints/step-10/weights.safetensors", 50);
  EXPECT_NE(error_of([&] { train::inspect(run + "/checkpoints/step-10"); }).find("wrong size"),
            std::string::npos);
  EXPECT_NE(error_of([&] { train::inspect(folder.path()); }).find("holds no run"),
            std::string::npos);
}

}  // namespace
}  // namespace wick::testing
