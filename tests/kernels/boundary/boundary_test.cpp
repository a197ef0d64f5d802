// Tensors of more than 2^31 elements on the simulated GPU: the blocks at both ends of each kernel's
// grid are run, and what they make of the last rows is compared with the same rows alone.
#include "wick/tests/kernels/boundary/boundary.h"

#include <cstdlib>

#include "wick/kernels/gradient_norm.h"
#include "wick/kernels/lerp.h"
#include "wick/kernels/optim/adam.h"
#include "wick/kernels/optim/sgd.h"
#include "wick/kernels/pool.h"

namespace wick::testing {
namespace {

// Before anything asks for the device: the machine's memory is only taken where it is touched.
[[maybe_unused]] const int kEnlarged = ::setenv("WICK_SIM_MEMORY", "131072", 1);

void expect_same_last_rows(const Tensor& whole, const Tensor& alone, double filled) {
  const Tensor got = last_rows(whole).to(kCpu).to(kFloat64).contiguous();
  const Tensor want = alone.to(kCpu).to(kFloat64).contiguous();
  ASSERT_EQ(got.shape(), want.shape());
  const bool is_integer = !is_floating(whole.dtype());
  const std::vector<double> g = got.to_vector<double>(), w = want.to_vector<double>();
  // Some elements belong to blocks that were not run: zeros there, or NaN, which is -1 in integers.
  int64_t right = 0, wrong = 0, fills = 0;
  for (size_t i = 0; i < w.size(); ++i) {
    const bool unwritten =
        g[i] == 0 || g[i] == filled || g[i] != g[i] || (is_integer && g[i] == -1);
    right += !unwritten && g[i] == w[i];
    wrong += !unwritten && g[i] != w[i];
    fills += g[i] == filled && w[i] == filled;
  }
  EXPECT_EQ(wrong, 0) << "of " << w.size() << " elements of the last rows";
  EXPECT_GT(right, 0) << "nothing was written to the last rows";
  if (filled != 0) {
    EXPECT_GT(fills, 0) << "the last rows were not filled";
  }
}

TEST_P(Boundary, LastRowsAreAsAlone) {
  const Case& c = GetParam();
  const Tensor alone = random_rows(c, kProbed);
  const Tensor expected = (c.expected ? c.expected : c.run)(alone.clone());
  synchronize(kGpu);
  empty_cache(kGpu);  // old contents could pass for results
  const Tensor x = ending_in(alone, c);
  Tensor y;
  {
    const ScopedBlocks blocks(blocks_at_ends(x));
    y = c.run(x);
    synchronize(kGpu);
  }
  expect_same_last_rows(y, expected, c.filled);
}

/// An index per row, the same in the last rows of every tensor.
Tensor positions(const Tensor& x) {
  const Tensor index = zeros({x.size(0), 1}, kInt64);  // on the host, where all blocks are run
  last_rows(index).copy_((arange(kProbed, kInt64) * 37 + 5).reshape({kProbed, 1}));
  return index.to(kGpu);
}

/// The cross entropy of each row.
Tensor loss_of_rows(const Tensor& x) {
  return cross_entropy(x, positions(x).reshape({x.size(0)}), {.reduction = LossReduction::kNone});
}
/// Batch norm by given statistics: the batch's own would need all blocks.
Tensor batch_norm_of(const Tensor& x) {
  const Tensor p = of_columns(x.size(1), kFloat32);
  return batch_norm_relu(x, p, p, p, p, {.training = false});
}
Tensor convolved(const Tensor& x) { return conv2d(x, of_columns(16).reshape({4, 4, 1, 1})); }
// More elements than a uint8 counts, in windows that do not overlap.
Tensor max_pool_of_large_windows(const Tensor& x) { return max_pool2d(x, {17}, {16}); }
// The second derivative of max_pool2d: elements of x at places that are given.
Tensor gathered(const Tensor& x) {
  const Shape shape = {x.size(0), x.size(1), x.size(2) / 2, x.size(3) / 2};
  const Tensor taps = empty(shape, kUint8, kGpu, MemoryFormat::kChannelsLast);
  const Tensor last = last_rows(taps);
  Generator generator(7);
  const Tensor places = randint(0, 4, last.shape(), kUint8, kCpu, &generator);
  last.copy_(places.contiguous(MemoryFormat::kChannelsLast));
  const Tensor y = empty(shape, x.dtype(), kGpu, MemoryFormat::kChannelsLast);
  Pool2dParams params;
  for (const int axis : {0, 1}) params.kernel[axis] = params.stride[axis] = 2;
  WICK_CALL_CUDA(
      max_pool2d_gather(x.view_for_kernel(), taps.view_for_kernel(), y.view_for_kernel(), params));
  return y;
}
/// Numbers as many as x has elements, and of its shape, less that of the first one compared.
Tensor count_up(const Tensor& x) {
  const int64_t first = x.numel() - kProbed * kColumns;
  return arange(-first, x.numel() - first, 1, kInt64, x.device()).reshape(x.shape());
}

void sgd(const OptimTensor& tensor, const OptimStep& how) {
  const rules::sgd::Args args{{0.1, 0.01, false}, 0.9, 0, false};
  WICK_CALL_CUDA(optim_step(&tensor, 1, args, how));
}
void adam(const OptimTensor& tensor, const OptimStep& how) {
  const rules::adam::Args args{{0.1, 0.01, false}, 0.9, 0.999, 1e-8};
  WICK_CALL_CUDA(optim_step(&tensor, 1, args, how));
}
void clip_by_norm(const View& x) {
  const Tensor norm = full({}, 3, kFloat32, kGpu);
  WICK_CALL_CUDA(grad_clip_norm(&x, 1, norm.view_for_kernel(), 1));
}
void norm_and_unscale(const View& x) {
  const Tensor scale = full({}, 4, kFloat32, kGpu), norm = empty({}, kFloat64, kGpu);
  const Tensor partial = empty({2 * chunks_of(x)}, kFloat64, kGpu);
  const Tensor found_inf = empty({}, kFloat32, kGpu), first = empty({}, kInt64, kGpu);
  GradientNormArgs wanted;
  wanted.scale = scale.data<float>();
  wanted.unscale = true;
  wanted.partial = partial.data<double>();
  wanted.norm = norm.data<double>();
  wanted.found_inf = found_inf.data<float>();
  wanted.first = first.data<int64_t>();
  WICK_CALL_CUDA(gradient_norm(&x, 1, wanted));
}
Tensor averaged(const Tensor& x) {
  const Tensor average = empty(x.shape(), kFloat32, kGpu);
  last_rows(average).copy_(ones({kProbed, kColumns}));
  const View to = average.view_for_kernel(), from = x.view_for_kernel();
  WICK_CALL_CUDA(lerp(&to, &from, 1, 0.75, {}));
  return average;
}
// Channels of the odd image go one by one.
const Shape kSmallImage = {64, 4, 4}, kOddImage = {7, 32, 32};
const std::vector<Case> kCases = {
    {"relu", [](const Tensor& x) { return relu(x); }},
    {"relu_gradient", gradient([](const Tensor& x) { return relu(x); })},
    {"gelu", [](const Tensor& x) { return gelu(x); }},
    {"add_to_itself", [](const Tensor& x) { return add(x, x); }},
    {"add_broadcast", [](const Tensor& x) { return add(x, of_columns(kColumns)); }},
    {"add_in_place", [](const Tensor& x) { return x.add_(1); }},
    {"greater", [](const Tensor& x) { return gt(x, 0); }},
    {"where", [](const Tensor& x) { return where(gt(x, 0), x, 2.0); }},
    {"to_float32", [](const Tensor& x) { return x.to(kFloat32); }},
    {"uint8_to_float16", [](const Tensor& x) { return x.to(kFloat16); }, {kColumns}, kUint8},
    {"permuted_copy",
     [](const Tensor& x) {
       return x.permute({0, 2, 1}).contiguous();
     },
     {32, 32}},
    {"strided_copy", [](const Tensor& x) { return x.narrow(1, 3, kColumns - 3).contiguous(); }},
    {"channels_last", [](const Tensor& x) { return x.contiguous(MemoryFormat::kChannelsLast); },
     kImage},
    {"sum_of_rows", [](const Tensor& x) { return sum(x, {-1}); }},
    {"sum_of_inner_columns", [](const Tensor& x) { return sum(x, {1}); }, {32, 32}},
    {"amax_of_rows", [](const Tensor& x) { return amax(x, {-1}); }},
    {"var_of_rows", [](const Tensor& x) { return var(x, {-1}); }},
    {"argmax_of_rows", [](const Tensor& x) { return argmax(x, -1); }},
    {"cumsum", [](const Tensor& x) { return cumsum(x, -1); }},
    {"sort", [](const Tensor& x) { return sort(x, -1).values; }},
    {"topk", [](const Tensor& x) { return topk(x, 5, -1).values; }},
    {"softmax", [](const Tensor& x) { return softmax(x, -1); }},
    {"softmax_gradient", gradient([](const Tensor& x) { return softmax(x, -1); })},
    {"softmax_inner", [](const Tensor& x) { return softmax(x, 1); }, {32, 32}},
    {"log_softmax_gradient", gradient([](const Tensor& x) { return log_softmax(x, -1); })},
    {"softmax_inner_gradient", gradient([](const Tensor& x) { return softmax(x, 1); }), {32, 32}},
    {"log_softmax_inner_gradient",
     gradient([](const Tensor& x) { return log_softmax(x, 1); }),
     {32, 32}},
    {"layer_norm",
     [](const Tensor& x) {
       return layer_norm(x, {kColumns}, of_columns(kColumns), of_columns(kColumns));
     }},
    {"layer_norm_gradient", gradient([](const Tensor& x) { return layer_norm(x, {kColumns}); })},
    {"add_layer_norm", [](const Tensor& x) { return add_layer_norm(x, x, {kColumns}).sum; }},
    {"rms_norm_gradient", gradient([](const Tensor& x) { return rms_norm(x, {kColumns}); })},
    {"group_norm", [](const Tensor& x) { return group_norm(x, 4); }, kSmallImage, kFloat16,
     MemoryFormat::kChannelsLast},
    {"group_norm_gradient", gradient([](const Tensor& x) { return group_norm(x, 1); }), kSmallImage,
     kFloat16, MemoryFormat::kChannelsLast},
    {"group_norm_by_rows", [](const Tensor& x) { return group_norm(x, 1); }, {1, kColumns}},
    {"group_norm_by_rows_gradient",
     gradient_by_x([](const Tensor& x) { return group_norm(x, 1); }),
     {1, kColumns}},
    {"gather", [](const Tensor& x) { return gather(x, 1, positions(x)); }},
    {"gather_gradient", gradient([](const Tensor& x) { return gather(x, 1, positions(x)); })},
    {"index_select",
     [](const Tensor& x) { return index_select(x, 1, arange(7, kInt64).to(kGpu)); }},
    {"embedding_of_last_rows",
     [](const Tensor& x) {
       return embedding(x, (arange(kProbed, kInt64) + (x.size(0) - kProbed)).to(kGpu));
     }},
    {"cat",
     [](const Tensor& x) {
       return cat({x, x}, 1);
     }},
    // Blocks of the fill reach further than those of the copy.
    {.name = "pad",
     .run =
         [](const Tensor& x) {
           return pad(x, {1, 2}, 3);
         },
     .filled = 3},
    {"max_pool2d", [](const Tensor& x) { return max_pool2d(x, {2}); }, kImage, kFloat16,
     MemoryFormat::kChannelsLast},
    {"max_pool2d_gradient", gradient([](const Tensor& x) { return max_pool2d(x, {2}); }), kImage,
     kFloat16, MemoryFormat::kChannelsLast},
    {"avg_pool2d", [](const Tensor& x) { return avg_pool2d(x, {2}); }, kImage, kFloat16,
     MemoryFormat::kChannelsLast},
    {"avg_pool2d_gradient", gradient([](const Tensor& x) { return avg_pool2d(x, {2}); }), kImage,
     kFloat16, MemoryFormat::kChannelsLast},
    {"max_pool2d_gather", &gathered, kImage, kFloat16, MemoryFormat::kChannelsLast},
    {"max_pool2d_of_odd_channels_gradient",
     gradient([](const Tensor& x) { return max_pool2d(x, {2}); }), kOddImage, kFloat16,
     MemoryFormat::kChannelsLast},
    {"max_pool2d_of_large_windows", &max_pool_of_large_windows, kImage, kFloat16,
     MemoryFormat::kChannelsLast},
    {"max_pool2d_of_large_windows_gradient", gradient(&max_pool_of_large_windows), kImage, kFloat16,
     MemoryFormat::kChannelsLast},
    {"avg_pool2d_of_whole_images", [](const Tensor& x) { return avg_pool2d(x, {32}); }, kImage,
     kFloat16, MemoryFormat::kChannelsLast},
    {"avg_pool2d_of_odd_channels_gradient",
     gradient([](const Tensor& x) { return avg_pool2d(x, {2}); }), kOddImage, kFloat16,
     MemoryFormat::kChannelsLast},
    {"adaptive_avg_pool2d",
     [](const Tensor& x) {
       return adaptive_avg_pool2d(x, {2, 2});
     },
     kImage, kFloat16, MemoryFormat::kChannelsLast},
    {"adaptive_avg_pool2d_gradient", gradient([](const Tensor& x) {
       return adaptive_avg_pool2d(x, {2, 2});
     }),
     kImage, kFloat16, MemoryFormat::kChannelsLast},
    {"conv2d", without_library(&convolved), {4, 32, 32}, kFloat16, MemoryFormat::kChannelsLast},
    {"conv2d_gradient",
     without_library(gradient_by_x(&convolved)),
     {4, 32, 32},
     kFloat16,
     MemoryFormat::kChannelsLast},
    {"interpolate",
     [](const Tensor& x) {
       return interpolate(x, {16, 16});
     },
     kImage, kFloat16, MemoryFormat::kChannelsLast},
    {"crop_images",
     [](const Tensor& x) {
       const Tensor places = zeros({x.size(0), kCropImagesNumbers}, kInt32);
       places.add_(1);  // from pixel (1, 1) on, flipped
       const Tensor factors = full({3, x.size(1)}, 0.25, kFloat32, kGpu);
       return crop_images(x, places.to(kGpu), factors, {31, 31}, kFloat16);
     },
     kImage, kUint8, MemoryFormat::kChannelsLast},
    {"interpolate_gradient", gradient([](const Tensor& x) {
       return interpolate(x, {16, 16});
     }),
     kImage, kFloat16, MemoryFormat::kChannelsLast},
    {"interpolate_bicubic",
     [](const Tensor& x) {
       return interpolate(x, {16, 16}, Interpolation::kBicubic);
     },
     kImage, kFloat16, MemoryFormat::kChannelsLast},
    {"cross_entropy", &loss_of_rows},
    {"cross_entropy_gradient", gradient(&loss_of_rows)},
    {"scatter",
     [](const Tensor& x) { return scatter(x, 1, positions(x), x.narrow(1, 0, 1).contiguous()); },
     {kColumns},
     kUint8},
    {"scatter_add",
     [](const Tensor& x) {
       return scatter_add(x, 1, positions(x), x.narrow(1, 0, 1).contiguous());
     },
     {kColumns},
     kUint8},
    {"index_select_gradient", gradient([](const Tensor& x) {
       return index_select(x, 1, arange(kColumns - 7, kColumns, 1, kInt64).to(kGpu));
     })},
    {"embedding_gradient", gradient([](const Tensor& x) {
       return embedding(x, (arange(kProbed, kInt64) + (x.size(0) - kProbed)).to(kGpu));
     })},
    {"batch_norm", [](const Tensor& x) { return batch_norm_of(x); }, kImage, kFloat16,
     MemoryFormat::kChannelsLast},
    {"batch_norm_by_rows", [](const Tensor& x) { return batch_norm_of(x); }, kImage},
    {"cumprod", [](const Tensor& x) { return cumprod(x, -1); }},
    {"cumprod_gradient", gradient([](const Tensor& x) { return cumprod(x, -1); })},
    {"cumprod_of_columns_gradient",
     gradient([](const Tensor& x) { return cumprod(x, 1); }),
     {32, 32}},
    {"cumsum_gradient", gradient([](const Tensor& x) { return cumsum(x, -1); })},
    {"cumsum_of_columns", [](const Tensor& x) { return cumsum(x, 1); }, {32, 32}},
    {"cumsum_of_columns_gradient",
     gradient([](const Tensor& x) { return cumsum(x, 1); }),
     {32, 32}},
    {"argmax_of_columns", [](const Tensor& x) { return argmax(x, 1); }, {32, 32}},
    {"topk_of_long_rows", [](const Tensor& x) { return topk(x, 5, -1).values; }, {1 << 16}},
    {"dropout",
     [](const Tensor& x) { return dropout(x); },
     {kColumns},
     kFloat16,
     MemoryFormat::kContiguous,
     [](const Tensor& x) { return x * 2; }},
    {"dropout_gradient",
     gradient([](const Tensor& x) { return dropout(x); }),
     {kColumns},
     kFloat16,
     MemoryFormat::kContiguous,
     [](const Tensor& x) { return x * 4; }},
    {"matmul_of_integers",
     [](const Tensor& x) {
       return matmul(x, ones({kColumns, 8}, kUint8).to(kGpu));
     },
     {kColumns},
     kUint8},
    {"full", [](const Tensor& x) { return full(x.shape(), 3, kUint8, x.device()); }},
    {"arange", &count_up},
    {"triu", [](const Tensor& x) { return triu(x); }, {32, 32}},
    {"sgd_step", stepped(&sgd), {kColumns}, kFloat32},
    {"adam_step", stepped(&adam), {kColumns}, kFloat32},
    {"grad_clip_norm", in_place(&clip_by_norm)},
    {"grad_clip_value",
     in_place([](const View& x) { WICK_CALL_CUDA(grad_clip_value(&x, 1, 0.25)); })},
    {"gradient_norm", in_place(&norm_and_unscale)},
    {"lerp", &averaged},
};

INSTANTIATE_TEST_SUITE_P(Kernels, Boundary, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });
}  // namespace
}  // namespace wick::testing
