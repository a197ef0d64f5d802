// Every algorithm for convolutions, on shapes at random and in the cases known to be difficult.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <random>

#include "wick/core/autograd.h"
#include "wick/core/base/parallel.h"
#include "wick/core/conv_plan.h"
#include "wick/core/file.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/conv.h"
#include "wick/core/plans.h"
#include "wick/core/stream.h"
#include "wick/kernels/cpu/product.h"
#include "wick/tests/core/ops/conv_reference.h"

namespace wick::testing {
namespace {

constexpr ConvDirection kDirections[] = {ConvDirection::kForward, ConvDirection::kBackwardData,
                                         ConvDirection::kBackwardWeights};

struct ConvPlans : ::testing::Test {
  void TearDown() override {
    plans_clear();
    set_benchmark(false);
    set_num_threads(threads_);
  }
  int threads_ = num_threads();
};

std::vector<ConvAlgorithm> algorithms(const Conv2dProblem& problem, Device device = kCpu) {
  ConvAlgorithm list[kConvAlgorithms];
  int count = 0;
  WICK_DISPATCH(device, conv2d_algorithms(problem, device, list, &count));
  return {list, list + count};
}

HostArray random_array(const Shape& shape, std::mt19937& random) {
  HostArray array{shape, {}};
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (int64_t i = 0; i < shape.numel(); ++i) array.values.push_back(uniform(random));
  return array;
}

double rtol_of(Dtype dtype) {
  switch (dtype) {
    case kBFloat16: return 1.0 / 64;
    case kFloat16: return 1.0 / 512;
    case kFloat32: return 2e-5;
    default: return 1e-12;
  }
}

// One convolution with random elements, and what its results should be.
struct Trial {
  ConvSetting setting;
  Dtype dtype;
  Device device = kCpu;
  HostArray x, weight, bias, dy, y, dx, dweight;

  Trial(Dtype type, const Shape& x_shape, const Shape& w_shape, const ConvSetting& s, uint32_t seed)
      : setting(s), dtype(type) {
    std::mt19937 random(seed);
    x = rounded(random_array(x_shape, random), dtype);
    weight = rounded(random_array(w_shape, random), dtype);
    bias = rounded(random_array({w_shape[0]}, random), dtype);
    y = conv2d_reference(x, weight, &bias, setting);
    dy = rounded(random_array(y.shape, random), dtype);
    ConvGradients gradients = conv2d_gradient_reference(x, weight, dy, setting);
    dx = gradients.dx;
    dweight = gradients.dweight;
  }

  Conv2dProblem problem(ConvDirection direction) const {
    const Conv2dParams params{{setting.stride[0], setting.stride[1]},
                              {setting.padding[0], setting.padding[1]},
                              {setting.dilation[0], setting.dilation[1]},
                              setting.groups};
    return {direction, dtype, x.shape, weight.shape, y.shape, params};
  }

  std::string text() const {
    return concat(to_string(dtype), " x ", x.shape, " weight ", weight.shape, " stride ",
                  setting.stride, " padding ", setting.padding, " dilation ", setting.dilation,
                  " groups ", setting.groups);
  }

  // y, dx and dweight as the library computes them.
  std::vector<Tensor> run() const {
    const std::vector<Tensor> like{empty(y.shape, dtype), empty(x.shape, dtype),
                                   empty(weight.shape, dtype)};
    dirty_memory(like);
    const auto on_device = [&](const HostArray& array) {
      return make_tensor(array, dtype, Layout::kContiguous, device);
    };
    const Tensor tx = on_device(x).set_requires_grad(), tw = on_device(weight).set_requires_grad();
    const Tensor out = conv2d(tx, tw, on_device(bias), setting.stride, setting.padding,
                              setting.dilation, setting.groups);
    std::vector<Tensor> grads = grad({out}, {tx, tw}, {on_device(dy)});
    return {out.detach(), grads[0], grads[1]};
  }

