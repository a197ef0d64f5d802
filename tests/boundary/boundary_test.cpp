// Tensors of more than 2^31 elements on the simulated GPU: the blocks at both ends of each kernel's
// grid are run, and what they make of the last rows is compared with the same rows alone.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <set>

#include "wick/core/core.h"
#include "wick/kernels/pool.h"
#include "wick/kernels/sim/simulator.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/op_case.h"

namespace wick::testing {
namespace {

// Before anything asks for the device: the machine's memory is only taken where it is touched.
[[maybe_unused]] const int kEnlarged = ::setenv("WICK_SIM_MEMORY", "131072", 1);

constexpr int64_t kColumns = 1024;
constexpr int64_t kProbed = 3;  // rows behind 2^31 elements: those that are compared

/// The first blocks, and the one that has the last of `items`, whatever a block takes at a time and
/// however often a grid of the usual sizes goes round.
void add_blocks_with_last(int64_t items, std::set<uint64_t>& blocks) {
  for (const int64_t most : {int64_t{132 * 2}, int64_t{132 * 32}, int64_t{1 << 20}, items}) {
    for (int64_t per_block = 1; per_block <= 8192; per_block *= 2) {
      blocks.insert(static_cast<uint64_t>((items - 1) / per_block % most));
    }
  }
}

struct BlocksAtEnds {
  explicit BlocksAtEnds(const Tensor& x) {
    std::set<uint64_t> blocks = {0};
    add_blocks_with_last(x.numel(), blocks);
    for (const int64_t per_row : {1, 4, 7}) add_blocks_with_last(x.size(0) * per_row, blocks);
    sim::set_blocks({blocks.begin(), blocks.end()});
  }
  ~BlocksAtEnds() { sim::set_blocks({}); }
};

using Function = std::function<Tensor(const Tensor&)>;
struct Case {
  const char* name;
  Function run;  // rows of the result depend on the same rows of x only
  Shape row = {kColumns};
  Dtype dtype = kFloat16;
  MemoryFormat format = MemoryFormat::kContiguous;
  Function expected = {};  // of the rows alone, where that is not `run` itself
};

/// `rows` random rows.
Tensor random_rows(const Case& c, int64_t rows) {
  Shape shape = {rows};
  for (const int64_t size : c.row) shape.push_back(size);
  Generator generator(7);
  if (c.dtype == kUint8) return randint(0, 255, shape, kUint8, kCpu, &generator).to(kGpu);
  return randn(shape, kFloat32, kCpu, &generator).to(c.dtype).to(kGpu).contiguous(c.format);
}

Tensor last_rows(const Tensor& x) { return x.narrow(0, x.size(0) - kProbed, kProbed); }

void expect_same_last_rows(const Tensor& whole, const Tensor& alone) {
  const Tensor got = last_rows(whole).to(kCpu).to(kFloat64).contiguous();
  const Tensor want = alone.to(kCpu).to(kFloat64).contiguous();
  ASSERT_EQ(got.shape(), want.shape());
  const bool is_integer = !is_floating(whole.dtype());
  const std::vector<double> g = got.to_vector<double>(), w = want.to_vector<double>();
  // Some elements belong to blocks that were not run: zeros there, or NaN, which is -1 in integers.
  int64_t right = 0, wrong = 0;
  for (size_t i = 0; i < w.size(); ++i) {
    const bool unwritten = g[i] == 0 || g[i] != g[i] || (is_integer && g[i] == -1);
    right += !unwritten && g[i] == w[i];
    wrong += !unwritten && g[i] != w[i];
  }
  EXPECT_EQ(wrong, 0) << "of " << w.size() << " elements of the last rows";
  EXPECT_GT(right, 0) << "nothing was written to the last rows";
}

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class Boundary : public ::testing::TestWithParam<Case> {
 protected:
  void TearDown() override {
    sim::set_blocks({});
    synchronize(kGpu);
    empty_cache(kGpu);
  }
};

TEST_P(Boundary, LastRowsAreAsAlone) {
  const Case& c = GetParam();
  int64_t row = 1;
  for (const int64_t size : c.row) row *= size;
  const int64_t rows = (int64_t{1} << 31) / row + kProbed;
  ASSERT_GT(rows * row, int64_t{1} << 31);
  const Tensor alone = random_rows(c, kProbed);
  const Tensor expected = (c.expected ? c.expected : c.run)(alone.clone());
  synchronize(kGpu);
  empty_cache(kGpu);  // old contents could pass for results
  Shape shape = alone.shape();
  shape[0] = rows;
  const Tensor x = empty(shape, c.dtype, kGpu, c.format);
  last_rows(x).copy_(alone);
  synchronize(kGpu);
  const BlocksAtEnds blocks(x);
  const Tensor y = c.run(x);
  synchronize(kGpu);
  sim::set_blocks({});
  expect_same_last_rows(y, expected);
}

/// The gradient of x, where dy = y's own values.
Function gradient(Function function) {
  return [function = std::move(function)](const Tensor& x) {
    const Tensor input = x.detach().set_requires_grad(true);
    const Tensor y = function(input);
    return grad({y}, {input}, {y.detach()}).at(0);
  };
}

/// The same where dy is x, whose last rows are whole: for gradients that need all of a row.
Function gradient_by_x(Function function) {
  return [function = std::move(function)](const Tensor& x) {
    const Tensor input = x.detach().set_requires_grad(true);
    return grad({function(input)}, {input}, {x}).at(0);
  };
}
/// With Wick's own kernels for convolutions that the library has no plan for.
Function without_library(Function function) {
  return [function = std::move(function)](const Tensor& x) {
    sim::set_engines({{.name = "random", .deterministic = false}});
    set_deterministic(true);
    const Tensor y = function(x);
    set_deterministic(false);
    sim::set_engines({});
    return y;
  };
}

Tensor of_columns(int64_t n, Dtype dtype = kFloat16) {
  return (arange(n, kFloat32) / static_cast<double>(n) + 0.5).to(dtype).to(kGpu);
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

// Channels of the odd image go one by one.
const Shape kImage = {64, 32, 32}, kSmallImage = {64, 4, 4}, kOddImage = {7, 32, 32};
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
    {"pad",
     [](const Tensor& x) {
       return pad(x, {1, 2}, 3);
     }},
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
};

INSTANTIATE_TEST_SUITE_P(Kernels, Boundary, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace wick::testing
