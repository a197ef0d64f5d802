// Which of a vendor library's engines computes a convolution, a matrix product or attention:
// measured, kept, written and read.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>

#include "wick/core/autograd.h"
#include "wick/core/base/deterministic.h"
#include "wick/core/base/tf32.h"
#include "wick/core/conv_plan.h"
#include "wick/core/file.h"
#include "wick/core/ops/activation.h"
#include "wick/core/ops/attention.h"
#include "wick/core/ops/conv.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/plans.h"
#include "wick/core/stream.h"
#include "wick/core/tensor.h"
#include "wick/kernels/sim/simulator.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

struct SimulatedPlans : ::testing::Test {
  void TearDown() override {
    plans_clear();
    set_benchmark(false);
    set_deterministic(false);
    set_allow_tf32(false);
    sim::set_engines({});
    std::remove(path_.c_str());
  }

  // One value of x conv weight, of more channels than the direct algorithm is tried for.
  float convolve(int64_t size = 4) {
    const Tensor x = ones({1, 16, size, size}, kFloat32, kGpu);
    const Tensor weight = ones({2, 16, 1, 1}, kFloat32, kGpu);
    return conv2d(x, weight).to_vector<float>()[0];
  }

  // One value of a product of matrices of ones.
  static float multiply(int64_t size = 4, Dtype dtype = kFloat32) {
    const Tensor a = ones({3, size}, dtype, kGpu), b = ones({size, 2}, dtype, kGpu);
    return matmul(a, b).to(kFloat32).to_vector<float>()[0];
  }

  // Attention, then dq, dk and dv for gradients of ones.
  static std::vector<std::vector<float>> attend(bool is_causal = false) {
    const auto heads = [](int64_t length, double step) {
      const Tensor x = (arange(2 * length * 8) * step).sin().view({1, 2, length, 8});
      return x.to(kFloat16).to(kGpu).set_requires_grad();
    };
    const Tensor q = heads(3, 0.1), k = heads(5, 0.2), v = heads(5, 0.3);
    const Tensor y = scaled_dot_product_attention(q, k, v, {}, 0, is_causal);
    y.backward(ones(y.shape(), y.dtype(), y.device()));
    std::vector<std::vector<float>> all;
    for (const Tensor& x : {y, q.grad(), k.grad(), v.grad()}) {
      all.push_back(x.to(kFloat32).to_vector<float>());
    }
    return all;
  }

  std::string saved() const {
    plans_save(path_);
    return read_file(path_, 1 << 20);
  }

  static std::map<std::string, int64_t> runs() {
    std::map<std::string, int64_t> runs;
    for (const sim::Engine& engine : sim::engines()) runs[engine.name] = engine.runs;
    return runs;
  }

  std::string path_ = ::testing::TempDir() + "/simulated_plans.txt";
};
using Runs = std::map<std::string, int64_t>;

TEST_F(SimulatedPlans, WithoutMeasuringTheFirstEngineRuns) {
  sim::set_engines({{"eng0", 9}, {"eng1", 1}});
  EXPECT_EQ(convolve(), 16);
  EXPECT_EQ(runs(), (Runs{{"eng0", 1}, {"eng1", 0}}));
}

TEST_F(SimulatedPlans, TheFastestEngineIsMeasuredOnceAndKept) {
  set_benchmark(true);
  sim::set_engines({{"eng0", 9}, {"eng7_k2=1", 2.5}, {"eng7_k2=3", 2.25}, {"eng4", 4}});
  EXPECT_EQ(convolve(), 16);
  // Each ran once to be made and twice to be measured, the fastest then to compute.
  EXPECT_EQ(runs(), (Runs{{"eng0", 3}, {"eng7_k2=1", 3}, {"eng7_k2=3", 4}, {"eng4", 3}}));
  convolve();
  EXPECT_EQ(runs()["eng7_k2=3"], 5);
  EXPECT_EQ(runs()["eng0"], 3);
  convolve(5);  // another shape
  EXPECT_EQ(runs()["eng0"], 6);
}