  void expect_right(const std::vector<Tensor>& results, const std::string& what) const {
    const HostArray* wanted[] = {&y, &dx, &dweight};
    const char* names[] = {"y", "dx", "dweight"};
    for (size_t i = 0; i < 3; ++i) {
      double largest = 1;
      for (const double v : wanted[i]->values) largest = std::max(largest, std::fabs(v));
      const std::string wrong =
          difference(read(results[i]), *wanted[i], rtol_of(dtype), rtol_of(dtype) * largest);
      EXPECT_EQ(wrong, "") << what << ": " << names[i] << " of " << text();
    }
  }
};

// Runs `trial` once with each algorithm that each direction has; returns how many there were.
int expect_all_algorithms_right(const Trial& trial) {
  int runs = 0;
  for (int algorithm = 0; algorithm < kConvAlgorithms; ++algorithm) {
    plans_clear();
    int forced = 0;
    for (const ConvDirection direction : kDirections) {
      for (const ConvAlgorithm candidate : algorithms(trial.problem(direction), trial.device)) {
        if (static_cast<int>(candidate) != algorithm) continue;
        conv_plan_set(trial.problem(direction), trial.device, candidate);
        ++forced;
      }
    }
    if (forced == 0) continue;
    trial.expect_right(trial.run(), concat("algorithm ", algorithm));
    runs += forced;
  }
  return runs;
}

// Runs `trials` random convolutions on `device` by every algorithm; returns how many runs it took.
int try_random_shapes(Device device, const std::vector<Dtype>& dtypes, uint32_t trials) {
  std::mt19937 random(7);
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
  };
  int runs = 0;
  for (uint32_t number = 0; number < trials; ++number) {
    const Dtype dtype = dtypes[static_cast<size_t>(below(static_cast<int64_t>(dtypes.size())))];
    const int64_t groups = below(3) == 0 ? 1 + below(4) : 1;
    const int64_t c = below(2) == 0 ? 16 * (1 + below(2)) : 1 + below(20);
    const int64_t k = below(2) == 0 ? 16 * (1 + below(3)) : 1 + below(20);
    const int64_t r = 1 + below(4), s = 1 + below(4), d = 1 + below(2);
    const ConvSetting setting{{1 + below(2), 1 + below(2)}, {below(3), below(3)}, {d, d}, groups};
    const int64_t h = d * (r - 1) + 1 + below(9), w = d * (s - 1) + 1 + below(9);
    Trial trial(dtype, {1 + below(3), c * groups, h, w}, {k * groups, c, r, s}, setting, number);
    trial.device = device;
    runs += expect_all_algorithms_right(trial);
  }
  return runs;
}

TEST_F(ConvPlans, AllAlgorithmsAgreeOnRandomShapes) {
  const int fewest = cpu_isa() == CpuIsa::kAvx512 ? 600 : 500;  // bfloat16 has one with AVX2
  EXPECT_GT(try_random_shapes(kCpu, {kBFloat16, kBFloat16, kFloat64, kFloat32, kFloat32}, 150),
            fewest);
}

TEST_F(ConvPlans, AllAlgorithmsOfAGpuAgreeOnRandomShapes) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  const Device gpu = cuda_device(0);
  EXPECT_GT(try_random_shapes(gpu, {kFloat32, kFloat16, kBFloat16, kFloat64}, 60), 180);

  // Enough images for the weights' gradient to be summed in several pieces.
  Trial trial(kFloat32, {30, 3, 9, 8}, {2, 3, 2, 3}, {.padding = {1, 0}}, 3);
  trial.device = gpu;
  EXPECT_EQ(expect_all_algorithms_right(trial), 6);
}

TEST_F(ConvPlans, WinogradIsRightAtEveryEdge) {
  uint32_t seed = 0;
  for (int64_t size = 3; size <= 10; ++size) {
    for (int64_t padding = 0; padding <= 2; ++padding) {
      const Trial trial(kFloat32, {2, 32, size, 13 - size}, {48, 32, 3, 3},
                        {.padding = {padding, 2 - padding}}, ++seed);
      for (const ConvDirection direction : kDirections) {
        conv_plan_set(trial.problem(direction), kCpu, ConvAlgorithm::kWinograd);
      }
      trial.expect_right(trial.run(), "winograd");
    }
  }
}

TEST_F(ConvPlans, WeightsOfPointwiseKernelsWithStridesAreRight) {
  uint32_t seed = 0;
  for (const int64_t channels : {4, 8, 17}) {
    for (const int64_t size : {4, 8, 16}) {
      for (int repeat = 0; repeat < 4; ++repeat) {
        const Trial trial(kFloat32, {4, channels, size, size}, {16, channels, 1, 1},
                          {.stride = {2, 2}}, ++seed);
        trial.expect_right(trial.run(), "chosen");
      }
    }
  }
}

