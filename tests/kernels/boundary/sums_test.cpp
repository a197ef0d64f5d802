// What needs all blocks for its result: sums and scans over the first axis, or over everything.
// The sanitizers alone watch the indices of the blocks that are run.
#include "wick/kernels/index.h"
#include "wick/kernels/optim/lamb.h"
#include "wick/kernels/sim/sanitizers.h"
#include "wick/tests/kernels/boundary/boundary.h"

namespace wick::testing {
namespace {

class BoundaryOfSums : public Boundary {
 protected:
  void SetUp() override {
    if (!WICK_SIM_ASAN) GTEST_SKIP() << "not built with AddressSanitizer";
  }
};
TEST_P(BoundaryOfSums, StaysWithinItsMemory) {
  const Case& c = GetParam();
  const Tensor x = ending_in(random_rows(c, kProbed), c);
  const ScopedBlocks blocks(blocks_at_ends(x));
  const Tensor y = c.run(x);
  synchronize(kGpu);
}

// It sums over each tensor first.
void lamb(const OptimTensor& tensor, const OptimStep& how) {
  const rules::lamb::Args args{{0.1, 0.01, false}, 0.9, 0.999, 1e-6, true, true, false};
  WICK_CALL_CUDA(optim_step(&tensor, 1, args, how));
}
Tensor norm_of(const Tensor& x) {
  const View view = x.view_for_kernel();
  const Tensor partial = empty({chunks_of(view)}, kFloat64, kGpu);
  const Tensor norm = empty({}, kFloat32, kGpu);
  WICK_CALL_CUDA(grad_p_norm(&view, 1, 2, partial.view_for_kernel(), norm.view_for_kernel()));
  return norm;
}
/// The places of the chunks that are run, over one another.
Tensor places_of_nonzero(const Tensor& x) {
  const int64_t chunks = (x.numel() + kNonzeroChunk - 1) / kNonzeroChunk;
  const Tensor starts = empty({chunks + 1}, kInt64, kGpu);
  // Twice a chunk: a byte of fresh memory, 0xff, counts for more than one place.
  const Tensor places = empty({2 * kNonzeroChunk, 2}, kInt64, kGpu);
  const View mask = x.view_for_kernel();
  WICK_CALL_CUDA(count_nonzero(mask, starts.view_for_kernel()));
  starts.copy_(zeros(starts.shape(), kInt64));  // what it holds needs all blocks
  WICK_CALL_CUDA(nonzero(mask, starts.view_for_kernel(), places.view_for_kernel()));
  return places;
}
/// The gradients by weight and bias, by which `function` takes a second and third tensor.
template <class Norm>
Function weight_gradients(int64_t size, const Norm& function) {
  return [size, function](const Tensor& x) {
    const Tensor w = of_columns(size, kFloat32).set_requires_grad();
    const Tensor b = of_columns(size, kFloat32).set_requires_grad();
    return grad({function(x, w, b)}, {w, b}, {x}).at(0);
  };
}
Tensor batch_norm_of_itself(const Tensor& x) {
  const Tensor p = of_columns(x.size(1), kFloat32);
  return batch_norm_relu(x, p, p, {}, {});
}
Tensor convolved_weight_gradient(const Tensor& x) {
  const Tensor w = of_columns(16).reshape({4, 4, 1, 1}).set_requires_grad();
  return grad({conv2d(x, w)}, {w}, {x}).at(0);
}

// Few long rows where threads walk from row to row.
const Shape kLong = {1 << 20}, kLessLong = {1 << 16};
const std::vector<Case> kSums = {
    {"sum", [](const Tensor& x) { return sum(x); }},
    {"sum_of_first_axis", [](const Tensor& x) { return sum(x, {0}); }, kLong},
    {"amax_of_first_axis", [](const Tensor& x) { return amax(x, {0}); }, kLong},
    {"var_of_first_axis", [](const Tensor& x) { return var(x, {0}); }, kLong},
    {"argmax_of_first_axis", [](const Tensor& x) { return argmax(x, 0); }, kLong},
    {"sum_of_channels",
     [](const Tensor& x) {
       return sum(x, {0, 2, 3});
     },
     kImage, kFloat16, MemoryFormat::kChannelsLast},
    {"cumsum_of_first_axis_gradient", gradient([](const Tensor& x) { return cumsum(x, 0); }),
     kLong},
    {"batch_norm_of_itself_gradient", gradient(&batch_norm_of_itself), kImage, kFloat16,
     MemoryFormat::kChannelsLast},
    {"batch_norm_of_itself_by_rows_gradient", gradient(&batch_norm_of_itself), kImage},
    {"layer_norm_weight_gradients",
     weight_gradients(1 << 16, [](const Tensor& x, const Tensor& w,
                                  const Tensor& b) { return layer_norm(x, {x.size(1)}, w, b); }),
     kLessLong},
    {"group_norm_weight_gradients",
     weight_gradients(64, [](const Tensor& x, const Tensor& w,
                             const Tensor& b) { return group_norm(x, 4, w, b); }),
     kImage, kFloat16, MemoryFormat::kChannelsLast},
    {"conv2d_weight_gradient",
     without_library(&convolved_weight_gradient),
     {4, 32, 32},
     kFloat16,
     MemoryFormat::kChannelsLast},
    {"nonzero", &places_of_nonzero, {kColumns}, kBool},
    {"grad_norm", &norm_of},
    {"lamb_step", stepped(&lamb), {kColumns}, kFloat32},
};

INSTANTIATE_TEST_SUITE_P(Kernels, BoundaryOfSums, ::testing::ValuesIn(kSums),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace wick::testing