// Kernels that take less time than their launch follow each other as slowly as the host launches.
TEST_F(SimulatedPlans, TheHostsTimeToLaunchIsNotMeasured) {
  set_benchmark(true);
  sim::set_engines({{.name = "short", .milliseconds = 0.01, .host_milliseconds = 0.5},
                    {.name = "long", .milliseconds = 0.2, .host_milliseconds = 0.05}});
  EXPECT_EQ(convolve(), 16);
  EXPECT_NE(saved().find(" library/short\n"), std::string::npos) << saved();
  // Two launches of the one take longer than the first two pauses, of 0.1 and 0.4 ms.
  EXPECT_EQ(runs(), (Runs{{"short", 1 + 3 * 2 + 1}, {"long", 1 + 2}}));
}

TEST_F(SimulatedPlans, EachDirectionHasItsOwnPlan) {
  set_benchmark(true);
  sim::set_engines({{"eng0", 2}, {"eng1", 1}});
  const Tensor x = ones({1, 16, 4, 4}, kFloat32, kGpu).set_requires_grad();
  const Tensor weight = ones({2, 16, 1, 1}, kFloat32, kGpu).set_requires_grad();
  conv2d(x, weight).sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>()[0], 2);
  EXPECT_EQ(weight.grad().to_vector<float>()[0], 16);
  EXPECT_EQ(runs(), (Runs{{"eng0", 9}, {"eng1", 12}}));
  const std::string text = saved();
  for (const char* direction : {"forward", "backward_input", "backward_weight"}) {
    EXPECT_NE(text.find(concat("cuda ", direction, " float32 x=1x16x4x4")), std::string::npos);
  }
  EXPECT_NE(text.find("groups=1 library/eng1\n"), std::string::npos) << text;
}

TEST_F(SimulatedPlans, AnEngineThatFailsIsPassedOver) {
  set_benchmark(true);
  sim::set_engines({{.name = "broken", .milliseconds = 1, .error = cudaErrorUnknown},
                    {.name = "slow", .milliseconds = 9},
                    {.name = "fast", .milliseconds = 3},
                    {.name = "large", .milliseconds = 1, .error = cudaErrorMemoryAllocation}});
  EXPECT_EQ(convolve(), 16);
  EXPECT_EQ(runs(), (Runs{{"broken", 0}, {"slow", 3}, {"fast", 4}, {"large", 0}}));
}

// A failure in the middle of being measured counts as much as one at the start.
TEST_F(SimulatedPlans, AnEngineThatFailsTheThirdTimeIsPassedOver) {
  set_benchmark(true);
  sim::set_engines({{"slow", 9}, {"fast", 3}});
  sim::fail_call(6, cudaErrorUnknown, "cudnnBackendExecute");
  EXPECT_EQ(convolve(), 16);
  EXPECT_EQ(runs()["slow"], 4);
}

TEST_F(SimulatedPlans, IfAllFailTheFirstErrorIsThrownAndTheNextCallMeasuresAgain) {
  set_benchmark(true);
  sim::set_engines(
      {{.name = "a", .error = cudaErrorInvalidValue}, {.name = "b", .error = cudaErrorUnknown}});
  EXPECT_EQ(error_of([&] {
              convolve();
            }).rfind("conv2d: cudnnBackendExecute failed: cudaErrorInvalidValue", 0),
            0u);
  sim::set_engines({{"a", 2}, {"b", 1}});
  EXPECT_EQ(convolve(), 16);
  EXPECT_EQ(runs()["b"], 4);
}

TEST_F(SimulatedPlans, ABrokenDeviceIsNotPassedOver) {
  set_benchmark(true);
  sim::set_engines({{"a", 2}, {"b", 1}});
  const Tensor x = ones({1, 16, 4, 4}, kFloat32, kGpu),
               weight = ones({2, 16, 1, 1}, kFloat32, kGpu);
  sim::fail_call(1, cudaErrorIllegalAddress, "cudnnBackendExecute");
  EXPECT_THROW(conv2d(x, weight), DeviceError);
  EXPECT_EQ(runs(), (Runs{{"a", 1}, {"b", 0}}));
  sim::reset();
}