// About twice that of direct code, five times for weights; with the points 1 and 2 twice as much.
// Direct code with AVX2 has half the error in the input's gradient.
TEST_F(ConvPlans, WinogradsErrorIsNearDirectCodes) {
  const Trial trial(kFloat32, {2, 64, 16, 16}, {64, 64, 3, 3}, {.padding = {1, 1}}, 5);
  double error[2][3];
  for (const ConvAlgorithm algorithm : {ConvAlgorithm::kDirect, ConvAlgorithm::kWinograd}) {
    for (const ConvDirection direction : kDirections) {
      conv_plan_set(trial.problem(direction), kCpu, algorithm);
    }
    const std::vector<Tensor> results = trial.run();
    const HostArray* wanted[] = {&trial.y, &trial.dx, &trial.dweight};
    for (size_t i = 0; i < 3; ++i) {
      const std::vector<double> got = read(results[i]).values;
      double sum = 0;
      for (size_t j = 0; j < got.size(); ++j) {
        sum += (got[j] - wanted[i]->values[j]) * (got[j] - wanted[i]->values[j]);
      }
      error[algorithm == ConvAlgorithm::kWinograd][i] = std::sqrt(sum);
    }
  }
  EXPECT_LT(error[1][0], 3.2 * error[0][0]);
  EXPECT_LT(error[1][1], (cpu_isa() == CpuIsa::kAvx512 ? 3.2 : 4.8) * error[0][1]);
  EXPECT_LT(error[1][2], 7 * error[0][2]);
}

// Weights of few tiles, whose results are shared out; several blocks along k, and of columns.
TEST_F(ConvPlans, DirectCodeIsRightAndTheSameForAnyThreads) {
  const Trial trials[] = {
      Trial(kFloat32, {2, 3, 97, 96}, {5, 3, 3, 3}, {.padding = {1, 1}}, 1),
      Trial(kFloat32, {1, 100, 7, 6}, {400, 100, 3, 3}, {.padding = {1, 1}}, 2),
      Trial(kFloat64, {1, 60, 9, 6}, {20, 60, 3, 3}, {.stride = {2, 2}}, 3),
      Trial(kBFloat16, {2, 3, 96, 97}, {6, 3, 3, 3}, {.padding = {1, 1}}, 4),
      Trial(kBFloat16, {1, 190, 7, 6}, {402, 190, 3, 3}, {.padding = {1, 1}}, 5),
      Trial(kFloat32, {3, 37, 11, 12}, {37, 1, 3, 3}, {.stride = {2, 1}, .groups = 37}, 6),
      // Small images: taps outside of them are left out, in one and in several blocks of k.
      Trial(kFloat32, {13, 40, 5, 6}, {70, 40, 3, 3}, {.padding = {1, 1}}, 7),
      Trial(kFloat32, {8, 300, 4, 4}, {24, 300, 3, 3}, {.padding = {1, 1}}, 8),
      Trial(kFloat64, {9, 24, 8, 7}, {20, 24, 4, 5}, {{2, 3}, {2, 1}, {2, 1}, 1}, 9),
      Trial(kBFloat16, {7, 600, 4, 3}, {64, 600, 3, 3}, {.padding = {1, 1}}, 10),
      Trial(kBFloat16, {6, 64, 6, 6}, {96, 64, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}}, 11),
      // Short lines, which are multiplied where they lie; results that are written past the caches.
      Trial(kFloat32, {4, 3, 64, 66}, {64, 3, 3, 3}, {.padding = {1, 1}}, 12),
      Trial(kFloat32, {2, 4, 15, 16}, {16, 4, 3, 3}, {{1, 2}, {3, 2}, {2, 1}, 1}, 13),
      Trial(kBFloat16, {4, 3, 65, 64}, {64, 3, 7, 7}, {.stride = {2, 2}, .padding = {3, 3}}, 14),
      Trial(kBFloat16, {5, 5, 9, 10}, {32, 5, 2, 3}, {{1, 1}, {0, 1}, {3, 1}, 1}, 15)};
  for (const Trial& trial : trials) {
    if (!cpu::convolves(trial.dtype)) continue;
    for (const ConvDirection direction : kDirections) {
      conv_plan_set(trial.problem(direction), kCpu, ConvAlgorithm::kDirect);
    }
    set_num_threads(1);
    const std::vector<Tensor> one = trial.run();
    trial.expect_right(one, "direct");
    for (const int threads : {2, 3, 7}) {
      set_num_threads(threads);
      const std::vector<Tensor> many = trial.run();
      for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(bit_equal(one[i], many[i])) << threads;
    }
  }
}

