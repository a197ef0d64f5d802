#include "wick/core/autograd.h"
#include "wick/tests/core/functions/functions.h"

// Functions that move, join and choose elements: arrange.h, index.h, join.h, pieces.h,
// scatter_reduce.h, slice.h, unfold.h, view.h.
namespace wick::testing {
namespace {

using T = const Tensor&;
constexpr ScatterReduction kAmax = ScatterReduction::kAmax;
const std::vector<int64_t> kStarts{1};

std::vector<Function> arranged() {
  const Tensor x = ones({2, 3}, kFloat64), vector = ones({3}, kFloat64);
  return {
      entry("squeeze", {x},
            [](T in) {
              return squeeze(in, {0, 1});
            }),
      entry("unsqueeze", {x},
            [](T in) {
              return unsqueeze(in, {0, 1});
            }),
      entry("swapaxes", {x}, [](T in) { return swapaxes(in, 0, 1); }),
      entry("roll", {x},
            [](T in) {
              return roll(in, {1, 1}, {0, 1});
            }),
      entry("roll", {x}, [](T in) { return roll(in, 1); }),
      entry("roll", {x}, [](T in) { return roll(in, 1, 1); }),
      entry("rot90", {x}, [](T in) { return rot90(in); }),
      unary("fliplr", fliplr),
      unary("flipud", flipud),
      entry("diag", {x}, [](T in) { return diag(in); }),
      entry("diag", {vector}, [](T in) { return diag(in); }),
      entry("diag_embed", {x}, [](T in) { return diag_embed(in); }),
      entry("diagflat", {x}, [](T in) { return diagflat(in); }),
      entry("block_diag", {x, x},
            [](T a, T b) {
              return block_diag({a, b});
            }),
      unary("trace", trace),
      entry("tile", {x}, [](T in) { return tile(in, {2}); }),
      entry("hstack", {x, x},
            [](T a, T b) {
              return hstack({a, b});
            }),
      entry("vstack", {x, x},
            [](T a, T b) {
              return vstack({a, b});
            }),
      entry("dstack", {x, x},
            [](T a, T b) {
              return dstack({a, b});
            }),
      entry("column_stack", {x, x},
            [](T a, T b) {
              return column_stack({a, b});
            }),
      unary("atleast_1d", atleast_1d),
      unary("atleast_2d", atleast_2d),
      unary("atleast_3d", atleast_3d),
      entry("sum_to_size", {x},
            [](T in) {
              return sum_to_size(in, {1, 3});
            }),
      entry("broadcast_tensors", {x, x},
            [](T a, T b) {
              return broadcast_tensors({a, b})[0];
            }),
      entry("combinations", {vector}, [](T in) { return combinations(in); }),
      entry("cartesian_prod", {vector, vector},
            [](T a, T b) {
              return cartesian_prod({a, b});
            }),
  };
}

std::vector<Function> viewed() {
  const Tensor x = ones({2, 3}, kFloat64), cube = ones({2, 3, 2}, kFloat64);
  const Tensor vector = ones({3}, kFloat64);
  return {
      entry("unflatten", {x},
            [](T in) {
              return unflatten(in, 1, {3, 1});
            }),
      entry("movedim", {x}, [](T in) { return movedim(in, {0}, {1}); }),
      entry("pixel_shuffle", {ones({1, 4, 2, 2}, kFloat64)},
            [](T in) { return pixel_shuffle(in, 2); }),
      entry("pixel_unshuffle", {ones({1, 1, 2, 2}, kFloat64)},
            [](T in) { return pixel_unshuffle(in, 2); }),
      entry("channel_shuffle", {ones({1, 4, 2, 2}, kFloat64)},
            [](T in) { return channel_shuffle(in, 2); }),
      entry("meshgrid", {vector, vector},
            [](T a, T b) {
              return meshgrid({a, b})[0];
            }),
      entry("unfold", {x}, [](T in) { return unfold(in, 1, 2, 1); }),
      entry("unfold", {ones({1, 1, 4, 4}, kFloat64)},
            [](T in) {
              return unfold(in, {2, 2});
            }),
      entry("fold", {ones({1, 4, 9}, kFloat64)},
            [](T in) {
              return fold(in, {4, 4}, {2, 2});
            }),
      entry("split", {x},
            [](T in) {
              return split(in, {1, 2}, 1)[0];
            }),
      entry("unbind", {x}, [](T in) { return unbind(in)[0]; }),
      entry("diagonal", {x}, [](T in) { return diagonal(in); }),
      entry("place", {x},
            [](T in) {
              return place(in, {4, 5}, {1, 1}, {1, 1});
            }),
      entry("tensor_split", {x}, [](T in) { return tensor_split(in, 2)[0]; }),
      entry("tensor_split", {x}, [](T in) { return tensor_split(in, kStarts)[0]; }),
      entry("hsplit", {x}, [](T in) { return hsplit(in, 3)[0]; }),
      entry("hsplit", {x}, [](T in) { return hsplit(in, kStarts)[0]; }),
      entry("vsplit", {x}, [](T in) { return vsplit(in, 2)[0]; }),
      entry("vsplit", {x}, [](T in) { return vsplit(in, kStarts)[0]; }),
      entry("dsplit", {cube}, [](T in) { return dsplit(in, 2)[0]; }),
      entry("dsplit", {cube}, [](T in) { return dsplit(in, kStarts)[0]; }),
      entry("slice_scatter", {x, ones({1, 3}, kFloat64)},
            [](T in, T source) { return slice_scatter(in, source, 0, 0, 1); }),
      entry("select_scatter", {x, vector},
            [](T in, T source) { return select_scatter(in, source, 0, 1); }),
      entry("diagonal_scatter", {x, ones({2}, kFloat64)},
            [](T in, T source) { return diagonal_scatter(in, source); }),
  };
}

std::vector<Function> joined() {
  const Tensor x = ones({2, 3}, kFloat64);
  return {
      entry("cat", {x, x},
            [](T a, T b) {
              return cat({a, b});
            }),
      entry("stack", {x, x},
            [](T a, T b) {
              return stack({a, b});
            }),
      entry("pad", {x},
            [](T in) {
              return pad(in, {1, 1});
            }),
      entry("repeat", {x},
            [](T in) {
              return repeat(in, {2, 2});
            }),
      entry("repeat_interleave", {x}, [](T in) { return repeat_interleave(in, 2); }),
      entry("repeat_interleave", {x, ones({2}, kInt64)},
            [](T in, T times) { return repeat_interleave(in, times, 0); }),
      entry("tril", {x}, [](T in) { return tril(in); }),
      entry("triu", {x}, [](T in) { return triu(in); }),
      entry("flip", {x}, [](T in) { return flip(in, {0}); }),
  };
}

std::vector<Function> indexed() {
  const Tensor x = ones({2, 3}, kFloat64), rows = zeros({2}, kInt64);
  const Tensor index = zeros({2, 3}, kInt64), mask = ones({2, 3}, kBool);
  return {
      entry("index_select", {x, rows}, [](T in, T i) { return index_select(in, 0, i); }),
      entry("index_add", {x, rows, x},
            [](T in, T i, T source) { return index_add(in, 0, i, source); }),
      entry("gather", {x, index}, [](T in, T i) { return gather(in, 0, i); }),
      entry("scatter", {x, index, x},
            [](T in, T i, T source) { return scatter(in, 0, i, source); }),
      entry("scatter", {x, index}, [](T in, T i) { return scatter(in, 0, i, 1); }),
      entry("scatter_add", {x, index, x},
            [](T in, T i, T source) { return scatter_add(in, 0, i, source); }),
      entry("take_along_axis", {x, index}, [](T in, T i) { return take_along_axis(in, i, 0); }),
      entry("embedding", {x, rows}, [](T weight, T i) { return embedding(weight, i); }),
      unary("nonzero", nonzero),
      binary("masked_select", masked_select, x, mask),
      entry("one_hot", {rows}, [](T i) { return one_hot(i); }),
      entry("index_copy", {x, rows, x},
            [](T in, T i, T source) { return index_copy(in, 0, i, source); }),
      entry("index_fill", {x, rows}, [](T in, T i) { return index_fill(in, 0, i, 1); }),
      entry("scatter_reduce", {x, index, x},
            [](T in, T i, T source) { return scatter_reduce(in, 0, i, source, kAmax); }),
      entry("index_reduce", {x, rows, x},
            [](T in, T i, T source) { return index_reduce(in, 0, i, source, kAmax); }),
      binary("take", take, x, rows),
      entry("put", {x, rows, ones({2}, kFloat64)},
            [](T in, T i, T source) { return put(in, i, source); }),
      entry("index_put", {x, rows, ones({2, 3}, kFloat64)},
            [](T in, T i, T values) { return index_put(in, {i}, values); }),
      entry("masked_scatter", {x, mask, x},
            [](T in, T m, T source) { return masked_scatter(in, m, source); }),
      entry("embedding_bag", {x, index}, [](T weight, T i) { return embedding_bag(weight, i); }),
      entry("embedding_renorm_", {x, rows},
            [](T weight, T i) {
              const NoGrad no_grad;
              embedding_renorm_(weight, i, 100);
              return Tensor();
            }),
      entry("scale_grad_by_freq", {x, rows},
            [](T rows_in, T i) { return scale_grad_by_freq(rows_in, i, 2); }),
  };
}

}  // namespace

std::vector<Function> shape_functions() {
  std::vector<Function> all;
  for (const auto& part : {arranged(), viewed(), joined(), indexed()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace wick::testing
