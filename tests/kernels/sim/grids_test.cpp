// Kernels take as many blocks as the GPU's multiprocessors want. ctest runs this a second time on a
// GPU of one multiprocessor (WICK_SIM_MULTIPROCESSORS).
#include <gtest/gtest.h>

#include "wick/core/autograd.h"
#include "wick/core/core.h"
#include "wick/kernels/sim/simulator.h"
#include "wick/nn/nn.h"
#include "wick/tests/harness/devices.h"

namespace wick::testing {
namespace {

// No kernel of `run` has more than so many blocks for each multiprocessor.
template <class Run>
void expect_fitting(const char* what, const Run& run) {
  constexpr int64_t kMostEach = 32;
  sim::take_largest_grid();
  run();
  const int64_t blocks = sim::take_largest_grid();
  EXPECT_GT(blocks, 0) << what;
  EXPECT_LE(blocks, kMostEach * device_properties(kGpu).multiprocessor_count) << what;
}

TEST(SimulatedGrids, FollowTheNumberOfMultiprocessors) {
  const Tensor x = ones({1 << 20}, kFloat32, kGpu);
  expect_fitting("elementwise", [&] { x.mul(2); });
  expect_fitting("sum of everything", [&] { x.sum(); });
  expect_fitting("sums of columns", [&] { x.view({1 << 15, 32}).sum({0}); });
  expect_fitting("argmax", [&] { x.argmax(0); });
  const Tensor indices = zeros({1 << 16}, kInt64, kGpu);
  const Tensor y = zeros({4, 16}, kFloat32, kGpu);
  expect_fitting("index_add", [&] { y.index_add(0, indices, x.view({1 << 16, 16})); });
}

TEST(SimulatedGrids, OfNormsDoSoToo) {
  nn::LayerNorm layer({32});
  layer.to(kGpu);
  const Tensor z = layer(ones({1 << 14, 32}, kFloat32, kGpu)).sum();
  expect_fitting("gradients of a layer norm", [&] { z.backward(); });
  nn::BatchNorm2d batch(8);
  batch.to(kGpu);
  const Tensor images = ones({16, 8, 64, 64}, kFloat32, kGpu);
  expect_fitting("batch norm of images in rows", [&] { batch(images); });
  const Tensor last = images.contiguous(MemoryFormat::kChannelsLast);
  expect_fitting("batch norm of images by channels", [&] { batch(last); });
}

}  // namespace
}  // namespace wick::testing
