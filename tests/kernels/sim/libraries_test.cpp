// What stands for the vendor's libraries: it checks what it is handed, and fails when told to.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "wick/core/memory/detail/workspace.h"
#include "wick/core/ops/activation.h"
#include "wick/core/ops/attention.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/conv.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/stream.h"
#include "wick/core/tensor.h"
#include "wick/kernels/cuda/convolution.h"
#include "wick/kernels/cuda/gemm.h"
#include "wick/kernels/sim/sanitizers.h"
#include "wick/kernels/sim/simulator.h"
#include "wick/tests/harness/deterministic.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

cuda::Gemm gemm_of(const Tensor& a, const Tensor& b, const Tensor& y) {
  cuda::Gemm g;
  g.m = a.size(0);
  g.k = a.size(1);
  g.n = b.size(1);
  g.a = {a.data<float>(), g.k};
  g.b = {b.data<float>(), g.n};
  g.y = y.data<float>();
  return g;
}

std::string error_of_gemm(const cuda::Gemm& g) {
  return error_of([&] {
    AllocatorWorkspace workspace(kGpu);
    cuda::gemm(kGpu, g, kAnyEngine, workspace);
    synchronize(kGpu);
  });
}

TEST(SimulatedLibraries, GemmChecksWhatItIsHanded) {
  const Tensor a = ones({2, 3}, kFloat32, kGpu), b = ones({3, 4}, kFloat32, kGpu);
  const Tensor y = zeros({2, 4}, kFloat32, kGpu), on_host = ones({2, 3});
  const cuda::Gemm right = gemm_of(a, b, y);
  EXPECT_EQ(error_of_gemm(right), "no error");
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(8, 3.0f));

  cuda::Gemm g = right;
  g.a.data = on_host.data<float>();
  EXPECT_EQ(error_of_gemm(g), "cublasLtMatmul: a is not in device memory");
  g = right;
  g.b.ld = 3;
  EXPECT_EQ(error_of_gemm(g), "cublasLtMatmul: the leading dimension is 3 for 3 x 4 in rows");
  g = right;
  g.y = reinterpret_cast<char*>(y.data<float>()) + 2;
  EXPECT_EQ(error_of_gemm(g), "cublasLtMatmul: y is not aligned to its elements");
  g = right;
  g.dtype = kInt64;
  EXPECT_EQ(error_of_gemm(g), "cublasLtMatmul: no such dtype: int64");
}

// An activation is done by the library where it can be, else left to the caller.
TEST(SimulatedLibraries, GemmActivates) {
  const Tensor a = ones({2, 3}, kFloat32, kGpu), b = full({3, 8}, -1, kFloat32, kGpu);
  const Tensor y = ones({2, 8}, kFloat32, kGpu), before = ones({2, 9}, kFloat32, kGpu);
  const auto run = [](const cuda::Gemm& g) {
    AllocatorWorkspace workspace(kGpu);
    return cuda::gemm(kGpu, g, kAnyEngine, workspace);
  };
  const std::vector<float> product(16, -3.0f);
  cuda::Gemm g = gemm_of(a, b, y);
  g.activation = Activation::kRelu;
  EXPECT_TRUE(run(g));
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(16, 0.0f));
  y.detach().fill_(1);
  {  // an engine of an older file of plans, say
    AllocatorWorkspace workspace(kGpu);
    EXPECT_TRUE(cuda::gemm(kGpu, g, 1000, workspace));
  }
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(16, 0.0f));

  g.activation = Activation::kGeluTanh;
  g.before = before.data<float>();
  EXPECT_TRUE(run(g));
  const Tensor kept = before.flatten().narrow(0, 0, 16);
  EXPECT_EQ(kept.to_vector<float>(), product);
  EXPECT_EQ(y.to_vector<float>(), gelu(kept, GeluApproximation::kTanh).to_vector<float>());

  before.fill_(0);
  y.fill_(7);
  g.before = before.data<float>() + 1;  // not at a multiple of 16 bytes
  EXPECT_FALSE(run(g));
  EXPECT_EQ(before.flatten().narrow(0, 1, 16).to_vector<float>(), product);
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(16, 7.0f));
  g.before = nullptr;
  g.n = 7;  // rows of 8 of b: the library keeps nothing, so any length will do
  EXPECT_TRUE(run(g));
  g.before = before.data<float>();
  EXPECT_FALSE(run(g));
}