TEST_F(ConvPlans, WinogradGivesTheSameBitsForAnyThreads) {
  const Trial trial(kFloat32, {3, 48, 17, 14}, {32, 48, 3, 3}, {.padding = {1, 1}}, 3);
  for (const ConvDirection direction : kDirections) {
    conv_plan_set(trial.problem(direction), kCpu, ConvAlgorithm::kWinograd);
  }
  set_num_threads(1);
  const std::vector<Tensor> one = trial.run();
  for (const int threads : {2, 3, 5}) {
    set_num_threads(threads);
    const std::vector<Tensor> many = trial.run();
    for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(bit_equal(one[i], many[i])) << threads;
  }
}

// Kernels for instructions that other processors do not have: nothing can run them there. Where the
// processor has them, a layer that is not taken is a failure.
struct MatrixUnits : ConvPlans {
  void SetUp() override {
    if (cpu::bfloat16_unit() != cpu::BFloat16Unit::kMatrix) {
      GTEST_SKIP() << "this processor has no matrix units (AMX), or WICK_CPU_ISA hides them";
    }
  }
};

bool takes_amx(const Trial& trial) {
  const std::vector<ConvAlgorithm> list = algorithms(trial.problem(ConvDirection::kForward));
  return std::find(list.begin(), list.end(), ConvAlgorithm::kAmx) != list.end();
}

void use_amx(const Trial& trial) {
  for (const ConvDirection direction : kDirections) {
    conv_plan_set(trial.problem(direction), kCpu, ConvAlgorithm::kAmx);
  }
}

// Strides with planes that are not full, padding beyond the kernel, and images too few or too small
// to fill a tile.
TEST_F(MatrixUnits, AreRightAtEveryEdge) {
  const ConvSetting settings[] = {{.padding = {1, 1}},
                                  {},
                                  {.stride = {2, 2}, .padding = {1, 1}},
                                  {.stride = {3, 2}, .padding = {0, 2}},
                                  {.padding = {4, 3}},
                                  {.padding = {2, 1}, .dilation = {2, 1}},
                                  {.stride = {2, 3}, .padding = {1, 3}, .dilation = {1, 2}}};
  uint32_t seed = 0;
  for (const ConvSetting& setting : settings) {
    for (const Shape& kernel : {Shape{3, 3}, Shape{1, 1}, Shape{2, 5}}) {
      for (const int64_t size : {7, 10}) {
        const Trial trial(kBFloat16, {3, 32, size, 16 - size}, {64, 32, kernel[0], kernel[1]},
                          setting, ++seed);
        ASSERT_TRUE(takes_amx(trial)) << trial.text();
        use_amx(trial);
        trial.expect_right(trial.run(), "amx");
      }
    }
  }
}

TEST_F(MatrixUnits, GiveTheSameBitsForAnyThreads) {
  const Trial trials[] = {
      Trial(kBFloat16, {26, 32, 12, 12}, {32, 32, 3, 3}, {.padding = {1, 1}}, 1),
      Trial(kBFloat16, {2, 96, 5, 6}, {64, 96, 3, 3}, {.stride = {2, 2}}, 2)};
  for (const Trial& trial : trials) {
    ASSERT_TRUE(takes_amx(trial)) << trial.text();
    use_amx(trial);
    set_num_threads(1);
    const std::vector<Tensor> one = trial.run();
    trial.expect_right(one, "amx");
    for (const int threads : {2, 3, 7}) {
      set_num_threads(threads);
      const std::vector<Tensor> many = trial.run();
      for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(bit_equal(one[i], many[i])) << threads;
    }
  }
}

// Tiles that are parts of one row of results, an odd number of them too; rows that only some phases
// of a gradient have.
TEST_F(MatrixUnits, TakeWholeTilesOfRows) {
  const Trial trials[] = {
      Trial(kBFloat16, {3, 32, 5, 16}, {32, 32, 3, 3}, {.padding = {1, 1}}, 1),
      Trial(kBFloat16, {2, 64, 7, 48}, {32, 64, 3, 3}, {.stride = {2, 1}, .padding = {1, 1}}, 2),
      Trial(kBFloat16, {5, 32, 9, 32}, {64, 32, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}}, 3),
      Trial(kBFloat16, {1, 32, 3, 18}, {32, 32, 3, 3}, {}, 4)};
  for (const Trial& trial : trials) {
    ASSERT_TRUE(takes_amx(trial)) << trial.text();
    use_amx(trial);
    trial.expect_right(trial.run(), "amx");
  }
}

