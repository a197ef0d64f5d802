// Poolings of ResNet's and LeNet's images.
#include "wick/core/ops/pool.h"

#include "wick/bench/kernels/row.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/sort.h"

namespace wick::bench::pool_rows {
namespace {

bool add_pool(const char* name, const Shape& shape, Tensors (*call)(const Tensors&),
              Tensors (*plain)(const Tensors&) = nullptr) {
  OpRow row{.name = concat("pool/", name),
            .inputs =
                [=](const Setting& s) {
                  return Tensors{normal_images({s.some(shape[0]), shape[1], shape[2], shape[3]})};
                },
            .call = call};
  if (plain != nullptr) row.plain = plain;
  return add_op(row);
}

// Windows of 2 x 2 as an axis of their own.
Tensor windows(const Tensor& x) {
  const int64_t n = x.size(0), c = x.size(1), p = x.size(2) / 2, q = x.size(3) / 2;
  const Tensor split = x.contiguous().reshape({n, c, p, 2, q, 2});
  return split.permute({0, 1, 2, 4, 3, 5}).reshape({n, c, p, q, 4});
}

[[maybe_unused]] const bool kPools[] = {
    add_pool("max_3x3_stride_2", {32, 64, 112, 112},
             [](const Tensors& x) { return Tensors{max_pool2d(x[0], {3}, {2}, {1})}; }),
    add_pool(
        "max_2x2", {128, 64, 32, 32},
        [](const Tensors& x) { return Tensors{max_pool2d(x[0], {2})}; },
        [](const Tensors& x) { return Tensors{max(windows(x[0]), 4).values}; }),
    add_pool(
        "average_2x2", {128, 64, 32, 32},
        [](const Tensors& x) { return Tensors{avg_pool2d(x[0], {2})}; },
        [](const Tensors& x) { return Tensors{mean(windows(x[0]), {4})}; }),
    add_pool(
        "global_average", {128, 512, 7, 7},
        [](const Tensors& x) {
          return Tensors{adaptive_avg_pool2d(x[0], {1, 1})};
        },
        [](const Tensors& x) {
          return Tensors{mean(x[0], {2, 3}, true)};
        }),
};

}  // namespace
}  // namespace wick::bench::pool_rows
