#include "wick/core/ops/compare.h"

#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/detail/elementwise_op.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/special.h"
#include "wick/kernels/elementwise_ops_compare.h"

namespace wick {

template <>
constexpr auto functor_fields<fn::MaskedFill> = std::tuple{field("value", &fn::MaskedFill::value)};

namespace {

// A truth value for each pair.
template <class F>
struct Compare : F {
  static constexpr OpInfo info{.name = F::name, .differentiable = false, .elementwise = true};

  Tensor forward(Saved&, const Tensor& x, const Tensor& y) const {
    const Tensor z = empty_result(broadcast_shapes(info.name, x.shape(), y.shape()), kBool, {x, y});
    const F& f = *this;
    run_functor(f, result_dtype(x, y), z, x, y);
    return z;
  }
};

// A truth value for each element.
template <class F>
struct Predicate : F {
  static constexpr OpInfo info{.name = F::name, .differentiable = false, .elementwise = true};

  Tensor forward(Saved&, const Tensor& x) const {
    const Tensor z = empty_like(x, kBool);
    const F& f = *this;
    run_functor(f, x.dtype(), z, x);
    return z;
  }
};

// Each element compared with a number, as `compute` is.
template <class F>
struct CompareScalar : fn::WithConstant<F> {
  static constexpr OpInfo info{
      .name = detail::kScalarName<F>.data(), .differentiable = false, .elementwise = true};
  Dtype compute = kFloat32;
  static constexpr auto fields = std::tuple{field("y", &fn::WithConstant<F>::constant),
                                            field("compute", &CompareScalar::compute)};

  Tensor forward(Saved&, const Tensor& x) const {
    const Tensor z = empty_like(x, kBool);
    const fn::WithConstant<F>& f = *this;
    run_functor(f, compute, z, x);
    return z;
  }
};

template <class F>
Tensor compare(const Tensor& x, Scalar y) {
  CompareScalar<F> op;
  op.compute = result_dtype(x, y, F::name);
  op.constant = to_number(y);
  // The number as x's dtype has it, so that float16(0.1) equals 0.1.
  if (op.compute == kFloat16) op.constant.real = Half(static_cast<float>(op.constant.real));
  if (op.compute == kBFloat16) op.constant.real = BFloat16(static_cast<float>(op.constant.real));
  return apply(op, x);
}

template <class F>
struct Bitwise : F {
  static constexpr OpInfo info{.name = F::name, .differentiable = false, .elementwise = true};

  Tensor forward(Saved&, const Tensor& x, const Tensor& y) const {
    const Dtype dtype = result_dtype(x, y);
    WICK_CHECK(!is_floating(dtype), info.name, ": needs integers or bool: got ",
               to_string(x.dtype()), " and ", to_string(y.dtype()));
    const Tensor z = empty_result(broadcast_shapes(info.name, x.shape(), y.shape()), dtype, {x, y});
    const F& f = *this;
    run_functor(f, dtype, z, x, y);
    return z;
  }
};

struct Where : fn::Where {
  static constexpr OpInfo info{.name = "where", .broadcasts = true, .elementwise = true};

  Tensor forward(Saved& saved, const Tensor& condition, const Tensor& x, const Tensor& y) const {
    Shape shape = broadcast_shapes(info.name, x.shape(), y.shape());
    shape = broadcast_shapes(info.name, condition.shape(), shape);
    const Dtype dtype = result_dtype(x, y);
    const Tensor z = empty_result(shape, dtype, {x, y, condition});
    const fn::Where& f = *this;
    run_functor(f, dtype, z, condition, x, y);
    saved.save(condition);
    return z;
  }
  Gradients backward(const Saved& saved, const Tensor& dz) const {
    const Tensor condition = saved[0];
    Tensor dx, dy;
    if (saved.needs(1)) {
      dx = masked_fill(dz, logical_not(condition), 0).to(saved.input(1).dtype);
    }
    if (saved.needs(2)) dy = masked_fill(dz, condition, 0).to(saved.input(2).dtype);
    return {Tensor(), dx, dy};
  }
};

void check_mask(const char* op, const Tensor& mask) {
  WICK_CHECK(mask.dtype(op) == kBool, op, ": the condition must be bool: got ",
             to_string(mask.dtype()));
}

// A mask that broadcasts to x.
void check_filling(const char* op, const Tensor& x, const Tensor& mask) {
  check_mask(op, mask);
  const Shape shape = broadcast_shapes(op, x.shape(), mask.shape());
  WICK_CHECK(shape == x.shape(), op, ": the mask does not broadcast to x: got ", mask.shape(),
             ", expected ", x.shape());
}

struct MaskedFillInPlace : fn::MaskedFill {
  static constexpr OpInfo info{.name = "masked_fill_", .mutates = 1};
  static constexpr auto fields = functor_fields<fn::MaskedFill>;

  Tensor forward(Saved& saved, const Tensor& x, const Tensor& mask) const {
    check_filling(info.name, x, mask);
    check_writable(info.name, x, x.shape(), x.dtype());
    const fn::MaskedFill& f = *this;
    run_functor(f, x.dtype(), x, x, without_overlap(x, mask));
    saved.save(mask);
    return x;
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    return {masked_fill(dy, saved[0], 0), Tensor()};
  }
};

struct MaskedFill : fn::MaskedFill {
  static constexpr OpInfo info{.name = "masked_fill", .elementwise = true};
  static constexpr auto fields = functor_fields<fn::MaskedFill>;

