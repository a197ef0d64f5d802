#include "wick/kernels/sim/count.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "wick/core/stream.h"
#include "wick/core/tensor.h"
#include "wick/kernels/cuda/common/launch.h"

// The counts of kernels of which they are known. This file is compiled for counting where clang
// does it.
namespace wick::testing {
namespace {

// Under ThreadSanitizer what is noted would look like races.
#if defined(__clang__)
constexpr bool kCounts = !__has_feature(thread_sanitizer);
#else
constexpr bool kCounts = false;
#endif

// y[t] = x[t * stride], one float per thread.
__global__ void strided_kernel(const float* x, float* y, int64_t stride) {
  y[threadIdx.x] = x[threadIdx.x * stride];
}

// Writes columns of a square in shared memory of `kWidth` floats per row, reads its rows.
template <int kWidth>
__global__ void transpose_kernel(float* y) {
  WICK_SHARED(float, square, 32 * kWidth);
  const unsigned t = threadIdx.x;
  square[t * kWidth] = 1;
  __syncthreads();
  y[t] = square[t];
}

// Two floats per lane: half a warp at a time.
__global__ void pairs_kernel(double* y) {
  WICK_SHARED(double, line, 32);
  line[threadIdx.x] = 1;
  __syncthreads();
  y[threadIdx.x] = line[threadIdx.x];
}

__global__ void diverging_kernel(const float* x, float* y) {
  if (threadIdx.x % 4 == 0) y[threadIdx.x] = x[threadIdx.x];
}

class SimCount : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kCounts) GTEST_SKIP() << "not a build that counts: clang without ThreadSanitizer";
    x = zeros({4096}, kFloat32, cuda_device(0));
    y = zeros({4096}, kFloat32, cuda_device(0));
    synchronize(cuda_device(0));
  }
  template <class... Parameters, class... Arguments>
  sim::AccessCounts count(void (*kernel)(Parameters...), const Arguments&... arguments) {
    sim::count_accesses(true);
    cuda::launch("counted", cuda_device(0), {dim3(2), dim3(32)}, kernel, arguments...);
    synchronize(cuda_device(0));
    sim::count_accesses(false);
    for (const sim::CountedKernel& kernel_counts : sim::counted_kernels()) {
      if (kernel_counts.name == "counted") return kernel_counts.counts;
    }
    return {};
  }

  Tensor x, y;
};

TEST_F(SimCount, SectorsOfGlobalMemory) {
  const float* from = x.data<float>();
  float* to = y.data<float>();
  const sim::AccessCounts dense = count(strided_kernel, from, to, int64_t{1});
  EXPECT_EQ(dense.launches, 1);
  EXPECT_EQ(dense.global_accesses, 4);  // a load and a store in each of two blocks
  EXPECT_EQ(dense.global_sectors, 16);
  EXPECT_EQ(dense.least_sectors, 16);
  EXPECT_EQ(dense.lanes, 4 * 32);
  EXPECT_EQ(dense.shared_accesses, 0);
  const sim::AccessCounts far = count(strided_kernel, from, to, int64_t{32});
  EXPECT_EQ(far.global_sectors, 2 * (32 + 4));
  EXPECT_EQ(far.least_sectors, 16);
  const sim::AccessCounts same = count(strided_kernel, from, to, int64_t{0});
  EXPECT_EQ(same.global_sectors, 2 * (1 + 4));
  EXPECT_EQ(same.least_sectors, 2 * (1 + 4));
  const sim::AccessCounts off = count(strided_kernel, from + 1, to, int64_t{1});
  EXPECT_EQ(off.global_sectors, 2 * (5 + 4));
}

TEST_F(SimCount, ConflictsOfBanks) {
  float* to = y.data<float>();
  const sim::AccessCounts all = count(transpose_kernel<32>, to);
  EXPECT_EQ(all.shared_accesses, 4);
  EXPECT_EQ(all.shared_passes, 2 * (32 + 1));
  EXPECT_EQ(all.least_passes, 4);
  const sim::AccessCounts none = count(transpose_kernel<33>, to);
  EXPECT_EQ(none.shared_passes, 4);
  const sim::AccessCounts pairs = count(pairs_kernel, reinterpret_cast<double*>(to));
  EXPECT_EQ(pairs.shared_passes, 8);
  EXPECT_EQ(pairs.least_passes, 8);
}

TEST_F(SimCount, LanesThatTakePart) {
  const sim::AccessCounts counts = count(diverging_kernel, x.data<float>(), y.data<float>());
  EXPECT_EQ(counts.accesses(), 4);
  EXPECT_EQ(counts.lanes, 4 * 8);
}

}  // namespace
}  // namespace wick::testing