TEST_F(SimulatedPlans, ARunThatReadsTheFileMeasuresNothing) {
  set_benchmark(true);
  sim::set_engines({{"eng0", 9}, {"eng1", 1}, {"eng2", 5}});
  convolve();
  plans_save(path_);

  plans_clear();
  plans_load(path_);
  sim::set_engines({{"eng2", 5}, {"eng0", 9}, {"eng1", 1}});  // proposed in another order
  EXPECT_EQ(convolve(), 16);
  EXPECT_EQ(convolve(), 16);
  EXPECT_EQ(runs(), (Runs{{"eng0", 0}, {"eng1", 2}, {"eng2", 0}}));
  const std::string again = path_ + ".again";
  plans_save(again);
  EXPECT_EQ(read_file(again, 1 << 20), read_file(path_, 1 << 20));
  std::remove(again.c_str());

  plans_clear();  // the same without measuring
  set_benchmark(false);
  plans_load(path_);
  convolve();
  EXPECT_EQ(runs(), (Runs{{"eng0", 0}, {"eng1", 3}, {"eng2", 0}}));
}

// Those of before other problems had plans.
TEST_F(SimulatedPlans, AFileOfConvolutionsAloneIsRead) {
  set_benchmark(true);
  sim::set_engines({{"eng0", 9}, {"eng1", 1}});
  convolve();
  const std::string text = saved(), header = "wick plans 2\n";
  ASSERT_EQ(text.rfind(header, 0), 0u) << text;
  write_file(path_, "wick convolution plans 1\n" + text.substr(header.size()));
  plans_clear();
  plans_load(path_);
  sim::set_engines({{"eng0", 9}, {"eng1", 1}});
  convolve();
  EXPECT_EQ(runs(), (Runs{{"eng0", 0}, {"eng1", 1}}));
  EXPECT_EQ(saved(), text);
}

TEST_F(SimulatedPlans, TheFastestEngineMultiplies) {
  sim::set_engines({{"algo1", 9}, {"algo2_1=20", 2}, {"algo2_1=24", 5}});
  EXPECT_EQ(multiply(), 4);
  EXPECT_EQ(runs()["algo1"], 1);
  set_benchmark(true);
  EXPECT_EQ(multiply(), 4);
  EXPECT_EQ(runs(), (Runs{{"algo1", 4}, {"algo2_1=20", 4}, {"algo2_1=24", 3}}));
  EXPECT_EQ(multiply(), 4);
  EXPECT_EQ(runs()["algo2_1=20"], 5);
  EXPECT_EQ(saved(), "wick plans 2\ncuda matmul float32 a=3x4 b=4x2 library/algo2_1=20\n");
  multiply(5);  // others
  multiply(4, kFloat16);
  EXPECT_EQ(runs()["algo1"], 10);

  plans_clear();
  plans_load(path_);
  sim::set_engines({{"algo2_1=24", 5}, {"algo1", 9}, {"algo2_1=20", 2}});
  EXPECT_EQ(multiply(), 4);
  EXPECT_EQ(runs(), (Runs{{"algo1", 0}, {"algo2_1=20", 1}, {"algo2_1=24", 0}}));
}

TEST_F(SimulatedPlans, AProductsPlanDependsOnWhatFollowsIt) {
  set_benchmark(true);
  sim::set_engines({{"slow", 2}, {"fast", 1}});
  const Tensor x = ones({3, 8}, kFloat32, kGpu).set_requires_grad(),
               weight = ones({16, 8}, kFloat32, kGpu), bias = ones({16}, kFloat32, kGpu);
  linear(x, weight);
  linear(x, weight, bias);
  linear(x, weight, bias, Activation::kRelu);
  const Tensor y = linear(x, weight, bias, Activation::kGeluTanh);
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(48, 9.0f));
  const std::string of = "cuda matmul float32 a=3x8 b=8x16t", by = " library/fast\n";
  EXPECT_EQ(saved(), "wick plans 2\n" + of + by + of + " bias" + by + of + " bias gelu kept" + by +
                         of + " bias relu" + by);
}

// A batch that cannot be one call of the library's is so many calls, all by one engine.
TEST_F(SimulatedPlans, ProductsInSeveralCallsFollowOnePlan) {
  set_benchmark(true);
  sim::set_engines({{"slow", 2}, {"fast", 1}});
  const Tensor a = ones({2, 3, 4, 5}, kFloat32, kGpu).transpose(0, 1);
  const Tensor b = ones({3, 2, 5, 6}, kFloat32, kGpu);
  EXPECT_EQ(matmul(a, b).to_vector<float>(), std::vector<float>(144, 5.0f));
  EXPECT_EQ(runs()["slow"] * 4, runs()["fast"] * 3);
  EXPECT_GT(runs()["slow"], 3);
}

