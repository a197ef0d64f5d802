#include <gtest/gtest.h>

#include "wick/core/memory/detail/workspace.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/random.h"
#include "wick/kernels/cpu/direct_convolution.h"

namespace wick::testing {
namespace {

struct Layer {
  Shape x, weight, y;
  Conv2dParams params;
};

// One with weights of few tiles, whose results are shared out; one with few elements of a patch;
// one with several blocks along k and strides; one with groups; three of small images, whose taps
// outside are left out.
const Layer kLayers[] = {
    {{2, 3, 97, 96}, {40, 3, 3, 3}, {2, 40, 97, 96}, {{1, 1}, {1, 1}, {1, 1}, 1}},
    {{2, 3, 17, 18}, {32, 3, 3, 3}, {2, 32, 17, 18}, {{1, 1}, {1, 1}, {1, 1}, 1}},
    {{1, 100, 9, 8}, {70, 100, 3, 3}, {1, 70, 5, 4}, {{2, 2}, {1, 1}, {1, 1}, 1}},
    {{2, 6, 9, 8}, {9, 2, 3, 3}, {2, 9, 7, 6}, {{1, 1}, {0, 0}, {1, 1}, 3}},
    {{9, 24, 5, 6}, {70, 24, 3, 3}, {9, 70, 5, 6}, {{1, 1}, {1, 1}, {1, 1}, 1}},
    {{7, 300, 4, 4}, {20, 300, 3, 3}, {7, 20, 2, 2}, {{2, 2}, {1, 1}, {1, 1}, 1}},
    {{2, 256, 5, 6}, {40, 256, 3, 3}, {2, 40, 5, 6}, {{1, 1}, {1, 1}, {1, 1}, 1}}};

TEST(DirectConvolution, HasTheSameBitsOnEveryInstructionSet) {
#ifdef WICK_WITHOUT_AVX2
  GTEST_SKIP() << "nothing to compare: a sanitized build has the kernels of one instruction set";
#else
  if (cpu_isa() != CpuIsa::kAvx512)
    GTEST_SKIP() << "nothing to compare: this processor, or WICK_CPU_ISA, has AVX2 alone";
  for (const Dtype dtype : {kFloat32, kFloat64}) {
    for (const Layer& layer : kLayers) {
      const auto images = [&](const Shape& shape) {
        return randn(shape).to(dtype).contiguous(MemoryFormat::kChannelsLast);
      };
      const Tensor x = images(layer.x), w = images(layer.weight), dy = images(layer.y);
      const Tensor results[2][3] = {{images(layer.y), images(layer.x), images(layer.weight)},
                                    {images(layer.y), images(layer.x), images(layer.weight)}};
      AllocatorWorkspace workspace(kCpu);
      const View vx = x.view_for_kernel(), vw = w.view_for_kernel(), vdy = dy.view_for_kernel();
      const auto view = [&](int isa, int i) { return results[isa][i].view_for_kernel(); };
      cpu_avx2::direct_forward(vx, vw, nullptr, {}, view(0, 0), layer.params, workspace);
      cpu_avx512::direct_forward(vx, vw, nullptr, {}, view(1, 0), layer.params, workspace);
      cpu_avx2::direct_backward_data(vdy, vw, view(0, 1), layer.params, workspace);
      cpu_avx512::direct_backward_data(vdy, vw, view(1, 1), layer.params, workspace);
      cpu_avx2::direct_backward_weights(vx, vdy, view(0, 2), layer.params, workspace);
      cpu_avx512::direct_backward_weights(vx, vdy, view(1, 2), layer.params, workspace);
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(equal(results[0][i], results[1][i])) << i;
    }
  }
#endif
}

}  // namespace
}  // namespace wick::testing
