#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <vector>

#include "wick/core/amp.h"
#include "wick/core/autograd.h"
#include "wick/core/cuda_graph.h"
#include "wick/core/memory/allocator.h"
#include "wick/core/memory/stats.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/ops/random.h"
#include "wick/core/random.h"
#include "wick/core/stream.h"
#include "wick/nn/activation_checkpoint.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/host_array.h"

// Captured work: what a replay computes, draws and keeps, and what cannot be captured.

namespace wick::testing {
namespace {

class CudaGraphTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  }
};

Tensor on_gpu(std::vector<float> values) { return tensor(values).to(kGpu); }

std::vector<float> values_of(const Tensor& x) { return x.to_vector<float>(); }

TEST_F(CudaGraphTest, ComputesAnewAtEachReplay) {
  const Tensor x = on_gpu({1, 2, 3}), sum = zeros({3}, kFloat32, kGpu);
  Tensor y;
  CudaGraph graph(kGpu, [&] {
    y = x * 2 + 1;
    sum.add_(y);
  });
  EXPECT_EQ(values_of(sum), (std::vector<float>{0, 0, 0})) << "it was only captured";
  EXPECT_EQ(graph.num_nodes(), 3);
  graph.replay();
  EXPECT_EQ(values_of(y), (std::vector<float>{3, 5, 7}));
  x.copy_(tensor(std::vector<float>{10, 20, 30}));
  graph.replay();
  EXPECT_EQ(values_of(y), (std::vector<float>{21, 41, 61}));
  EXPECT_EQ(values_of(sum), (std::vector<float>{24, 46, 68}));
}

TEST_F(CudaGraphTest, QueuesBehindTheCurrentStream) {
  const Tensor x = zeros({1000}, kFloat32, kGpu);
  Tensor y;
  CudaGraph graph(kGpu, [&] { y = x + 1; });
  const Stream other = stream_from_pool(kGpu);
  for (int i = 1; i <= 5; ++i) {
    Event done(kGpu);
    {
      const StreamGuard guard(other);
      x.fill_(i);
      graph.replay();
      done.record();
    }
    done.block(current_stream(kGpu));
    EXPECT_EQ(values_of(y)[999], static_cast<float>(i + 1));
  }
}

// Its memory is nobody else's, also what was free at its end.
TEST_F(CudaGraphTest, KeepsItsMemoryToItself) {
  const Tensor x = on_gpu({1, 2, 3, 4});
  Tensor y;
  CudaGraph graph(kGpu, [&] { y = (x * 2) + (x * 3); });
  graph.replay();
  std::vector<Tensor> others;
  for (int i = 0; i < 20; ++i) others.push_back(full({4}, 100 + i, kFloat32, kGpu));
  graph.replay();
  EXPECT_EQ(values_of(y), (std::vector<float>{5, 10, 15, 20}));
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(values_of(others[static_cast<size_t>(i)]), std::vector<float>(4, 100 + i));
  }
  const MemoryStats before = memory_stats(kGpu);
  for (int i = 0; i < 10; ++i) graph.replay();
  EXPECT_EQ(memory_stats(kGpu).all.allocation.allocated, before.all.allocation.allocated);
}

TEST_F(CudaGraphTest, GivesItsMemoryBackWhenItGoes) {
  empty_cache(kGpu);
  const int64_t before = memory_reserved(kGpu);
  const Tensor x = ones({1 << 20}, kFloat32, kGpu);
  {
    Tensor y;
    CudaGraph graph(kGpu, [&] { y = (x * 2) + 1; });
    graph.replay();
    empty_cache(kGpu);
    graph.replay();  // what was free in it is there yet
    EXPECT_EQ(values_of(y)[77], 3);
  }
  synchronize(kGpu);
  const int64_t with_input = memory_reserved(kGpu);
  empty_cache(kGpu);
  EXPECT_LT(memory_reserved(kGpu), with_input);
  EXPECT_LE(memory_reserved(kGpu), before + int64_t{32 << 20});
}

// A result may outlive the graph.
TEST_F(CudaGraphTest, LeavesItsResults) {
  const Tensor x = on_gpu({1, 2});
  Tensor y;
  {
    CudaGraph graph(kGpu, [&] { y = x * 5; });
    graph.replay();
  }
  empty_cache(kGpu);
  EXPECT_EQ(values_of(y), (std::vector<float>{5, 10}));
}