TEST_F(SimulatedPlans, IntegersAndTheCpuHaveNoPlans) {
  set_benchmark(true);
  const Tensor count = ones({2, 2}, kInt64, kGpu), host = ones({2, 2});
  EXPECT_EQ(matmul(count, count).to_vector<int64_t>()[0], 2);
  EXPECT_EQ(matmul(host, host).to_vector<float>()[0], 2);
  EXPECT_EQ(saved(), "wick plans 2\n");
}

TEST_F(SimulatedPlans, AttentionHasAPlanForEachDirection) {
  const auto expected = attend();
  set_benchmark(true);
  const std::vector<sim::Engine> engines = {{"eng3", 9}, {"eng4_k2=1", 2}};
  sim::set_engines(engines);
  EXPECT_EQ(attend(), expected);
  EXPECT_EQ(runs(), (Runs{{"eng3", 6}, {"eng4_k2=1", 8}}));
  const std::string of = " float16 q=1x2x3x8 k=1x2x5x8 v=1x2x5x8 library/eng4_k2=1\n";
  EXPECT_EQ(saved(), "wick plans 2\ncuda attention_backward" + of + "cuda attention_forward" + of);

  plans_clear();
  plans_load(path_);
  sim::set_engines({engines[1], engines[0]});
  EXPECT_EQ(attend(), expected);
  EXPECT_EQ(runs(), (Runs{{"eng3", 0}, {"eng4_k2=1", 2}}));
}

TEST_F(SimulatedPlans, MaskedAttentionHasPlansOfItsOwn) {
  set_benchmark(true);
  sim::set_engines({{"eng3", 9}, {"eng4", 2}});
  attend();
  attend(/*is_causal=*/true);
  EXPECT_EQ(runs()["eng3"], 12);
  const std::string words = "cuda attention_forward float16 q=1x2x3x8 k=1x2x5x8 v=1x2x5x8";
  EXPECT_NE(saved().find(words + " library/eng4\n"), std::string::npos);
  const std::string causal = words + " causal library/eng";
  std::string text = saved();
  const size_t place = text.find(causal + "4\n");
  ASSERT_NE(place, std::string::npos) << text;

  text[place + causal.size()] = '3';
  write_file(path_, text);
  plans_clear();
  plans_load(path_);
  sim::set_engines({{"eng3", 9}, {"eng4", 2}});
  attend();
  attend(/*is_causal=*/true);
  EXPECT_EQ(runs(), (Runs{{"eng3", 1}, {"eng4", 3}}));
}

TEST_F(SimulatedPlans, DeterministicAttentionOnRequest) {
  const auto expected = attend();
  const sim::Engine random{.name = "random", .milliseconds = 1, .deterministic = false};
  sim::set_engines({random, {"same", 2}});
  set_deterministic(true);
  EXPECT_EQ(attend(), expected);
  EXPECT_EQ(runs(), (Runs{{"random", 0}, {"same", 2}}));
  set_benchmark(true);
  EXPECT_EQ(attend(), expected);
  EXPECT_EQ(runs(), (Runs{{"random", 0}, {"same", 4}}));
}

// As after an update of the library.
TEST_F(SimulatedPlans, APlanWhoseEngineIsGoneLeavesTheChoiceToTheLibrary) {
  set_benchmark(true);
  sim::set_engines({{"eng0", 9}, {"eng1", 1}});
  convolve();
  plans_save(path_);
  plans_clear();
  plans_load(path_);
  sim::set_engines({{"eng5", 9}, {"eng6", 1}});
  EXPECT_EQ(convolve(), 16);
  EXPECT_EQ(runs(), (Runs{{"eng5", 1}, {"eng6", 0}}));
}

