// CUDA graphs of runs of graphs.
#include <gtest/gtest.h>

#include "wick/core/apply.h"
#include "wick/core/autograd.h"
#include "wick/core/cuda_graph.h"
#include "wick/core/graph/compile.h"
#include "wick/core/graph/host_call.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/random.h"
#include "wick/core/stream.h"
#include "wick/tests/core/graph/expect_equal.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

class CapturedGraph : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  }
};

// Each replay draws from where the generator is, and moves it on.
TEST_F(CapturedGraph, DrawsOn) {
  const Tensor x = rand({200}, kFloat32, kGpu);
  const auto draw = [](const Tensors& in) -> Tensors {
    return {dropout(in[0], 0.3, true) + rand({200}, kFloat32, kGpu), dropout(in[0], 1, true),
            randn({50}, kFloat32, kGpu), randint(0, 1000, {50}, kInt64, kGpu)};
  };
  graph::Executor executor(graph::trace(draw, {x}));
  manual_seed(5);
  std::vector<Tensors> want;
  for (int i = 0; i < 5; ++i) want.push_back(executor.run({x}));
  manual_seed(5);
  Tensors got;
  CudaGraph graph(kGpu, [&] { got = executor.run({x}); });
  for (size_t i = 0; i < 3; ++i) {
    graph.replay();
    expect_equal(got, want[i]);
  }
  expect_equal(executor.run({x}), want[3]);
  graph.replay();
  expect_equal(got, want[4]);
}

// An op of a program that draws as a graph expects, but knows nothing of captures.
struct DrawsAlone {
  static constexpr OpInfo info{.name = "draws_alone", .differentiable = false};
  uint64_t seed, offset;
  static constexpr auto fields =
      std::tuple{field("seed", &DrawsAlone::seed), field("offset", &DrawsAlone::offset)};
  Tensor forward(Saved&, const Tensor& x) const { return x + static_cast<int64_t>(offset); }
};

TEST_F(CapturedGraph, RefusesNumbersThatReplaysWouldRepeat) {
  const Tensor x = rand({20}, kFloat32, kGpu);
  graph::Executor executor(graph::trace(
      [](const Tensors& in) -> Tensors {
        const RandomKey key = default_generator(kGpu).next();
        return {apply(DrawsAlone{key.seed, key.offset}, in[0])};
      },
      {x}));
  executor.run({x});
  EXPECT_EQ(
      error_of([&] { CudaGraph graph(kGpu, [&] { executor.run({x}); }); }),
      "cuda_graph: captured work must not draw random numbers by draws_alone: its numbers would "
      "be the same at each replay");
  executor.run({x});
}

// A function that counts the calls that are no replays, and the same uncaptured.
class CapturedCalls {
 public:
  explicit CapturedCalls(const graph::Function& f)
      : compiled_([this, f](const Tensors& in) { return counted(f, in); }, {.warm_ups = 1}),
        plain_(f, {.warm_ups = 1}),
        captured_(
            kGpu, [this](const Tensors& in) { return compiled_(in); }, 3,
            [this](const Tensors& in) { return compiled_.identity(in); }) {}
  CapturedCalls(const CapturedCalls&) = delete;
  CapturedCalls& operator=(const CapturedCalls&) = delete;

  // Whether a call gives the bits of a compiled one, and is replayed or not as it should be.
  void expect_call(const Tensor& x, bool is_replayed) {
    const int64_t before = calls_;
    const Tensors got = captured_({x});
    expect_equal(got, plain_({x}));
    EXPECT_EQ(calls_ == before, is_replayed);
  }
  bool is_captured() const { return captured_.is_captured(); }

 private:
  Tensors counted(const graph::Function& f, const Tensors& in) {
    const auto count = [this](const Tensors&) {
      ++calls_;
      return Tensor();
    };
    graph::host_call("count", count, {});
    return f(in);
  }

  int64_t calls_ = 0;
  graph::CompiledFunction compiled_, plain_;
  CapturedFunction captured_;
};

// A replay stands for the call only while the call would run the graph that was captured.
TEST_F(CapturedGraph, FollowsGuardsAndKinds) {
  const Tensor w = rand({4, 6}, kFloat32, kGpu).set_requires_grad();
  CapturedCalls calls([&](const Tensors& in) -> Tensors {
    return {(in[0] * w).exp() + (w.requires_grad() ? 1 : 2)};
  });
  const auto x = [] { return rand({4, 6}, kFloat32, kGpu); };
  for (int i = 0; i < 6; ++i) calls.expect_call(x(), i > 3);  // captured in the fourth
  EXPECT_TRUE(calls.is_captured());
  w.set_requires_grad(false);
  for (int i = 0; i < 3; ++i) calls.expect_call(x(), false);
  w.set_requires_grad(true);
  calls.expect_call(x(), true);
  calls.expect_call(rand({6, 4}, kFloat32, kGpu).transpose(0, 1), true);  // copied where it reads
  {
    const NoGrad no_grad;  // another kind of call
    for (int i = 0; i < 2; ++i) calls.expect_call(x(), false);
    w.mul_(2);
  }
  calls.expect_call(x(), true);
  // The parameter moves.
  w.impl()->storage = w.detach().clone().impl()->storage;
  for (int i = 0; i < 2; ++i) calls.expect_call(x(), false);
}

// Nothing is captured before the graph that is to be captured has run once.
TEST_F(CapturedGraph, WaitsForTheFirstRun) {
  const Tensor w = rand({8}, kFloat32, kGpu).set_requires_grad();
  CapturedCalls calls([&](const Tensors& in) -> Tensors { return {(in[0] * w).tanh() * 3}; });
  const Tensor x = rand({8}, kFloat32, kGpu);
  for (int i = 0; i < 3; ++i) calls.expect_call(x, false);
  w.set_requires_grad(false);
  calls.expect_call(x, false);  // traced
  calls.expect_call(x, false);  // run
  EXPECT_FALSE(calls.is_captured());
  calls.expect_call(x, false);
  EXPECT_TRUE(calls.is_captured());
  calls.expect_call(x, true);
}

}  // namespace
}  // namespace wick::testing