TEST_F(CudaGraphTest, DrawsOnFromWhereTheGeneratorIs) {
  const Tensor x = ones({200}, kFloat32, kGpu);
  const auto draw = [&] { return dropout(x, 0.5, true) + rand({200}, kFloat32, kGpu); };
  manual_seed(5);
  std::vector<Tensor> want;
  for (int i = 0; i < 3; ++i) want.push_back(draw().cpu());
  manual_seed(6);
  want.push_back(draw().cpu());
  want.push_back(draw().cpu());

  manual_seed(5);
  Tensor y;
  CudaGraph graph(kGpu, [&] { y = draw(); });
  EXPECT_EQ(default_generator(kGpu).get_state().offset, 0u) << "nothing was drawn yet";
  for (int i = 0; i < 3; ++i) {
    graph.replay();
    EXPECT_TRUE(bit_equal(y.cpu(), want[static_cast<size_t>(i)])) << i;
  }
  manual_seed(6);
  graph.replay();
  EXPECT_TRUE(bit_equal(y.cpu(), want[3]));
  EXPECT_TRUE(bit_equal(draw().cpu(), want[4])) << "what follows draws on";
}

TEST_F(CudaGraphTest, DrawsFromTheGeneratorsOfItsThreadsScope) {
  std::vector<float> want;
  {
    const RandomScope scope(5);
    want = rand({200}, kFloat32, kGpu).cpu().to_vector<float>();
  }
  manual_seed(1);
  {
    const RandomScope scope(5);
    Tensor y;
    CudaGraph graph(kGpu, [&] { y = rand({200}, kFloat32, kGpu); });
    graph.replay();
    EXPECT_EQ(y.cpu().to_vector<float>(), want);
    EXPECT_EQ(default_generator(kGpu).get_state().offset, 1u);
  }
  EXPECT_EQ(default_generator(kGpu).get_state().offset, 0u);
  EXPECT_THROW(CudaGraph(kGpu, [] { const RandomScope within(3); }), Error);
}

// The mask is that of the last replay, also where backward is not in the graph.
TEST_F(CudaGraphTest, DropoutGoesBackByTheMaskOfTheLastReplay) {
  const Tensor x = ones({500}, kFloat32, kGpu).set_requires_grad();
  Tensor y;
  CudaGraph graph(kGpu, [&] { y = dropout(x, 0.5, true); });
  for (int i = 0; i < 3; ++i) graph.replay();
  y.sum().backward();
  EXPECT_TRUE(bit_equal(x.grad().cpu(), y.detach().cpu()));  // 0 or 2
}

// ... and where the graph is gone.
TEST_F(CudaGraphTest, DropoutGoesBackWithoutItsGraph) {
  const Tensor x = ones({500}, kFloat32, kGpu).set_requires_grad();
  Tensor y;
  {
    CudaGraph graph(kGpu, [&] { y = dropout(x, 0.5, true); });
    graph.replay();
    synchronize(kGpu);
  }
  empty_cache(kGpu);
  const Tensor others = full({2}, 77, kInt64, kGpu);
  y.sum().backward();
  EXPECT_TRUE(bit_equal(x.grad().cpu(), y.detach().cpu()));
}

// On whatever stream it is made and replayed, and though the work puts the generator back.
TEST_F(CudaGraphTest, DrawsWhereTheWorkPutsTheGeneratorBack) {
  Tensor y;
  const auto draw = [&] {
    const std::vector<RandomKey> before = random_states();
    y = rand({100}, kFloat32, kGpu);
    set_random_states(before);
  };
  manual_seed(31);
  draw();
  const Tensor want = y.cpu();
  std::unique_ptr<CudaGraph> graph;
  {
    const StreamGuard guard(stream_from_pool(kGpu));
    graph = std::make_unique<CudaGraph>(kGpu, draw);
  }
  graph->replay();
  EXPECT_TRUE(bit_equal(y.cpu(), want));
}

// A region that is made again in backward draws the same once more.
TEST_F(CudaGraphTest, ReplaysRecomputedRegions) {
  const Tensor w = randn({8, 8}, kFloat32, kGpu).set_requires_grad();
  const Tensor x = randn({4, 8}, kFloat32, kGpu);
  const auto pass = [&] {
    w.set_grad({});
    const Tensor y =
        nn::checkpoint([&](const Tensor& h) { return dropout(matmul(h, w), 0.3, true); }, x);
    (y * y).sum().backward();
    return dropout(y.detach(), 0.2, true);
  };
  manual_seed(3);
  std::vector<Tensor> grads, last;
  for (int i = 0; i < 3; ++i) {
    last.push_back(pass().cpu());
    grads.push_back(w.grad().cpu());
  }
  manual_seed(3);
  Tensor y;
  CudaGraph graph(kGpu, [&] { y = pass(); });
  for (size_t i = 0; i < 3; ++i) {
    graph.replay();
    EXPECT_TRUE(bit_equal(y.cpu(), last[i])) << i;
    EXPECT_TRUE(bit_equal(w.grad().cpu(), grads[i])) << i;
  }
}

