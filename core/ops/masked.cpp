#include "wick/core/ops/masked.h"

#include <cmath>
#include <limits>

#include "wick/core/ops/compare.h"
#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/detail/reduce_axes.h"
#include "wick/core/ops/detail/wide.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/softmax.h"
#include "wick/core/ops/sort.h"
#include "wick/core/ops/special.h"
#include "wick/core/ops/statistics.h"

namespace wick::masked {

namespace {

void check(const char* op, const Tensor& x, const Tensor& mask) {
  check_defined(op, x);
  if (!mask.defined()) return;
  WICK_CHECK(mask.dtype() == kBool, op, ": mask: got dtype ", mask.dtype(), ", expected bool");
  WICK_CHECK(broadcast_shapes(op, x.shape(), mask.shape()) == x.shape(), op,
             ": the mask does not broadcast to the elements: got shapes ", mask.shape(), " and ",
             x.shape());
}

// x with `value` for what is left out.
Tensor filled(const char* op, const Tensor& x, const Tensor& mask, Scalar value) {
  check(op, x, mask);
  return mask.defined() ? masked_fill(x, logical_not(mask), value) : x;
}

// The least, or the greatest, number of `dtype`.
Scalar extreme(Dtype dtype, bool greatest) {
  if (is_floating(dtype)) return greatest ? HUGE_VAL : -HUGE_VAL;
  switch (dtype) {
    case kInt32:
      return greatest ? std::numeric_limits<int32_t>::max() : std::numeric_limits<int32_t>::min();
    case kUint8: return greatest ? 255 : 0;
    case kBool: return greatest ? 1 : 0;
    default:
      return greatest ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min();
  }
}

// How many elements count.
Tensor count(const Tensor& x, const Tensor& mask, const Shape& axes, bool keepdim) {
  const Tensor all =
      mask.defined() ? mask.expand(x.shape()) : ones({}, kBool, x.device()).expand(x.shape());
  return wick::sum(all, axes, keepdim).to(x.dtype());
}

}  // namespace

Tensor sum(const Tensor& x, const Tensor& mask, const Shape& axes, bool keepdim) {
  return wick::sum(filled("masked::sum", x, mask, 0), axes, keepdim);
}

Tensor prod(const Tensor& x, const Tensor& mask, const Shape& axes, bool keepdim) {
  return wick::prod(filled("masked::prod", x, mask, 1), axes, keepdim);
}

Tensor mean(const Tensor& x, const Tensor& mask, const Shape& axes, bool keepdim) {
  check_floating("masked::mean", x);
  return computed_wide({x}, [&](const std::vector<Tensor>& in) {
    return sum(in[0], mask, axes, keepdim) / count(in[0], mask, axes, keepdim);
  });
}

Tensor amax(const Tensor& x, const Tensor& mask, const Shape& axes, bool keepdim) {
  const char* op = "masked::amax";
  return wick::amax(filled(op, x, mask, extreme(x.dtype(op), false)), axes, keepdim);
}

Tensor amin(const Tensor& x, const Tensor& mask, const Shape& axes, bool keepdim) {
  const char* op = "masked::amin";
  return wick::amin(filled(op, x, mask, extreme(x.dtype(op), true)), axes, keepdim);
}

Tensor argmax(const Tensor& x, const Tensor& mask, std::optional<int64_t> axis, bool keepdim) {
  const char* op = "masked::argmax";
  return wick::argmax(filled(op, x, mask, extreme(x.dtype(op), false)), axis, keepdim);
}

Tensor argmin(const Tensor& x, const Tensor& mask, std::optional<int64_t> axis, bool keepdim) {
  const char* op = "masked::argmin";
  return wick::argmin(filled(op, x, mask, extreme(x.dtype(op), true)), axis, keepdim);
}

Tensor norm(const Tensor& x, const Tensor& mask, double ord, const Shape& axes, bool keepdim) {
  const Scalar nothing = ord == -HUGE_VAL ? HUGE_VAL : 0;
  return wick::norm(filled("masked::norm", x, mask, nothing), ord, axes, keepdim);
}

Tensor var(const Tensor& x, const Tensor& mask, const Shape& axes, double correction,
           bool keepdim) {
  check_floating("masked::var", x);
  return computed_wide({x}, [&](const std::vector<Tensor>& in) {
    const Tensor mean = sum(in[0], mask, axes, true) / count(in[0], mask, axes, true);
    const Tensor squares = square(in[0] - mean);
    const Tensor freedom = clamp_min(count(in[0], mask, axes, keepdim) - correction, 0);
    return sum(squares, mask, axes, keepdim) / freedom;
  });
}

Tensor stddev(const Tensor& x, const Tensor& mask, const Shape& axes, double correction,
              bool keepdim) {
  check_floating("masked::stddev", x);
  return computed_wide({x}, [&](const std::vector<Tensor>& in) {
    return sqrt(var(in[0], mask, axes, correction, keepdim));
  });
}

Tensor logsumexp(const Tensor& x, const Tensor& mask, const Shape& axes, bool keepdim) {
  return wick::logsumexp(filled("masked::logsumexp", x, mask, -HUGE_VAL), axes, keepdim);
}

Tensor median(const Tensor& x, const Tensor& mask, int64_t axis, bool keepdim) {
  check_floating("masked::median", x);
  return wick::nanmedian(filled("masked::median", x, mask, NAN), axis, keepdim).values;
}

Tensor softmax(const Tensor& x, const Tensor& mask, int64_t axis) {
  return wick::softmax(filled("masked::softmax", x, mask, -HUGE_VAL), axis);
}

Tensor softmin(const Tensor& x, const Tensor& mask, int64_t axis) {
  return wick::softmin(filled("masked::softmin", x, mask, HUGE_VAL), axis);
}

Tensor log_softmax(const Tensor& x, const Tensor& mask, int64_t axis) {
  return wick::log_softmax(filled("masked::log_softmax", x, mask, -HUGE_VAL), axis);
}

Tensor normalize(const Tensor& x, const Tensor& mask, double ord, int64_t axis, double eps) {
  check_floating("masked::normalize", x);
  return computed_wide({x}, [&](const std::vector<Tensor>& in) {
    const Tensor length = norm(in[0], mask, ord, {axis}, true);
    return filled("masked::normalize", in[0], mask, 0) / clamp_min(length, eps);
  });
}

Tensor cumsum(const Tensor& x, const Tensor& mask, int64_t axis) {
  return wick::cumsum(filled("masked::cumsum", x, mask, 0), axis);
}

Tensor cumprod(const Tensor& x, const Tensor& mask, int64_t axis) {
  return wick::cumprod(filled("masked::cumprod", x, mask, 1), axis);
}

Tensor logaddexp(const Tensor& x, const Tensor& y, const Tensor& x_mask, const Tensor& y_mask) {
  const char* op = "masked::logaddexp";
  return wick::logaddexp(filled(op, x, x_mask, -HUGE_VAL), filled(op, y, y_mask, -HUGE_VAL));
}

}  // namespace wick::masked
