#include "wick/core/ops/softmax.h"

#include "wick/core/apply.h"
#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/detail/dense.h"
#include "wick/core/ops/detail/elementwise_op.h"
#include "wick/core/ops/reduce.h"
#include "wick/kernels/softmax.h"

namespace wick {

namespace {

template <bool kLog>
struct SoftmaxBackward {
  static constexpr OpInfo info{.name = kLog ? "log_softmax_backward" : "softmax_backward"};
  int axis;
  static constexpr auto fields = std::tuple{field("axis", &SoftmaxBackward::axis)};

  Tensor forward(Saved& saved, const Tensor& dy, const Tensor& y) const {
    saved.save(dy, y);
    const int a = wrap_axis(info.name, axis, y.rank());
    const Tensor dense_y = dense(y);
    const Tensor dense_dy = laid_out_like(dense_y, dy);
    Tensor dx = empty_like(dense_y);
    if (dx.numel() > 0) {
      WICK_DISPATCH(y.device(),
                    softmax_backward(dense_dy.view_for_kernel(), dense_y.view_for_kernel(),
                                     dx.view_for_kernel(), a, kLog));
    }
    return dx;
  }

  Gradients backward(const Saved& saved, const Tensor& g) const {
    Gradients grads(2);
    if constexpr (kLog) {  // of dx = dy - exp(y) * sum(dy)
      const Tensor dx = wide(g), dy = wide(saved[0]), y = wide(saved[1]);
      const Tensor weighted = dx * exp(y);
      if (saved.needs(0)) grads[0] = dx - sum(weighted, {axis}, true);
      if (saved.needs(1)) grads[1] = -(weighted * sum(dy, {axis}, true));
    } else {  // of dx = (dy - sum(dy * y)) * y, where the Jacobian for dy is symmetric
      if (saved.needs(0)) grads[0] = apply(SoftmaxBackward{axis}, g, saved[1]);
      if (saved.needs(1)) {
        const Tensor dx = wide(g), dy = wide(saved[0]), y = wide(saved[1]);
        grads[1] = dx * (dy - sum(dy * y, {axis}, true)) - dy * sum(dx * y, {axis}, true);
      }
    }
    return grads;
  }
};

// Softmax, or its logarithm.
template <bool kLog>
struct Softmax {
  static constexpr OpInfo info{.name = kLog ? "log_softmax" : "softmax",
                               .autocast = {.cuda = Autocast::kFloat32Out, .cpu = Autocast::kAsIs}};
  int axis;
  static constexpr auto fields = std::tuple{field("axis", &Softmax::axis)};

  Tensor forward(Saved& saved, const Tensor& x) const {
    const int a = wrap_axis(info.name, axis, x.rank());
    const Tensor dense_x = dense(x);
    Tensor y = empty_like(dense_x);
    if (y.numel() > 0) {
      WICK_DISPATCH(x.device(),
                    softmax_forward(dense_x.view_for_kernel(), y.view_for_kernel(), a, kLog));
    }
    saved.save(y);
    return y;
  }

  Gradients backward(const Saved& saved, const Tensor& dy) const {
    return {apply(SoftmaxBackward<kLog>{axis}, dy, saved[0])};
  }
};

template <bool kLog>
Tensor checked_softmax(const Tensor& x, int64_t axis) {
  const char* const op = Softmax<kLog>::info.name;
  WICK_CHECK(is_floating(x.dtype(op)), op, ": needs a floating dtype: got ", to_string(x.dtype()));
  return apply(Softmax<kLog>{wrap_axis(op, axis, x.rank())}, x);
}

}  // namespace

Tensor softmax(const Tensor& x, int64_t axis) { return checked_softmax<false>(x, axis); }

Tensor softmin(const Tensor& x, int64_t axis) {
  check_defined("softmin", x);
  return softmax(-x, axis);
}
Tensor log_softmax(const Tensor& x, int64_t axis) { return checked_softmax<true>(x, axis); }

}  // namespace wick
