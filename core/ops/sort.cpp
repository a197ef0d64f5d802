#include "wick/core/ops/sort.h"

#include "wick/core/apply.h"
#include "wick/core/memory/detail/workspace.h"
#include "wick/core/ops/detail/composed_gradient.h"
#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/index.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/reduce.h"
#include "wick/kernels/scan.h"
#include "wick/kernels/sort.h"

namespace wick {

namespace {

Shape as_rows(const Shape& shape) {
  const int64_t n = shape.back();
  return {n == 0 ? 0 : shape.numel() / n, n};
}

// The gradient of elements that `indices` took from the last axis of a tensor of `shape`.
Tensor put_back(const Tensor& dy, const Tensor& indices, const Shape& shape) {
  return scatter(zeros(shape, dy.dtype(), dy.device()), -1, indices, dy);
}

// Along the last axis.
struct Sort {
  static constexpr OpInfo info{.name = "sort"};
  bool descending;
  static constexpr auto fields = std::tuple{field("descending", &Sort::descending)};

  std::array<Tensor, 2> forward(Saved& saved, const Tensor& x) const {
    const Tensor from = x.contiguous();
    Tensor values = empty(x.shape(), x.dtype(), x.device());
    Tensor indices = empty(x.shape(), kInt64, x.device());
    const Shape rows = as_rows(x.shape());
    AllocatorWorkspace workspace(x.device());
    WICK_DISPATCH(x.device(),
                  sort_rows(from.view(rows).view_for_kernel(), values.view(rows).view_for_kernel(),
                            indices.view(rows).view_for_kernel(), descending, workspace));
    saved.save(indices);
    return {values, indices};
  }
  Gradients backward(const Saved& saved, const Tensor& dvalues, const Tensor&) const {
    return {put_back(dvalues, saved[0], saved.input(0).shape)};
  }
};

// Along the last axis; k is at most kMaxTopk.
struct Topk {
  static constexpr OpInfo info{.name = "topk"};
  int64_t k;
  bool largest;
  static constexpr auto fields = std::tuple{field("k", &Topk::k), field("largest", &Topk::largest)};

  std::array<Tensor, 2> forward(Saved& saved, const Tensor& x) const {
    WICK_CHECK(x.rank() > 0 && k >= 0 && k <= std::min(kMaxTopk, x.size(-1)),
               "topk: k out of range: got ", k, " for shape ", x.shape());
    const Tensor from = x.contiguous();
    Shape shape = x.shape();
    shape[x.rank() - 1] = k;
    Tensor values = empty(shape, x.dtype(), x.device());
    Tensor indices = empty(shape, kInt64, x.device());
    const Shape rows = as_rows(x.shape()), best{rows[0], k};
    if (k > 0) {
      WICK_DISPATCH(x.device(), topk_rows(from.view(rows).view_for_kernel(),
                                          values.view(best).view_for_kernel(),
                                          indices.view(best).view_for_kernel(), largest));
    }
    saved.save(indices);
    return {values, indices};
  }
  Gradients backward(const Saved& saved, const Tensor& dvalues, const Tensor&) const {
    return {put_back(dvalues, saved[0], saved.input(0).shape)};
  }
};

// x as [outer, n, inner] around `axis`, contiguous.
Tensor around_axis(const Tensor& x, int64_t along) {
  const int axis = wrap_axis(detail::current_op(), along, x.rank());
  Shape three{1, x.shape()[axis], 1};
  for (int i = 0; i < x.rank(); ++i) {
    if (i != axis) three[i < axis ? 0 : 2] *= x.shape()[i];
  }
  return x.contiguous().view(three);
}

struct Cumsum {
  static constexpr OpInfo info{.name = "cumsum", .autocast = {.cuda = Autocast::kFloat32Out}};
  int64_t axis;
  bool reverse;
  static constexpr auto fields =
      std::tuple{field("axis", &Cumsum::axis), field("reverse", &Cumsum::reverse)};

  Tensor forward(Saved&, const Tensor& x) const {
    Tensor y = empty(x.shape(), x.dtype(), x.device());
    WICK_DISPATCH(x.device(), cumulative_sum(around_axis(x, axis).view_for_kernel(),
                                             around_axis(y, axis).view_for_kernel(), reverse));
    return y;
  }
  Gradients backward(const Saved&, const Tensor& dy) const {
    return {apply(Cumsum{axis, !reverse}, dy)};
  }
};

struct CumprodBackward {
  static constexpr OpInfo info{
      .name = "cumprod_backward", .differentiable = false, .is_gradient = true};
  int64_t axis;
  static constexpr auto fields = std::tuple{field("axis", &CumprodBackward::axis)};

