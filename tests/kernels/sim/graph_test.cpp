#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "wick/core/cuda_graph.h"
#include "wick/core/memory/allocator.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/plans.h"
#include "wick/core/random.h"
#include "wick/core/stream.h"
#include "wick/kernels/sim/sanitizers.h"
#include "wick/kernels/sim/simulator.h"
#include "wick/nn/nn.h"
#include "wick/optim/sgd.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/host_array.h"
#include "wick/tests/kernels/sim/dropped_calls.h"
#include "wick/tests/kernels/sim/kernels.h"

// Captures on the simulated GPU: what the CUDA runtime refuses in one, streams that join it, and
// calls that fail.
namespace wick::testing {
namespace {

using sim::StreamOrder;

cudaStream_t new_stream() {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
  return stream;
}

// A stream whose work is captured; at its end the capture is over, whatever became of it.
class Capture {
 public:
  explicit Capture(cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
    EXPECT_EQ(cudaStreamBeginCapture(stream, mode), cudaSuccess);
  }
  ~Capture() {
    cudaGraph_t graph = nullptr;
    if (!ended_ && cudaStreamEndCapture(stream, &graph) == cudaSuccess) cudaGraphDestroy(graph);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    (void)cudaGetLastError();
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  cudaError_t end() {
    ended_ = true;
    cudaGraph_t graph = nullptr;
    const cudaError_t error = cudaStreamEndCapture(stream, &graph);
    EXPECT_EQ(graph == nullptr, error != cudaSuccess);
    return graph != nullptr ? cudaGraphDestroy(graph) : error;
  }

  const cudaStream_t stream = new_stream();

 private:
  bool ended_ = false;
};

TEST(SimulatedGraph, RefusesToWaitForWhatHasNotRun) {
  const Tensor x = zeros({4}, kFloat32, kGpu);
  float host[4] = {};
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  const std::vector<std::function<cudaError_t(cudaStream_t)>> calls = {
      [](cudaStream_t s) { return cudaStreamSynchronize(s); },
      [](cudaStream_t s) { return cudaStreamQuery(s); },
      [](cudaStream_t) { return cudaDeviceSynchronize(); },
      [&](cudaStream_t s) {
        return cudaMemcpyAsync(host, x.raw_data(), sizeof(host), cudaMemcpyDefault, s);
      },
      [&](cudaStream_t s) {
        return cudaMemcpyAsync(x.raw_data(), host, sizeof(host), cudaMemcpyDefault, s);
      },
      [](cudaStream_t) {
        void* memory = nullptr;
        return cudaMalloc(&memory, 512);
      },
      [](cudaStream_t) {
        void* memory = nullptr;
        return cudaHostAlloc(&memory, 512, cudaHostAllocDefault);
      },
      [](cudaStream_t) { return cudaFree(nullptr); },
      [](cudaStream_t) { return cudaFreeHost(nullptr); },
      [&](cudaStream_t) { return cudaEventQuery(event); },
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    Capture capture;
    EXPECT_EQ(calls[i](capture.stream), cudaErrorStreamCaptureUnsupported) << i;
    EXPECT_EQ(capture.end(), cudaErrorStreamCaptureInvalidated) << i;
  }
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
}

TEST(SimulatedGraph, ModesSayWhoseCallsItMinds) {
  const auto allocates = [] {
    void* memory = nullptr;
    const cudaError_t error = cudaMalloc(&memory, 512);
    return error == cudaSuccess ? cudaFree(memory) : error;
  };
  for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                          cudaStreamCaptureModeRelaxed}) {
    Capture capture(mode);
    cudaError_t others = cudaSuccess;
    std::thread([&] { others = allocates(); }).join();
    EXPECT_EQ(others == cudaSuccess, mode != cudaStreamCaptureModeGlobal) << mode;
    EXPECT_EQ(allocates() == cudaSuccess, mode == cudaStreamCaptureModeRelaxed) << mode;
    cudaStreamCaptureMode exchanged = cudaStreamCaptureModeRelaxed;
    EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&exchanged), cudaSuccess);
    EXPECT_EQ(exchanged, cudaStreamCaptureModeGlobal) << mode;
    EXPECT_EQ(allocates(), cudaSuccess) << mode;
    EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&exchanged), cudaSuccess);
  }
}