// Images of few channels: rows of patches that fill no block, lines in several pieces, kernels as
// wide as a tile's row.
TEST_F(MatrixUnits, TakeFirstLayers) {
  const Trial trials[] = {
      Trial(kBFloat16, {2, 3, 37, 70}, {64, 3, 7, 7}, {.stride = {2, 2}, .padding = {3, 3}}, 1),
      Trial(kBFloat16, {3, 3, 32, 33}, {32, 3, 3, 3}, {.padding = {1, 1}}, 2),
      Trial(kBFloat16, {2, 1, 28, 28}, {32, 1, 5, 5}, {}, 3),
      Trial(kBFloat16, {2, 1, 9, 40}, {96, 1, 2, 16}, {.stride = {3, 1}, .padding = {1, 8}}, 4),
      Trial(kBFloat16, {1, 4, 12, 9}, {32, 4, 4, 8}, {.stride = {1, 5}, .padding = {2, 7}}, 5),
      Trial(kBFloat16, {2, 5, 20, 1}, {32, 5, 3, 1}, {.padding = {4, 0}, .dilation = {3, 1}}, 6),
      Trial(kBFloat16, {1, 3, 300, 260}, {32, 3, 5, 5}, {.stride = {4, 4}, .padding = {2, 2}}, 7),
      Trial(kBFloat16, {2, 24, 6, 7}, {64, 24, 1, 1}, {.stride = {2, 3}}, 8),
      Trial(kBFloat16, {2, 31, 6, 7}, {32, 31, 3, 1}, {.padding = {1, 2}}, 9)};
  for (const Trial& trial : trials) {
    ASSERT_TRUE(takes_amx(trial)) << trial.text();
    conv_plan_set(trial.problem(ConvDirection::kForward), kCpu, ConvAlgorithm::kAmx);
    conv_plan_set(trial.problem(ConvDirection::kBackwardWeights), kCpu, ConvAlgorithm::kAmx);
    set_num_threads(1);
    const std::vector<Tensor> one = trial.run();
    trial.expect_right(one, "amx");
    for (const int threads : {2, 3, 7}) {
      set_num_threads(threads);
      const std::vector<Tensor> many = trial.run();
      for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(bit_equal(one[i], many[i])) << threads;
    }
  }
}

// A pixel that is no number is part of the patches that it lies in, and of no other.
TEST_F(ConvPlans, FirstLayersKeepPatchesApart) {
  const Tensor x = ones({1, 3, 20, 40}), weight = ones({32, 3, 5, 5});
  x.slice(2, 9, 10).slice(3, 17, 18).fill_(std::nan(""));
  const auto is_wrong = [&](Dtype dtype) {
    return isnan(conv2d(x.to(dtype), weight.to(dtype), {}, {1, 1}, {2, 2})).to(kFloat32);
  };
  EXPECT_TRUE(bit_equal(is_wrong(kBFloat16), is_wrong(kFloat32)));
}

TEST_F(ConvPlans, TheRuleLeavesWhatWinogradLosesToDirectCode) {
  const auto first = [](const Shape& x, int64_t k) {
    const Shape y{x[0], k, x[2], x[3]};
    return algorithms(
        {ConvDirection::kForward, kFloat32, x, {k, x[1], 3, 3}, y, {{1, 1}, {1, 1}, {1, 1}, 1}})[0];
  };
  EXPECT_EQ(first({32, 64, 32, 32}, 64), ConvAlgorithm::kWinograd);
  EXPECT_EQ(first({16, 512, 7, 7}, 512), ConvAlgorithm::kWinograd);
  EXPECT_EQ(first({1, 512, 7, 7}, 512), ConvAlgorithm::kDirect);   // few pixels for the weights
  EXPECT_EQ(first({4, 32, 16, 16}, 64), ConvAlgorithm::kDirect);   // little to win
  EXPECT_EQ(first({16, 128, 5, 5}, 128), ConvAlgorithm::kDirect);  // tiles half empty
  EXPECT_EQ(first({32, 24, 32, 32}, 64), ConvAlgorithm::kDirect);  // channels not in sixteens
}

