#include "wick/core/ops/pool.h"

#include <array>
#include <cmath>
#include <limits>

#include "wick/core/ops/compare.h"
#include "wick/core/ops/detail/pooling.h"
#include "wick/core/ops/detail/reduce_axes.h"
#include "wick/core/ops/elementwise.h"

namespace wick {

namespace {

Tensor avg_pool(const char* op, int axes, const Tensor& x, const Shape& kernel_size,
                const Shape& stride, const Shape& padding, bool ceil_mode, bool count_include_pad,
                std::optional<int64_t> divisor) {
  WICK_CHECK(!divisor || *divisor != 0, op, ": divisor_override must not be 0");
  return batched(op, x, axes, [&](const Tensor& given) {
    check_floating(op, given);
    Pooling pool = checked_pooling(op, axes, given, kernel_size, stride, padding, 1, ceil_mode);
    pool.common.count_include_pad = count_include_pad;
    const auto windows_of = [&](int rows, int columns) {
      PoolWindows w = pool.windows(rows, columns);
      w.divisor = divisor.value_or(0);
      if (divisor && axes == 3 && columns >= 0) w.divisor = 1;  // the sums of planes
      return w;
    };
    if (axes < 3) return pool_values(given, axes, windows_of, avg_pool_images);
    return computed_wide({cast_to_pool(op, given, axes)}, [&](const std::vector<Tensor>& in) {
      return pool_values(in[0], axes, windows_of, avg_pool_images);
    });
  });
}

Tensor adaptive_avg_pool(const char* op, int axes, const Tensor& x, const Shape& output_size) {
  return batched(op, x, axes, [&](const Tensor& given) {
    const auto windows_of = adaptive_windows(op, axes, given, output_size);
    if (axes < 3) return pool_values(given, axes, windows_of, avg_pool_images);
    return computed_wide({cast_to_pool(op, given, axes)}, [&](const std::vector<Tensor>& in) {
      return pool_values(in[0], axes, windows_of, avg_pool_images);
    });
  });
}

Tensor lp_pool(const char* op, int axes, const Tensor& x, double p, const Shape& kernel_size,
               const Shape& stride, bool ceil_mode) {
  WICK_CHECK(p != 0, op, ": norm_type must not be 0");
  check_floating(op, x);
  if (std::isinf(p)) {
    const Tensor size = p > 0 ? abs(x) : neg(abs(x));
    constexpr std::array kMaxPools{&max_pool1d, &max_pool2d, &max_pool3d};
    const auto largest = kMaxPools[static_cast<size_t>(axes - 1)];
    const Tensor best = largest(size, kernel_size, stride, 0, 1, ceil_mode);
    return p > 0 ? best : neg(best);
  }
  const int64_t elements = image_sizes(op, "kernel_size", kernel_size, 1, axes).numel();
  return computed_wide({cast_to_pool(op, x, axes)}, [&](const std::vector<Tensor>& in) {
    const Tensor mean =
        avg_pool(op, axes, pow(in[0], p), kernel_size, stride, 0, ceil_mode, true, {});
    // The root's slope is infinite at 0: windows of zeros, as behind a ReLU, get gradients of 0.
    const Tensor is_zero = eq(mean, 0);
    const Tensor root = pow(mean.masked_fill(is_zero, 1) * static_cast<double>(elements), 1 / p);
    return root.masked_fill(is_zero, p > 0 ? 0 : std::numeric_limits<double>::infinity());
  });
}

}  // namespace

Tensor avg_pool1d(const Tensor& x, const Shape& kernel_size, const Shape& stride,
                  const Shape& padding, bool ceil_mode, bool count_include_pad) {
  return avg_pool("avg_pool1d", 1, x, kernel_size, stride, padding, ceil_mode, count_include_pad,
                  {});
}

Tensor avg_pool2d(const Tensor& x, const Shape& kernel_size, const Shape& stride,
                  const Shape& padding, bool ceil_mode, bool count_include_pad,
                  std::optional<int64_t> divisor_override) {
  return avg_pool("avg_pool2d", 2, x, kernel_size, stride, padding, ceil_mode, count_include_pad,
                  divisor_override);
}

Tensor avg_pool3d(const Tensor& x, const Shape& kernel_size, const Shape& stride,
                  const Shape& padding, bool ceil_mode, bool count_include_pad,
                  std::optional<int64_t> divisor_override) {
  return avg_pool("avg_pool3d", 3, x, kernel_size, stride, padding, ceil_mode, count_include_pad,
                  divisor_override);
}

Tensor lp_pool1d(const Tensor& x, double norm_type, const Shape& kernel_size, const Shape& stride,
                 bool ceil_mode) {
  return lp_pool("lp_pool1d", 1, x, norm_type, kernel_size, stride, ceil_mode);
}

Tensor lp_pool2d(const Tensor& x, double norm_type, const Shape& kernel_size, const Shape& stride,
                 bool ceil_mode) {
  return lp_pool("lp_pool2d", 2, x, norm_type, kernel_size, stride, ceil_mode);
}

Tensor lp_pool3d(const Tensor& x, double norm_type, const Shape& kernel_size, const Shape& stride,
                 bool ceil_mode) {
  return lp_pool("lp_pool3d", 3, x, norm_type, kernel_size, stride, ceil_mode);
}

Tensor adaptive_avg_pool1d(const Tensor& x, const Shape& output_size) {
  return adaptive_avg_pool("adaptive_avg_pool1d", 1, x, output_size);
}

Tensor adaptive_avg_pool2d(const Tensor& x, const Shape& output_size) {
  return adaptive_avg_pool("adaptive_avg_pool2d", 2, x, output_size);
}

Tensor adaptive_avg_pool3d(const Tensor& x, const Shape& output_size) {
  return adaptive_avg_pool("adaptive_avg_pool3d", 3, x, output_size);
}

}  // namespace wick