TEST_F(CudaGraphTest, CapturesBothPassesOfARegionOrNeither) {
  const Tensor x = ones({8}, kFloat32, kGpu).set_requires_grad();
  Tensor y;
  CudaGraph graph(kGpu, [&] {
    y = nn::checkpoint([](const Tensor& h) { return dropout(h.exp(), 0.3, true).square(); }, x);
  });
  graph.replay();
  EXPECT_EQ(error_of([&] { y.sum().backward(); }),
            "checkpoint: forward and backward must both be captured, or neither");
}

// What steps have cached is given back before: it would not be during the capture.
TEST_F(CudaGraphTest, CapturesWhatFitsOnce) {
  empty_cache(kGpu);
  CachingAllocator& memory = allocator(kGpu);
  const size_t limit = memory.memory_limit();
  const Tensor x = ones({4 << 20}, kFloat32, kGpu);  // 16 MiB
  memory.set_memory_limit(static_cast<size_t>(memory_reserved(kGpu)) + (size_t{144} << 20));
  Tensor y;
  const auto step = [&] { y = ((x + 1) * (x + 2)) + ((x + 3) * (x + 4)); };
  step();
  y = Tensor();
  EXPECT_GT(memory_reserved(kGpu), int64_t{70} << 20);
  {
    CudaGraph graph(kGpu, step);
    graph.replay();
    EXPECT_EQ(y[77].item(), 2 * 3 + 4 * 5);
    y = Tensor();
  }
  memory.set_memory_limit(limit);
}

// A copy of a weight that autocast had made before, or makes in the capture, is none for others.
TEST_F(CudaGraphTest, CastsWeightsAnew) {
  const Tensor w = ones({4, 4}, kFloat32, kGpu).set_requires_grad();
  const Tensor x = ones({2, 4}, kFloat32, kGpu);
  const amp::Autocast autocast(kGpu, kBFloat16);
  EXPECT_EQ(matmul(x, w).sum().item(), 32);
  Tensor y;
  CudaGraph graph(kGpu, [&] {
    y = matmul(x, w).sum();
    const NoGrad no_grad;
    w.mul_(2);
  });
  EXPECT_EQ(matmul(x, w).sum().item(), 32);
  for (const double want : {32.0, 64.0, 128.0}) {
    graph.replay();
    EXPECT_EQ(y.item(), want);
  }
  EXPECT_EQ(matmul(x, w).sum().item(), 256);
}

TEST_F(CudaGraphTest, RefusesWhatCannotBeReplayed) {
  const Tensor x = on_gpu({1, 2, 3}), host = tensor(std::vector<float>{4, 5, 6});
  const RandomKey start = default_generator(kGpu).get_state();
  Generator own(3);
  const std::string waits =
      "cuda_graph: captured work must not wait for the GPU, as item() and copies to the CPU do: "
      "none of it has run on cuda:0 yet";
  const std::string copies =
      "cuda_graph: captured work must not copy from or to another device: none of it has run on "
      "cuda:0 yet";
  const auto error_in = [&](const std::function<void()>& work) {
    return error_of([&] { CudaGraph graph(kGpu, work); });
  };
  EXPECT_EQ(error_in([&] { synchronize(kGpu); }), waits);
  EXPECT_EQ(error_in([&] { synchronize(current_stream(kGpu)); }), waits);
  EXPECT_EQ(error_in([&] { (x * 2).sum().item(); }), copies);
  EXPECT_EQ(error_in([&] { x.copy_(host); }), copies);
  EXPECT_EQ(error_in([&] { x.copy_(host.pin_memory(), true); }), copies);
  EXPECT_EQ(error_in([&] { (void)x.to(kCpu, true); }), copies);
  EXPECT_EQ(error_in([&] { rand({3}, kFloat32, kGpu, &own); }),
            "cuda_graph: captured work must draw from the default generator of cuda:0: any other's "
            "numbers would be the same at each replay");
  EXPECT_EQ(error_in([&] {
              manual_seed(77);
              rand({3}, kFloat32, kGpu);
            }),
            "cuda_graph: captured work must not set the default generator of cuda:0");
  EXPECT_EQ(error_in([&] {
              rand({3}, kFloat32, kGpu);
              manual_seed(3);  // after the last draw
            }),
            "cuda_graph: captured work must not set the default generator of cuda:0");
  EXPECT_EQ(error_in([&] { CudaGraph inner(kGpu, [] {}); }),
            "cuda_graph: within the capture of another");
  EXPECT_EQ(error_of([] { CudaGraph graph(kCpu, [] {}); }),
            "cuda_graph: got cpu, whose work runs as it is called, expected a GPU");
  EXPECT_THROW(CudaGraph(kGpu, [] { throw std::runtime_error("mine"); }), std::runtime_error);

  // All is as before, and captures work.
  EXPECT_EQ(default_generator(kGpu).get_state().seed, start.seed);
  EXPECT_EQ(default_generator(kGpu).get_state().offset, start.offset);
  EXPECT_EQ(values_of(x), (std::vector<float>{1, 2, 3}));
  Tensor y;
  CudaGraph graph(kGpu, [&] { y = x + 1; });
  graph.replay();
  EXPECT_EQ(values_of(y), (std::vector<float>{2, 3, 4}));
}