TEST(SimulatedGraph, EndsWhereItBegan) {
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeThreadLocal),
            cudaErrorStreamCaptureUnsupported);
  Capture capture;
  EXPECT_EQ(cudaStreamBeginCapture(capture.stream, cudaStreamCaptureModeThreadLocal),
            cudaErrorInvalidValue);
  cudaGraph_t graph = nullptr;
  cudaError_t elsewhere = cudaSuccess;
  std::thread([&] { elsewhere = cudaStreamEndCapture(capture.stream, &graph); }).join();
  EXPECT_EQ(elsewhere, cudaErrorStreamCaptureWrongThread);
  EXPECT_EQ(capture.end(), cudaSuccess);
  EXPECT_EQ(cudaStreamEndCapture(capture.stream, &graph), cudaErrorInvalidValue);
}

// Streams join a capture by its events, and must be waited for at its end.
TEST(SimulatedGraph, OtherStreamsJoinByEvents) {
  cudaEvent_t inside = nullptr, joined = nullptr, outside = nullptr;
  for (cudaEvent_t* event : {&inside, &joined, &outside}) {
    ASSERT_EQ(cudaEventCreateWithFlags(event, cudaEventDisableTiming), cudaSuccess);
  }
  const cudaStream_t other = new_stream();
  ASSERT_EQ(cudaEventRecord(outside, other), cudaSuccess);
  {
    Capture capture;
    EXPECT_EQ(cudaStreamWaitEvent(capture.stream, outside, 0), cudaErrorStreamCaptureIsolation);
    EXPECT_EQ(capture.end(), cudaErrorStreamCaptureInvalidated);
  }
  for (const bool awaited : {true, false}) {
    Capture capture;
    ASSERT_EQ(cudaEventRecord(inside, capture.stream), cudaSuccess);
    EXPECT_EQ(cudaEventQuery(inside), cudaErrorCapturedEvent);
    EXPECT_EQ(cudaEventSynchronize(inside), cudaErrorCapturedEvent);
    ASSERT_EQ(cudaStreamWaitEvent(other, inside, 0), cudaSuccess);
    EXPECT_EQ(sim::enqueue("work", other, [] {}), cudaSuccess);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(other, &graph), cudaErrorStreamCaptureUnmatched);
    if (awaited) {
      ASSERT_EQ(cudaEventRecord(joined, other), cudaSuccess);
      ASSERT_EQ(cudaStreamWaitEvent(capture.stream, joined, 0), cudaSuccess);
    }
    EXPECT_EQ(capture.end(), awaited ? cudaSuccess : cudaErrorStreamCaptureUnjoined);
    EXPECT_EQ(cudaStreamWaitEvent(other, inside, 0), cudaErrorCapturedEvent) << "it is over";
    EXPECT_EQ(cudaStreamSynchronize(other), cudaSuccess);
  }
  {
    Capture capture;
    ASSERT_EQ(cudaEventRecord(inside, capture.stream), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(nullptr, inside, 0), cudaErrorStreamCaptureImplicit);
    EXPECT_EQ(capture.end(), cudaErrorStreamCaptureInvalidated);
  }
  for (cudaEvent_t event : {inside, joined, outside}) {
    EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  }
  EXPECT_EQ(cudaStreamDestroy(other), cudaSuccess);
  (void)cudaGetLastError();
}

// Work of a side stream is part of the graph, whatever the order of streams.
TEST(SimulatedGraph, ReplaysTheWorkOfJoinedStreams) {
  for (const StreamOrder order : {StreamOrder::kLazy, StreamOrder::kRandom, StreamOrder::kEager}) {
    const sim::ScopedSettings scope({.streams = order});
    const Tensor x = ones({1000}, kFloat32, kGpu);
    const Stream side = stream_from_pool(kGpu);
    Tensor y;
    CudaGraph graph(kGpu, [&] {
      const Stream first = current_stream(kGpu);
      const Tensor twice = x * 2;
      Event made(kGpu), done(kGpu);
      made.record();
      made.block(side);
      {
        const StreamGuard guard(side);
        y = (twice + 0.5) * 2 - twice;
        done.record();
      }
      done.block(first);
      y.mul_(10);
    });
    synchronize(side);
    // What the side stream's work took in passing is the graph's, too.
    std::vector<Tensor> others;
    {
      const StreamGuard guard(side);
      for (int i = 0; i < 4; ++i) others.push_back(full({1000}, i, kFloat32, kGpu));
    }
    for (int i = 1; i <= 3; ++i) {
      x.fill_(i);
      graph.replay();
      EXPECT_EQ(y.to_vector<float>()[999], static_cast<float>(10 * (2 * i + 1)));
    }
    synchronize(side);
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(others[i].to_vector<float>()[7], i);
  }
}