TEST_F(SimulatedPlans, DeterministicPlansOnRequest) {
  const std::vector<sim::Engine> engines = {
      {.name = "first", .milliseconds = 3, .deterministic = false},
      {.name = "fast", .milliseconds = 1, .deterministic = false},
      {.name = "same", .milliseconds = 2},
      {.name = "slow", .milliseconds = 4}};
  sim::set_engines(engines);
  convolve();
  EXPECT_EQ(runs()["first"], 1);
  set_deterministic(true);
  EXPECT_TRUE(deterministic());
  convolve();
  EXPECT_EQ(runs(), (Runs{{"first", 1}, {"fast", 0}, {"same", 1}, {"slow", 0}}));

  set_benchmark(true);
  sim::set_engines(engines);
  convolve();
  EXPECT_EQ(runs(), (Runs{{"first", 0}, {"fast", 0}, {"same", 4}, {"slow", 3}}));
  set_deterministic(false);  // a plan of its own
  convolve();
  EXPECT_EQ(runs()["fast"], 4);
  set_deterministic(true);
  convolve();
  EXPECT_EQ(runs()["same"], 8);
}

// What was measured for float32's own products tells nothing of TF32's.
TEST_F(SimulatedPlans, Tf32HasPlansOfItsOwn) {
  set_benchmark(true);
  sim::set_engines({{"slow", 2}, {"fast", 1}});
  EXPECT_FALSE(allow_tf32());
  convolve();
  multiply();
  multiply(4, kFloat16);
  EXPECT_EQ(runs(), (Runs{{"slow", 9}, {"fast", 12}}));
  EXPECT_EQ(saved().find("tf32"), std::string::npos);
  set_allow_tf32(true);
  sim::set_engines({{"slow", 2}, {"fast", 1}});
  convolve();
  multiply();
  EXPECT_EQ(runs(), (Runs{{"slow", 6}, {"fast", 8}}));
  multiply(4, kFloat16);  // is not concerned
  EXPECT_EQ(runs(), (Runs{{"slow", 6}, {"fast", 9}}));
  const std::string text = saved(), product = "cuda matmul float32 a=3x4 b=4x2";
  for (const std::string& words : {std::string(" groups=1"), product}) {
    EXPECT_NE(text.find(words + " library/fast\n"), std::string::npos) << text;
    EXPECT_NE(text.find(words + " tf32 library/fast\n"), std::string::npos) << text;
  }

  // A file's plan for the one is none for the other.
  plans_clear();
  set_benchmark(false);
  write_file(path_, "wick plans 2\n" + product + " tf32 library/fast\n");
  plans_load(path_);
  sim::set_engines({{"slow", 2}, {"fast", 1}});
  multiply();
  EXPECT_EQ(runs(), (Runs{{"slow", 0}, {"fast", 1}}));
  set_allow_tf32(false);
  multiply();
  EXPECT_EQ(runs(), (Runs{{"slow", 1}, {"fast", 1}}));
}

TEST_F(SimulatedPlans, ASimulatedGpuIsNotMeasuredUnlessItPretends) {
  set_benchmark(true);
  EXPECT_EQ(convolve(), 16);  // there is one engine, so nothing is to be chosen
  const Tensor x = ones({1, 4, 4, 4}, kFloat32, kGpu), weight = ones({2, 4, 1, 1}, kFloat32, kGpu);
  EXPECT_NE(error_of([&] { conv2d(x, weight); }).find("has no speed to measure"),
            std::string::npos);
}

TEST_F(SimulatedPlans, APlanCanBeSet) {
  sim::set_engines({{"eng0", 1}, {"eng1", 2}});
  const Conv2dProblem problem{ConvDirection::kForward, kFloat32,     {1, 16, 4, 4},
                              {2, 16, 1, 1},           {1, 2, 4, 4}, {}};
  conv_plan_set(problem, kGpu, {ConvAlgorithm::kLibrary, 1});
  convolve();
  EXPECT_EQ(runs(), (Runs{{"eng0", 0}, {"eng1", 1}}));
  EXPECT_THROW(conv_plan_set(problem, kGpu, {ConvAlgorithm::kLibrary, 2}), Error);
  conv_plan_set(problem, kGpu, ConvAlgorithm::kLibrary);
  convolve();
  EXPECT_EQ(runs(), (Runs{{"eng0", 1}, {"eng1", 1}}));
}

}  // namespace
}  // namespace wick::testing