// Dilation, groups, channels that are not whole vectors, images one pixel wide.
TEST_F(ConvPlans, BFloat16IsRightInEverySetting) {
  if (!cpu::convolves(kBFloat16)) GTEST_SKIP() << "needs AVX-512's instructions for bfloat16";
  const Trial trials[] = {
      Trial(kBFloat16, {2, 40, 9, 9}, {16, 40, 3, 3}, {.dilation = {2, 2}}, 1),
      Trial(kBFloat16, {2, 100, 12, 7}, {24, 50, 3, 3}, {.dilation = {3, 1}, .groups = 2}, 2),
      Trial(kBFloat16, {4, 16, 9, 1}, {32, 16, 3, 1}, {.stride = {2, 2}}, 3),
      Trial(kBFloat16, {4, 32, 11, 1}, {16, 32, 5, 3}, {.stride = {2, 2}, .padding = {0, 1}}, 4),
      Trial(kBFloat16, {3, 24, 9, 1}, {24, 1, 3, 1}, {.stride = {2, 2}, .groups = 24}, 5),
      Trial(kBFloat16, {2, 3, 9, 8}, {34, 3, 5, 5}, {.stride = {2, 3}, .padding = {2, 1}}, 6),
      Trial(kBFloat16, {2, 33, 6, 6}, {9, 11, 3, 2}, {.padding = {1, 1}, .groups = 3}, 7)};
  for (const Trial& trial : trials) expect_all_algorithms_right(trial);
}

TEST_F(ConvPlans, Im2colInSeveralChunksIsRight) {
  // 4 * 56 * 56 * 9 * 96 floats are 43 MB of patches, in chunks of 32 MB.
  const Trial trial(kFloat32, {4, 96, 56, 56}, {2, 96, 3, 3}, {.padding = {1, 1}}, 11);
  for (const ConvDirection direction : kDirections) {
    conv_plan_set(trial.problem(direction), kCpu, ConvAlgorithm::kIm2col);
  }
  trial.expect_right(trial.run(), "im2col");
}

TEST_F(ConvPlans, MeasuredPlansAreSavedLoadedAndFollowed) {
  const Trial trial(kFloat32, {2, 16, 12, 12}, {32, 16, 3, 3}, {.padding = {1, 1}}, 5);
  set_benchmark(true);
  trial.expect_right(trial.run(), "measured");
  const std::string path = ::testing::TempDir() + "/plans.txt";
  plans_save(path);
  const std::string saved = read_file(path, 1 << 20);
  EXPECT_EQ(std::count(saved.begin(), saved.end(), '\n'), 4) << saved;

  plans_clear();
  plans_load(path);
  int measured = 0;
  const auto count = [&](const ConvPlan&) { ++measured; };
  for (const ConvDirection direction : kDirections) {
    conv_plan(trial.problem(direction), kCpu, count);
  }
  EXPECT_EQ(measured, 0);
  plans_save(path);
  EXPECT_EQ(read_file(path, 1 << 20), saved);
  plans_clear();
  conv_plan(trial.problem(ConvDirection::kForward), kCpu, count);
  EXPECT_GT(measured, 0);
  std::remove(path.c_str());
}

TEST_F(ConvPlans, FollowsAPlanInsteadOfTheRule) {
  const Trial trial(kFloat32, {2, 16, 12, 12}, {32, 16, 3, 3}, {.padding = {1, 1}}, 5);
  const Conv2dProblem problem = trial.problem(ConvDirection::kForward);
  const auto never = [](const ConvPlan&) { FAIL() << "measured"; };
  for (const ConvAlgorithm algorithm : algorithms(problem)) {
    conv_plan_set(problem, kCpu, algorithm);
    EXPECT_EQ(conv_plan(problem, kCpu, never), ConvPlan(algorithm));
  }
  const Conv2dProblem strided =
      Trial(kFloat32, {2, 16, 12, 12}, {32, 16, 3, 3}, {.stride = {2, 2}}, 5)
          .problem(ConvDirection::kForward);
  EXPECT_THROW(conv_plan_set(strided, kCpu, ConvAlgorithm::kWinograd), Error);
}

TEST_F(ConvPlans, RejectsFilesThatHoldNoPlans) {
  const std::string path = ::testing::TempDir() + "/bad_plans.txt";
  const std::string header = "wick plans 2\n", good = "cpu forward float32 library/a\n";
  for (const std::string& content :
       {std::string("plans\n"), header + "a b", header + good + "cpu forward x fastest\n",
        header + good + "direct\n", header + "cuda matmul x library/\n", "wick plans 3\n" + good}) {
    write_file(path, content);
    EXPECT_THROW(plans_load(path), Error) << content;
  }
  plans_save(path);
  EXPECT_EQ(read_file(path, 1 << 20), header);
  EXPECT_THROW(plans_load(path + ".missing"), Error);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace wick::testing
