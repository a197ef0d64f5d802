#include "wick/core/ops/reduce.h"

#include "wick/core/apply.h"
#include "wick/core/memory/detail/workspace.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/detail/elementwise_op.h"
#include "wick/core/ops/detail/reduce_axes.h"

namespace wick {

namespace {

Dtype sum_dtype(const Tensor& x) { return is_floating(x.dtype()) ? x.dtype() : kInt64; }

struct Sum {
  static constexpr OpInfo info{.name = "sum", .autocast = {.cuda = Autocast::kFloat32Out}};
  Shape axes;
  bool keepdim;
  bool to_float64;
  static constexpr auto fields =
      std::tuple{field("axes", &Sum::axes), field("keepdim", &Sum::keepdim),
                 field("to_float64", &Sum::to_float64)};

  Tensor forward(Saved&, const Tensor& x) const {
    return reduce_axes(Reduction::kSum, x, axes, keepdim, to_float64 ? kFloat64 : sum_dtype(x));
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    return {spread(dy.to(saved.input(0).dtype), saved.input(0).shape, axes)};
  }
  double flops(std::span<const Tensor> inputs, const Tensor&) const {
    return static_cast<double>(inputs[0].numel());
  }
};

struct Mean {
  static constexpr OpInfo info{.name = "mean"};
  Shape axes;
  bool keepdim;
  static constexpr auto fields =
      std::tuple{field("axes", &Mean::axes), field("keepdim", &Mean::keepdim)};

  Tensor forward(Saved&, const Tensor& x) const {
    const double count = static_cast<double>(reduced_count(x.shape(), axes));
    return reduce_axes(Reduction::kSum, x, axes, keepdim, x.dtype(), 1 / count);
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    const Shape& shape = saved.input(0).shape;
    const double count = static_cast<double>(reduced_count(shape, axes));
    return {spread(dy * (1 / count), shape, axes)};
  }
  double flops(std::span<const Tensor> inputs, const Tensor&) const {
    return static_cast<double>(inputs[0].numel());
  }
};

// Products of all elements but one, for every element: along the last axis of [rows, n] tensors,
// by multiplying rows of an [n, n] copy whose diagonal is 1. Right with zeros, and for derivatives
// of any order.
Tensor products_of_others(const Tensor& x) {
  const int64_t n = x.size(-1);
  const Tensor index = arange(0, n, 1, kInt64, x.device());
  const Tensor diagonal = eq(index.unsqueeze(0), index.unsqueeze(1));
  return prod(x.unsqueeze(-2).expand({x.size(0), n, n}).masked_fill(diagonal, 1), {-1});
}

struct Prod {
  static constexpr OpInfo info{
      .name = "prod", .autocast = {.cuda = Autocast::kFloat32Out, .cpu = Autocast::kToFloat32}};
  Shape axes;
  bool keepdim;
  static constexpr auto fields =
      std::tuple{field("axes", &Prod::axes), field("keepdim", &Prod::keepdim)};

  Tensor forward(Saved& saved, const Tensor& x) const {
    saved.save(x);
    return reduce_axes(Reduction::kProd, x, axes, keepdim, sum_dtype(x));
  }

  // The product over each other element: by division where none of them is 0.
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    const Tensor x = wide(saved[0]);
    const Tensor weight = spread(wide(dy), x.shape(), axes);
    if (grad_enabled()) return {weight * others_exactly(x)};
    const Tensor zero = eq(x, 0);
    const Tensor without_zeros = x.masked_fill(zero, 1);
    const Tensor rest = prod(without_zeros, axes, true);
    const Tensor zeros = sum(zero, axes, true);
    const Tensor at_zero = rest.masked_fill(ne(zeros, 1), 0);
    const Tensor elsewhere = rest.masked_fill(ne(zeros, 0), 0) / without_zeros;
    return {weight * where(zero, at_zero, elsewhere)};
  }

 private:
  // Brings the reduced axes last, as one.
  Tensor others_exactly(const Tensor& x) const {
    Shape order, inverse = Shape::filled(x.rank(), 0);
    const Shape kept = kept_shape(x.shape(), axes);
    uint32_t reduced = 0;
    for (const int64_t a : axes) reduced |= 1u << a;
    for (int pass = 0; pass < 2; ++pass) {
      for (int a = 0; a < x.rank(); ++a) {
        if (static_cast<int>(reduced >> a & 1) == pass) order.push_back(a);
      }
    }
    for (int i = 0; i < x.rank(); ++i) inverse[static_cast<int>(order[i])] = i;
    const Tensor moved = x.permute(order);
    const Tensor rows = moved.reshape({kept.numel(), reduced_count(x.shape(), axes)});
    return products_of_others(rows).reshape(moved.shape()).permute(inverse);
  }
};

// Largest or smallest element.
template <bool kLargest>
struct Extreme {
  static constexpr OpInfo info{.name = kLargest ? "amax" : "amin"};
  Shape axes;
  bool keepdim;
  static constexpr auto fields =
      std::tuple{field("axes", &Extreme::axes), field("keepdim", &Extreme::keepdim)};

  Tensor forward(Saved& saved, const Tensor& x) const {
    Tensor y =
        reduce_axes(kLargest ? Reduction::kMax : Reduction::kMin, x, axes, keepdim, x.dtype());
    saved.save(x, y);
    return y;
  }