TEST(SimulatedGraph, RefusesToReachAnotherGpu) {
  const Tensor x = ones({3}, kFloat32, kGpu), there = ones({3}, kFloat32, cuda_device(1));
  const std::string error =
      "cuda_graph: captured work must not copy from or to another device: none of it has run on "
      "cuda:0 yet";
  EXPECT_EQ(error_of([&] { CudaGraph graph(kGpu, [&] { x.copy_(there); }); }), error);
  EXPECT_EQ(error_of([&] { CudaGraph graph(kGpu, [&] { there.copy_(x); }); }), error);
}

// What a capture meets first is not measured: it could not be waited for.
TEST(SimulatedGraph, MeasuresNothing) {
  sim::set_engines({{.name = "slow", .milliseconds = 2}, {.name = "fast", .milliseconds = 1}});
  set_benchmark(true);
  const Tensor x = ones({3, 5}, kFloat32, kGpu), w = ones({5, 7}, kFloat32, kGpu);
  Tensor y;
  CudaGraph graph(kGpu, [&] { y = matmul(x, w); });
  graph.replay();
  set_benchmark(false);
  plans_clear();
  sim::set_engines({});
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(21, 5));
}

// Steps of a model on threads of their own, which have no handles and plans yet.
class Steps {
 public:
  Steps() : sgd_(model_.parameters(), {.lr = 0.01, .momentum = 0.9}) {
    sgd_.make_capturable();
    Generator generator(5);
    for (const Tensor& param : model_.parameters()) {
      param.detach().copy_(randn(param.shape(), kFloat32, kCpu, &generator));
    }
  }
  void step() {
    sgd_.zero_grad();
    model_(x_).square().mean().backward();
    sgd_.step();
  }
  // Steps, a capture and its replays; all end in the same, unless a call fails.
  std::vector<float> run() {
    step();
    CudaGraph graph(kGpu, [&] { step(); });
    graph.replay();
    graph.replay();
    return model_.parameters()[0].detach().to_vector<float>();
  }

 private:
  static nn::Sequential make_model() {
    nn::Sequential model(nn::Conv2d(1, 2, 3), nn::ReLU(), nn::Dropout(0.2), nn::Flatten(),
                         nn::Linear(32, 3));
    model.to(kGpu);
    return model;
  }
  nn::Sequential model_ = make_model();
  Tensor x_ = ones({2, 1, 6, 6}, kFloat32, kGpu);
  optim::SGD sgd_;
};

constexpr int64_t kStride = WICK_SIM_TSAN ? 37 : 1;

std::vector<float> whole_run() {
  manual_seed(4);
  return Steps().run();
}

TEST(SimulatedGraph, SurvivesEveryCallThatFails) {
  const std::vector<float> want = whole_run();
  const int64_t before = memory_allocated(kGpu);
  int64_t nth = 1;
  for (bool reached = true; reached; nth += kStride) {
    std::thread([&] {
      sim::fail_call(nth, cudaErrorUnknown);
      bool told = false;
      std::vector<float> got;
      try {
        got = whole_run();
      } catch (const Error&) {
        told = true;
      }
      reached = sim::calls_until_failure() == 0;
      sim::fail_call(0, cudaSuccess);
      if (told) return;
      EXPECT_EQ(got, want) << "nobody was told of call " << nth;
      if (!reached) return;
      EXPECT_TRUE(is_dropped(sim::failed_call()))
          << "nobody was told that call " << nth << ", " << sim::failed_call() << ", failed";
    }).join();
    ASSERT_EQ(whole_run(), want) << "after call " << nth;
    ASSERT_EQ(memory_allocated(kGpu), before) << "after call " << nth;
  }
  EXPECT_GT(nth, 100);
}

TEST(SimulatedGraph, SurvivesEveryAllocationThatFails) {
  const std::vector<float> want = whole_run();
  const int64_t before = memory_allocated(kGpu);
  bool thrown = true;
  int64_t nth = 1;
  for (; thrown; nth += WICK_SIM_TSAN ? 11 : 1) {
    thrown = false;
    allocator(kGpu).fail_allocation(nth);
    try {
      whole_run();
    } catch (const OutOfMemory&) {
      thrown = true;
    }
    allocator(kGpu).fail_allocation(0);
    ASSERT_EQ(whole_run(), want) << "after allocation " << nth;
    ASSERT_EQ(memory_allocated(kGpu), before) << "after allocation " << nth;
  }
  EXPECT_GT(nth, 40);
}

}  // namespace
}  // namespace wick::testing