  Tensor forward(Saved&, const Tensor& x, const Tensor& dy) const {
    Tensor dx = empty(x.shape(), x.dtype(), x.device());
    WICK_DISPATCH(x.device(), cumulative_product_backward(around_axis(x, axis).view_for_kernel(),
                                                          around_axis(dy, axis).view_for_kernel(),
                                                          around_axis(dx, axis).view_for_kernel()));
    return dx;
  }
};

// Cumulative products one by one: zeros among the factors need no case of their own.
Tensor products_so_far(const Tensor& x, int64_t axis) {
  std::vector<Tensor> products;
  for (int64_t i = 0; i < x.size(axis); ++i) {
    const Tensor factor = x.select(axis, i);
    products.push_back(products.empty() ? factor : products.back() * factor);
  }
  return products.empty() ? x : stack(products, axis);
}

struct Cumprod {
  static constexpr OpInfo info{.name = "cumprod", .autocast = {.cuda = Autocast::kFloat32Out}};
  int64_t axis;
  static constexpr auto fields = std::tuple{field("axis", &Cumprod::axis)};

  Tensor forward(Saved& saved, const Tensor& x) const {
    saved.save(x);
    Tensor y = empty(x.shape(), x.dtype(), x.device());
    WICK_DISPATCH(x.device(), cumulative_product(around_axis(x, axis).view_for_kernel(),
                                                 around_axis(y, axis).view_for_kernel()));
    return y;
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    if (grad_enabled()) {
      return composed_gradients(saved, {saved[0]}, dy, [this](const std::vector<Tensor>& in) {
        return products_so_far(in[0], axis);
      });
    }
    return {apply(CumprodBackward{axis}, saved[0], dy)};
  }
};

// Applies a scan to a tensor that has an axis and a type that can hold the results.
template <class Op>
Tensor scan(const Op& op, const Tensor& x) {
  const Tensor from = is_floating(x.dtype()) ? x : x.to(kInt64);
  return x.rank() == 0 ? apply(op, from.reshape({1})).reshape({}) : apply(op, from);
}

// Calls `op` with its axis moved to the end.
template <class Op>
Sorted along(const Op& op, const Tensor& x, int axis) {
  if (x.rank() == 0) {
    const auto [values, indices] = apply(op, x.reshape({1}));
    return {values.reshape({}), indices.reshape({})};
  }
  if (axis == x.rank() - 1) {
    const auto [values, indices] = apply(op, x);
    return {values, indices};
  }
  const auto [values, indices] = apply(op, x.transpose(axis, -1));
  return {values.transpose(axis, -1), indices.transpose(axis, -1)};
}

}  // namespace

Sorted sort(const Tensor& x, int64_t axis, bool descending) {
  return along(Sort{descending}, x, wrap_axis("sort", axis, x.rank()));
}

Tensor msort(const Tensor& x) {
  check_defined("msort", x);
  return sort(x, 0).values;
}
Tensor argsort(const Tensor& x, int64_t axis, bool descending) {
  check_defined("argsort", x);
  return sort(x.detach(), axis, descending).indices;
}

Sorted topk(const Tensor& x, int64_t k, int64_t axis, bool largest) {
  const int a = wrap_axis("topk", axis, x.rank());
  const int64_t n = x.rank() == 0 ? 1 : x.shape()[a];
  WICK_CHECK(k >= 0 && k <= n, "topk: k out of range: got ", k, " for axis ", axis, " of shape ",
             x.shape(), ", expected 0 to ", n);
  if (k <= kMaxTopk && !(x.rank() == 0 && k == 0)) return along(Topk{k, largest}, x, a);
  const Sorted all = sort(x.rank() == 0 ? x.reshape({1}) : x, axis, largest);
  return {all.values.narrow(a, 0, k), all.indices.narrow(a, 0, k)};
}

namespace {
Sorted extreme(const Tensor& x, const Tensor& place, int64_t axis, bool keepdim) {
  const Tensor value = x.rank() == 0 ? x.clone() : gather(x, axis, place);
  if (keepdim || x.rank() == 0) return {value, place};
  return {value.squeeze(axis), place.squeeze(axis)};
}
}  // namespace

Sorted max(const Tensor& x, int64_t axis, bool keepdim) {
  check_defined("max", x);
  return extreme(x, argmax(x, axis, true), axis, keepdim);
}
Sorted min(const Tensor& x, int64_t axis, bool keepdim) {
  check_defined("min", x);
  return extreme(x, argmin(x, axis, true), axis, keepdim);
}

Tensor cumsum(const Tensor& x, int64_t axis) {
  return scan(Cumsum{wrap_axis("cumsum", axis, x.rank()), false}, x);
}

Tensor cumprod(const Tensor& x, int64_t axis) {
  return scan(Cumprod{wrap_axis("cumprod", axis, x.rank())}, x);
}

}  // namespace wick