TEST(SimulatedLibraries, ConvolutionChecksWhatItIsHanded) {
  const auto image = [](const Shape& shape) {
    return ones(shape, kFloat32, kGpu).contiguous(MemoryFormat::kChannelsLast);
  };
  const Tensor x = image({1, 2, 3, 3}), weight = image({4, 2, 1, 1}), y = image({1, 4, 3, 3});
  const auto error = [&](const Tensor& in) {
    return error_of([&] {
      AllocatorWorkspace workspace(kGpu);
      cuda::convolution(ConvDirection::kForward, in.view_for_kernel(), weight.view_for_kernel(), {},
                        y.view_for_kernel(), {}, kAnyEngine, workspace);
      synchronize(kGpu);
    });
  };
  EXPECT_EQ(error(x), "no error");
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(36, 2.0f));
  EXPECT_NE(error(x.contiguous()).find("x is not a channels-last image"), std::string::npos);
  EXPECT_NE(error(x.to(kCpu)).find("x is not in device memory"), std::string::npos);
  EXPECT_NE(error(x.to(kFloat16)).find("dtypes differ"), std::string::npos);
}

// A call that fails is an error that names it; the next one works.
TEST(SimulatedLibraries, FailWhenTold) {
  const Tensor a = ones({2, 2}, kFloat32, kGpu), image = ones({1, 1, 2, 2}, kFloat32, kGpu);
  const auto multiply = [&] { return matmul(a, a).to_vector<float>(); };
  const auto convolve = [&] { return conv2d(image, image).to_vector<float>(); };
  multiply(), convolve();  // handles and plans are made
  sim::fail_call(1, cudaErrorUnknown, "cublasLtMatmul");
  EXPECT_EQ(error_of(multiply).rfind("matmul: cublasLtMatmul failed: cudaErrorUnknown", 0), 0u);
  EXPECT_EQ(multiply(), std::vector<float>(4, 2.0f));
  sim::fail_call(1, cudaErrorUnknown, "cudnn");
  EXPECT_EQ(error_of(convolve).rfind("conv2d: cudnnBackendExecute failed: cudaErrorUnknown", 0),
            0u);
  EXPECT_EQ(convolve(), std::vector<float>(1, 4.0f));
}

TEST(SimulatedLibraries, FailToMakeWhatTheyNeed) {
  const auto begins = [](const std::string& text, const std::string& with) {
    EXPECT_EQ(text.rfind(with, 0), 0u) << text;
  };
  std::thread([&] {  // which has no handles yet
    const Tensor a = ones({5, 7}, kFloat32, kGpu), image = ones({1, 1, 5, 7}, kFloat32, kGpu);
    const auto multiply = [&] { return matmul(a, a.transpose(0, 1)).to_vector<float>(); };
    const auto convolve = [&] { return conv2d(image, image).to_vector<float>(); };
    sim::fail_call(1, cudaErrorUnknown, "cublasLt");
    begins(error_of(multiply), "matmul: cublasLtCreate failed");
    sim::fail_call(2, cudaErrorUnknown, "cublasLt");
    begins(error_of(multiply), "matmul: cublasLtMatmulAlgoGetHeuristic failed");
    EXPECT_EQ(multiply(), std::vector<float>(25, 7.0f));
    sim::fail_call(1, cudaErrorUnknown, "cudnn");
    begins(error_of(convolve), "conv2d: cudnnCreate failed");
    sim::fail_call(2, cudaErrorUnknown, "cudnn");
    begins(error_of(convolve), "conv2d: cudnnBackendFinalize failed");
    EXPECT_EQ(convolve(), std::vector<float>(1, 35.0f));
  })
      .join();
}

