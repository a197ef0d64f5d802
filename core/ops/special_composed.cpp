#include <cmath>
#include <numbers>

#include "wick/core/ops/compare.h"
#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/detail/wide.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/special.h"

// The functions of special.h that are made of others.
namespace wick {

namespace {

Tensor floating(const Tensor& x) { return is_floating(x.dtype()) ? x : x.to(kFloat32); }

}  // namespace

Tensor xlog1py(const Tensor& x, const Tensor& y) {
  check_defined("xlog1py", x, y);
  return computed_wide({floating(x), floating(y)}, [](const std::vector<Tensor>& in) {
    // Where x is 0 and the logarithm is infinite or NaN. Elsewhere its gradient is the logarithm.
    const Tensor no_logarithm = logical_or(le(in[1], -1), isposinf(in[1]));
    const Tensor none = logical_and(eq(in[0], 0), no_logarithm);
    const Tensor product = in[0] * log1p(masked_fill(in[1], none, 0));
    return masked_fill(product, none, 0);
  });
}

Tensor ldexp(const Tensor& x, const Tensor& y) {
  check_defined("ldexp", x, y);
  const Tensor fraction =
      is_floating(y.dtype()) && !is_floating(x.dtype()) ? x.to(y.dtype()) : floating(x);
  return computed_wide({fraction, y}, [](const std::vector<Tensor>& in) {
    const Tensor power = is_floating(in[1].dtype()) ? in[1] : in[1].to(in[0].dtype());
    return in[0] * exp2(power);
  });
}

Tensor float_power(const Tensor& x, const Tensor& y) {
  check_defined("float_power", x, y);
  return pow(x.to(kFloat64), y.to(kFloat64));
}
Tensor float_power(const Tensor& x, double y) {
  check_defined("float_power", x);
  return pow(x.to(kFloat64), y);
}

Tensor entr(const Tensor& x) {
  check_defined("entr", x);
  return computed_wide({floating(x)}, [](const std::vector<Tensor>& in) {
    const Tensor none = le(in[0], 0);  // where log has no value
    const Tensor y = masked_fill(-in[0] * log(masked_fill(in[0], none, 1)), none, 0);
    return masked_fill(y, lt(in[0], 0), -HUGE_VAL);
  });
}

Tensor ndtr(const Tensor& x) {
  check_defined("ndtr", x);
  return computed_wide({floating(x)}, [](const std::vector<Tensor>& in) {
    return erfc(in[0] * -std::numbers::sqrt2 / 2) * 0.5;
  });
}

Tensor mvlgamma(const Tensor& x, int64_t p) {
  check_defined("mvlgamma", x);
  WICK_CHECK(p >= 1, "mvlgamma: p: got ", p, ", expected 1 or more");
  return computed_wide({floating(x)}, [&](const std::vector<Tensor>& in) {
    const auto variables = static_cast<double>(p);
    const double constant = variables * (variables - 1) / 4 * std::log(std::numbers::pi);
    const Tensor halves = arange(0, p, 1, in[0].dtype(), in[0].device()) * 0.5;
    return sum(lgamma(in[0].unsqueeze(-1) - halves), {-1}) + constant;
  });
}

Tensor vander(const Tensor& x, std::optional<int64_t> columns, bool increasing) {
  WICK_CHECK(x.rank("vander") == 1, "vander: wrong number of axes: got shape ", x.shape(),
             ", expected a vector");
  const int64_t n = columns.value_or(x.size(0));
  WICK_CHECK(n >= 0, "vander: columns: got ", n, ", expected 0 or more");
  const Dtype dtype = x.dtype() == kBool || x.dtype() == kUint8 ? kInt64 : x.dtype();
  const Tensor up = arange(n, kInt64, x.device());
  const Tensor powers = (increasing ? up : n - 1 - up).to(dtype);
  return pow(x.to(dtype).unsqueeze(1), powers);
}

Tensor sgn(const Tensor& x) {
  check_defined("sgn", x);
  return sign(x);
}
Tensor signbit(const Tensor& x) {
  if (!is_floating(x.dtype())) return lt(x, 0);
  const NoGrad no_grad;
  return lt(copysign(ones({}, x.dtype(), x.device()), x), 0);
}

Tensor clamp_min(const Tensor& x, Scalar low) {
  check_defined("clamp_min", x);
  return clamp(x, low);
}
Tensor clamp_min(const Tensor& x, const Tensor& low) {
  check_defined("clamp_min", x, low);
  return clamp(x, low, Tensor());
}
Tensor clamp_max(const Tensor& x, Scalar high) {
  check_defined("clamp_max", x);
  return clamp(x, {}, high);
}
Tensor clamp_max(const Tensor& x, const Tensor& high) {
  check_defined("clamp_max", x, high);
  return clamp(x, Tensor(), high);
}

}  // namespace wick