  Tensor forward(Saved& saved, const Tensor& x, const Tensor& mask) const {
    check_filling(info.name, x, mask);
    const Tensor y = empty_like(x);
    const fn::MaskedFill& f = *this;
    run_functor(f, x.dtype(), y, x, mask);
    saved.save(mask);
    return y;
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    return {masked_fill(dy, saved[0], 0), Tensor()};
  }
};

template <class Op>
Op filling(const char* name, const Tensor& x, const Tensor& mask, Scalar value) {
  check_filling(name, x, mask);
  Op op;
  op.value = to_number(value);
  return op;
}

// mask ? value : x, where both may broadcast.
Tensor filled(const char* name, const Tensor& x, const Tensor& mask, Scalar value) {
  const Shape shape = broadcast_shapes(name, x.shape(name), mask.shape(name));
  const Tensor wide = shape == x.shape() ? x : x.expand(shape);
  return apply(filling<MaskedFill>(name, wide, mask, value), wide, mask);
}

}  // namespace

Tensor eq(const Tensor& x, const Tensor& y) { return apply(Compare<fn::Eq>{}, x, y); }
Tensor eq(const Tensor& x, Scalar y) { return compare<fn::Eq>(x, y); }
Tensor ne(const Tensor& x, const Tensor& y) { return apply(Compare<fn::Ne>{}, x, y); }
Tensor ne(const Tensor& x, Scalar y) { return compare<fn::Ne>(x, y); }
Tensor lt(const Tensor& x, const Tensor& y) { return apply(Compare<fn::Lt>{}, x, y); }
Tensor lt(const Tensor& x, Scalar y) { return compare<fn::Lt>(x, y); }
Tensor le(const Tensor& x, const Tensor& y) { return apply(Compare<fn::Le>{}, x, y); }
Tensor le(const Tensor& x, Scalar y) { return compare<fn::Le>(x, y); }
Tensor gt(const Tensor& x, const Tensor& y) { return apply(Compare<fn::Gt>{}, x, y); }
Tensor gt(const Tensor& x, Scalar y) { return compare<fn::Gt>(x, y); }
Tensor ge(const Tensor& x, const Tensor& y) { return apply(Compare<fn::Ge>{}, x, y); }
Tensor ge(const Tensor& x, Scalar y) { return compare<fn::Ge>(x, y); }

Tensor logical_and(const Tensor& x, const Tensor& y) {
  return apply(Compare<fn::LogicalAnd>{}, x, y);
}
Tensor logical_or(const Tensor& x, const Tensor& y) {
  return apply(Compare<fn::LogicalOr>{}, x, y);
}
Tensor logical_xor(const Tensor& x, const Tensor& y) {
  return apply(Compare<fn::LogicalXor>{}, x, y);
}
Tensor logical_not(const Tensor& x) { return apply(Predicate<fn::LogicalNot>{}, x); }

Tensor bitwise_and(const Tensor& x, const Tensor& y) {
  return apply(Bitwise<fn::BitwiseAnd>{}, x, y);
}
Tensor bitwise_or(const Tensor& x, const Tensor& y) {
  return apply(Bitwise<fn::BitwiseOr>{}, x, y);
}
Tensor bitwise_xor(const Tensor& x, const Tensor& y) {
  return apply(Bitwise<fn::BitwiseXor>{}, x, y);
}

Tensor isnan(const Tensor& x) { return apply(Predicate<fn::IsNan>{}, x); }
Tensor isinf(const Tensor& x) { return apply(Predicate<fn::IsInf>{}, x); }
Tensor isfinite(const Tensor& x) { return apply(Predicate<fn::IsFinite>{}, x); }

bool equal(const Tensor& x, const Tensor& y) {
  return x.shape() == y.shape() && all(eq(x, y)).item<bool>();
}

bool allclose(const Tensor& x, const Tensor& y, double rtol, double atol, bool equal_nan) {
  check_defined("allclose", x, y);
  return all(isclose(x, y, rtol, atol, equal_nan)).item<bool>();
}

Tensor where(const Tensor& condition, const Tensor& x, const Tensor& y) {
  check_mask("where", condition);
  return apply(Where{}, condition, x, y);
}
Tensor where(const Tensor& condition, const Tensor& x, Scalar y) {
  check_mask("where", condition);
  return filled("where", x.to(result_dtype(x, y)), logical_not(condition), y);
}
Tensor where(const Tensor& condition, Scalar x, const Tensor& y) {
  return filled("where", y.to(result_dtype(y, x)), condition, x);
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value) {
  return filled("masked_fill", x, mask, value);
}
Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value) {
  WICK_CHECK(value.rank() == 0, "masked_fill: the value must be one number: got shape ",
             value.shape(), ", expected []");
  WICK_CHECK(promote(value.dtype(), x.dtype()) == x.dtype() || is_floating(x.dtype()),
             "masked_fill: the value's dtype does not fit: got ", value.dtype(), ", expected ",
             x.dtype());
  check_mask("masked_fill", mask);
  return where(mask, value.to(x.dtype()), x);
}
const Tensor& Tensor::masked_fill_(const Tensor& mask, Scalar value) const {
  apply(filling<MaskedFillInPlace>("masked_fill_", *this, mask, value), *this, mask);
  return *this;
}

}  // namespace wick