  Gradients backward(const Saved& saved, const Tensor& dy) const {
    const Tensor x = saved[0].detach();
    const Shape kept = kept_shape(x.shape(), axes);
    const Tensor g = wide(dy).reshape(kept);
    const Tensor equal = eq(x, saved[1].detach().reshape(kept)).to(g.dtype());
    return {equal * (g / sum(equal, axes, true))};
  }
};

template <bool kLargest>
Tensor extreme(const Tensor& x, const Shape& axes, bool keepdim) {
  const char* op = Extreme<kLargest>::info.name;
  const Shape wrapped = reduced_axes(op, x, axes);
  WICK_CHECK(reduced_count(x.shape(), wrapped) > 0 || kept_shape(x.shape(), wrapped).numel() == 0,
             op, ": no elements to choose from: got shape ", x.shape(), ", axes ", axes);
  return apply(Extreme<kLargest>{wrapped, keepdim}, x);
}

// Whether any, or all, elements are not 0.
template <bool kAny>
struct Truth {
  static constexpr OpInfo info{.name = kAny ? "any" : "all", .differentiable = false};
  Shape axes;
  bool keepdim;
  static constexpr auto fields =
      std::tuple{field("axes", &Truth::axes), field("keepdim", &Truth::keepdim)};

  Tensor forward(Saved&, const Tensor& x) const {
    const Tensor truth = x.dtype() == kBool ? x : ne(x, 0);
    return reduce_axes(kAny ? Reduction::kMax : Reduction::kMin, truth, axes, keepdim, kBool);
  }
};

// uint8 stays uint8, as in PyTorch.
Tensor truth_of(const Tensor& x, const Tensor& truth) {
  return x.dtype() == kUint8 ? truth.to(kUint8) : truth;
}

struct ArgReduce {
  static constexpr OpInfo info{.name = "arg_reduce", .differentiable = false};
  int axis;
  bool largest;
  static constexpr auto fields =
      std::tuple{field("axis", &ArgReduce::axis), field("largest", &ArgReduce::largest)};

  Tensor forward(Saved&, const Tensor& x) const {
    const Tensor in = x.contiguous();
    Tensor y = empty(kept_shape(x.shape(), {axis}), kInt64, x.device());
    if (y.numel() > 0) {
      AllocatorWorkspace workspace(x.device());
      WICK_DISPATCH(x.device(), arg_reduce(in.view_for_kernel(), y.view_for_kernel(), axis, largest,
                                           workspace));
    }
    return y;
  }
};

Tensor arg_extreme(const char* op, const Tensor& x, std::optional<int64_t> axis, bool keepdim,
                   bool largest) {
  if (!axis) {
    WICK_CHECK(x.numel(op) > 0, op, ": no elements to choose from: got shape ", x.shape());
    const Tensor y = apply(ArgReduce{0, largest}, x.reshape({x.numel()}));
    return y.reshape(keepdim ? Shape::filled(x.rank(), 1) : Shape{});
  }
  const int a = wrap_axis(op, *axis, x.rank());
  if (x.rank() == 0) return apply(ArgReduce{0, largest}, x.reshape({1})).reshape({});
  WICK_CHECK(x.shape()[a] > 0 || kept_shape(x.shape(), {a}).numel() == 0, op,
             ": no elements to choose from: got shape ", x.shape(), ", axis ", *axis);
  const Tensor y = apply(ArgReduce{a, largest}, x);
  return keepdim ? y : y.squeeze(a);
}

}  // namespace

Tensor sum(const Tensor& x, const Shape& axes, bool keepdim) {
  return apply(Sum{reduced_axes("sum", x, axes), keepdim, false}, x);
}
Tensor sum(const Tensor& x, const Shape& axes, bool keepdim, Dtype dtype) {
  if (dtype != kFloat64 || !is_floating(x.dtype())) {
    return sum(x.to(dtype), axes, keepdim).to(dtype);
  }
  return apply(Sum{reduced_axes("sum", x, axes), keepdim, true}, x);
}
Tensor mean(const Tensor& x, const Shape& axes, bool keepdim) {
  check_floating("mean", x);
  return apply(Mean{reduced_axes("mean", x, axes), keepdim}, x);
}
Tensor prod(const Tensor& x, const Shape& axes, bool keepdim) {
  return apply(Prod{reduced_axes("prod", x, axes), keepdim}, x);
}
Tensor prod(const Tensor& x, const Shape& axes, bool keepdim, Dtype dtype) {
  check_defined("prod", x);
  return prod(x.to(dtype), axes, keepdim).to(dtype);
}
Tensor amax(const Tensor& x, const Shape& axes, bool keepdim) {
  return extreme<true>(x, axes, keepdim);
}
Tensor amin(const Tensor& x, const Shape& axes, bool keepdim) {
  return extreme<false>(x, axes, keepdim);
}
Tensor max(const Tensor& x) {
  check_defined("max", x);
  return amax(x);
}
Tensor min(const Tensor& x) {
  check_defined("min", x);
  return amin(x);
}
Tensor any(const Tensor& x, const Shape& axes, bool keepdim) {
  return truth_of(x, apply(Truth<true>{reduced_axes("any", x, axes), keepdim}, x));
}
Tensor all(const Tensor& x, const Shape& axes, bool keepdim) {
  return truth_of(x, apply(Truth<false>{reduced_axes("all", x, axes), keepdim}, x));
}
Tensor argmax(const Tensor& x, std::optional<int64_t> axis, bool keepdim) {
  return arg_extreme("argmax", x, axis, keepdim, true);
}
Tensor argmin(const Tensor& x, std::optional<int64_t> axis, bool keepdim) {
  return arg_extreme("argmin", x, axis, keepdim, false);
}

}  // namespace wick