// The library is promised addresses that are multiples of 16.
TEST(SimulatedLibraries, AttentionTakesViewsThatAreNotAligned) {
  const Shape shape{1, 2, 3, 8};
  const Tensor values = (arange(48) * 0.1).sin();
  const auto results = [&](int64_t offset) {
    const Tensor room = zeros({60}, kFloat16, kGpu);
    room.narrow(0, offset, 48).copy_(values.to(kFloat16).to(kGpu));
    const Tensor view = room.narrow(0, offset, 48).view(shape);
    const Tensor q = view.detach(), k = view.detach(), v = view.detach();
    for (const Tensor* x : {&q, &k, &v}) x->set_requires_grad();
    const Tensor y = scaled_dot_product_attention(q, k, v);
    y.backward(view);
    std::vector<std::vector<float>> all;
    for (const Tensor& x : {y, q.grad(), k.grad(), v.grad()}) {
      all.push_back(x.to(kFloat32).to_vector<float>());
    }
    return all;
  };
  EXPECT_EQ(results(1), results(0));
}

// Values and gradients of attention with each kind of mask, whose parts are laid out by kernels.
TEST(SimulatedLibraries, AttentionIsTheCpusInEveryOrderOfThreads) {
  const auto attend = [](Device device, int kind) {
    const auto heads = [&](const Shape& shape, double step) {  // as a projection leaves them
      const Tensor x = ((arange(shape.numel()) * step).sin() * 2).view(shape).to(kFloat16);
      return x.to(device).transpose(1, 2).set_requires_grad();
    };
    const Tensor q = heads({2, 9, 3, 8}, 0.7), k = heads({2, 7, 3, 8}, 0.3),
                 v = heads({2, 7, 3, 16}, 1.1);
    const Tensor added = (arange(2 * 9 * 7) * 0.9).cos().view({2, 1, 9, 7}).to(device);
    const Tensor seen = lt(arange(0, 7, 1, kInt64, device), 4);
    const Tensor mask = kind == 2 ? added : kind == 3 ? seen : Tensor();
    const Tensor y = scaled_dot_product_attention(q, k, v, mask, 0, kind == 1);
    y.backward((arange(y.numel()) * 0.5).sin().view(y.shape()).to(kFloat16).to(device));
    std::vector<std::vector<float>> all;
    for (const Tensor& x : {y, q.grad(), k.grad(), v.grad()}) {
      all.push_back(x.to(kFloat32).to(kCpu).contiguous().to_vector<float>());
    }
    return all;
  };
  for (const auto order : {sim::ThreadOrder::kForward, sim::ThreadOrder::kReverse,
                           sim::ThreadOrder::kRandom, sim::ThreadOrder::kAhead}) {
    const sim::ScopedSettings scope({.threads = order, .seed = 3});
    for (int kind = 0; kind < 4; ++kind) {
      const auto expected = attend(kCpu, kind), found = attend(kGpu, kind);
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(found[i].size(), expected[i].size());
        for (size_t j = 0; j < found[i].size(); ++j) {
          EXPECT_NEAR(found[i][j], expected[i][j], 0.02) << "kind " << kind << ", result " << i;
        }
      }
    }
  }
}

TEST(SimulatedLibraries, AConvolutionWithoutAPlanIsToldOfOnce) {
  sim::set_engines({{.name = "random", .deterministic = false}});
  const Deterministic only;
  const auto said = [] {
    const Tensor image = ones({1, 1, 4, 4}, kFloat32, kGpu);
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(conv2d(image, image).to_vector<float>()[0], 16);
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said(),
            "wick: conv2d: cuDNN has no plan for x [1, 1, 4, 4], weight [1, 1, 4, 4] in float32 "
            "that is deterministic: a slow kernel computes it\n");
  EXPECT_EQ(said(), "");
  sim::set_engines({});
}

// The library may use its scratch memory as long as its work runs, in the stream's order.
TEST(SimulatedLibraries, ScratchIsReusedInOrder) {
  for (const auto order : {sim::StreamOrder::kLazy, sim::StreamOrder::kRandom}) {
    const sim::ScopedSettings scope({.streams = order, .seed = 3});
    Tensor y = ones({64, 16}, kFloat32, kGpu);
    const Tensor half = ones({16, 16}, kFloat32, kGpu) * (1.0 / 16);
    for (int i = 0; i < 20; ++i) y = matmul(y, half) + ones({64, 16}, kFloat32, kGpu);
    EXPECT_EQ(y.to_vector<float>(), std::vector<float>(64 * 16, 21.0f));
  }
}

}  // namespace
}  // namespace wick::testing
