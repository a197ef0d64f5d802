#include "wick/core/ops/compare.h"
#include "wick/core/ops/detail/elementwise_op.h"
#include "wick/kernels/elementwise_ops_math.h"

namespace wick {

template <>
constexpr AutocastPolicy functor_autocast<fn::Square> = kFloat32OnGpus;  // as x^2
template <>
constexpr AutocastPolicy functor_autocast<fn::Rsqrt> = kFloat32OnGpus;
template <>
constexpr AutocastPolicy functor_autocast<fn::Reciprocal> = kFloat32OnGpus;
template <>
constexpr AutocastPolicy functor_autocast<fn::Exp> = kFloat32OnGpus;
template <>
constexpr AutocastPolicy functor_autocast<fn::Expm1> = kFloat32OnGpus;
template <>
constexpr AutocastPolicy functor_autocast<fn::Log> = kFloat32OnGpus;
template <>
constexpr AutocastPolicy functor_autocast<fn::Log1p> = kFloat32OnGpus;

namespace {

struct Tan {
  static constexpr OpInfo info{.name = "tan", .autocast = kFloat32OnGpus};

  Tensor forward(Saved& saved, const Tensor& x) const {
    const Dtype dtype = floating_dtype(x.dtype());
    const Tensor in = wide(x);
    const Tensor y = (sin(in) / cos(in)).to(dtype);
    saved.save(y);
    return y;
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    return {wide(dy) * (square(wide(saved[0])) + 1)};
  }
};

constexpr double kLn2 = 0.69314718055994531;

// Exact at powers of two, which log(x) / log(2) is not: narrowing from float64 rounds its error
// off, and float64 takes the whole number that is as near as that error.
struct Log2 {
  static constexpr OpInfo info{.name = "log2", .autocast = kFloat32OnGpus};

  Tensor forward(Saved& saved, const Tensor& x) const {
    saved.save(x);
    Tensor y = log(x.to(kFloat64)) / kLn2;
    if (x.dtype() == kFloat64) {
      const Tensor nearest = round(y);
      y = where(le(abs(y - nearest), abs(nearest) * 0x1p-51), nearest, y);
    }
    return y.to(floating_dtype(x.dtype()));
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    return {wide(dy) / (wide(saved[0]) * kLn2)};
  }
};

}  // namespace

Tensor neg(const Tensor& x) {
  WICK_CHECK(x.dtype() != kBool, "neg: not defined on bool: use logical_not");
  return apply(Unary<fn::Neg>{}, x);
}
Tensor abs(const Tensor& x) { return apply(Unary<fn::Abs>{}, x); }
Tensor sign(const Tensor& x) { return apply(Unary<fn::Sign>{}, x); }
Tensor square(const Tensor& x) {
  return apply(Unary<fn::Square>{}, x.dtype() == kBool ? x.to(kInt64) : x);
}
Tensor sqrt(const Tensor& x) { return apply(Unary<fn::Sqrt>{}, x); }
Tensor rsqrt(const Tensor& x) { return apply(Unary<fn::Rsqrt>{}, x); }
Tensor reciprocal(const Tensor& x) { return apply(Unary<fn::Reciprocal>{}, x); }
Tensor exp(const Tensor& x) { return apply(Unary<fn::Exp>{}, x); }
Tensor expm1(const Tensor& x) { return apply(Unary<fn::Expm1>{}, x); }
Tensor log(const Tensor& x) { return apply(Unary<fn::Log>{}, x); }
Tensor log1p(const Tensor& x) { return apply(Unary<fn::Log1p>{}, x); }
Tensor log2(const Tensor& x) { return apply(Log2{}, x); }
Tensor sin(const Tensor& x) { return apply(Unary<fn::Sin>{}, x); }
Tensor cos(const Tensor& x) { return apply(Unary<fn::Cos>{}, x); }
Tensor tan(const Tensor& x) { return apply(Tan{}, x); }
Tensor tanh(const Tensor& x) { return apply(Unary<fn::Tanh>{}, x); }
Tensor erf(const Tensor& x) { return apply(Unary<fn::Erf>{}, x); }
Tensor sigmoid(const Tensor& x) { return apply(Unary<fn::Sigmoid>{}, x); }

namespace {
// Whole numbers are whole already, but the result is the caller's own.
template <class F>
Tensor whole(const Tensor& x) {
  return is_floating(x.dtype(F::name)) ? apply(Unary<F>{}, x) : x.clone();
}
}  // namespace

Tensor floor(const Tensor& x) { return whole<fn::Floor>(x); }
Tensor ceil(const Tensor& x) { return whole<fn::Ceil>(x); }
Tensor round(const Tensor& x) { return whole<fn::Round>(x); }
Tensor trunc(const Tensor& x) { return whole<fn::Trunc>(x); }

namespace {
template <class F>
const Tensor& in_place(const Tensor& x) {
  apply(UnaryInPlace<F>{}, x);
  return x;
}
}  // namespace

const Tensor& Tensor::neg_() const {
  WICK_CHECK(dtype() != kBool, "neg_: not defined on bool: got a bool tensor, expected numbers");
  return in_place<fn::Neg>(*this);
}
const Tensor& Tensor::sqrt_() const { return in_place<fn::Sqrt>(*this); }
const Tensor& Tensor::exp_() const { return in_place<fn::Exp>(*this); }
const Tensor& Tensor::sigmoid_() const { return in_place<fn::Sigmoid>(*this); }
const Tensor& Tensor::tanh_() const { return in_place<fn::Tanh>(*this); }

}  // namespace wick