TEST_F(CudaGraphTest, ReplaysAreNotCaptured) {
  const Tensor x = on_gpu({1});
  CudaGraph graph(kGpu, [&] { x.add_(1); });
  EXPECT_EQ(error_of([&] { CudaGraph outer(kGpu, [&] { graph.replay(); }); }),
            "cuda_graph: captured work must not replay a graph: none of it has run on cuda:0 yet");
  CudaGraph moved = std::move(graph);
  moved.replay();
  EXPECT_EQ(values_of(x), std::vector<float>{2});
}

// A first batch that is the smaller one does not decide.
TEST_F(CudaGraphTest, AFunctionIsCapturedForTheLargerOfItsInputs) {
  CapturedFunction function(
      kGpu, [](const std::vector<Tensor>& in) -> std::vector<Tensor> { return {in[0] * 2}; },
      /*warm_ups=*/1);
  for (const int64_t n : {2, 3, 2, 3, 3}) {
    const std::vector<Tensor> out = function({full({n}, n, kFloat32, kGpu)});
    EXPECT_EQ(values_of(out[0]), std::vector<float>(static_cast<size_t>(n), 2.0f * n));
  }
  EXPECT_TRUE(function.is_captured());
}

TEST_F(CudaGraphTest, AFunctionIsReplayedForInputsLikeItsFirst) {
  int calls = 0;
  CapturedFunction function(
      kGpu,
      [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
        ++calls;
        return {in[0] * 2 + in[1], Tensor()};
      },
      /*warm_ups=*/2);
  const auto call = [&](std::vector<float> x) {
    const auto n = static_cast<int64_t>(x.size());
    const std::vector<Tensor> out = function({on_gpu(std::move(x)), ones({n}, kFloat32, kGpu), {}});
    EXPECT_FALSE(out[1].defined());
    return values_of(out[0]);
  };
  EXPECT_EQ(call({1, 2}), (std::vector<float>{3, 5}));
  EXPECT_EQ(call({1}), (std::vector<float>{3}));
  EXPECT_EQ(call({2, 3}), (std::vector<float>{5, 7}));
  EXPECT_FALSE(function.is_captured());
  EXPECT_EQ(call({3, 4}), (std::vector<float>{7, 9}));
  EXPECT_TRUE(function.is_captured());
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(call({4, 5}), (std::vector<float>{9, 11}));
  EXPECT_EQ(calls, 4) << "a replay";
  EXPECT_EQ(call({1, 2, 3}), (std::vector<float>{3, 5, 7}));
  EXPECT_EQ(calls, 5) << "of another shape";
  const Tensor wants = ones({2}, kFloat32, kGpu).set_requires_grad();
  EXPECT_EQ(error_of([&] {
              function({wants, wants, {}});
            }),
            "cuda_graph: an input of a captured function requires a gradient, which replays do not "
            "give: detach it, or capture what comes before it, too");
  EXPECT_EQ(error_of([] { CapturedFunction(kCpu, {}); }),
            "cuda_graph: got cpu, whose work runs as it is called, expected a GPU");
  EXPECT_EQ(error_of([] { CapturedFunction(kGpu, {}, 0); }),
            "cuda_graph: warm_ups: got 0, expected 1 or more");
}

}  // namespace
}  // namespace wick::testing
