#include "wick/core/ops/softmax.h"

#include "wick/core/apply.h"
#include "wick/core/ops/detail/dense.h"
#include "wick/core/ops/detail/elementwise_op.h"
#include "wick/core/ops/reduce.h"
#include "wick/kernels/softmax.h"

namespace wick {

namespace {

constexpr AutocastPolicy kSoftmaxAutocast{.cuda = Autocast::kFloat32Out, .cpu = Autocast::kAsIs};

struct SoftmaxBackward {
  static constexpr OpInfo info{.name = "softmax_backward"};
  int axis;
  static constexpr auto fields = std::tuple{field("axis", &SoftmaxBackward::axis)};

  Tensor forward(Saved& saved, const Tensor& dy, const Tensor& y) const {
    saved.save(dy, y);
    const Tensor dense_y = dense(y);
    const Tensor dense_dy = laid_out_like(dense_y, dy);
    Tensor dx = empty_like(dense_y);
    if (dx.numel() > 0) {
      WICK_DISPATCH(y.device(),
                    softmax_backward(dense_dy.view_for_kernel(), dense_y.view_for_kernel(),
                                     dx.view_for_kernel(), axis));
    }
    return dx;
  }

  // dx = (dy - sum(dy * y)) * y, where the Jacobian for dy is symmetric.
  Gradients backward(const Saved& saved, const Tensor& g) const {
    Gradients grads(2);
    if (saved.needs(0)) grads[0] = apply(SoftmaxBackward{axis}, g, saved[1]);
    if (saved.needs(1)) {
      const Tensor dx = wide(g), dy = wide(saved[0]), y = wide(saved[1]);
      grads[1] = dx * (dy - sum(dy * y, {axis}, true)) - dy * sum(dx * y, {axis}, true);
    }
    return grads;
  }
};

struct Softmax {
  static constexpr OpInfo info{.name = "softmax", .autocast = kSoftmaxAutocast};
  int axis;
  static constexpr auto fields = std::tuple{field("axis", &Softmax::axis)};

  Tensor forward(Saved& saved, const Tensor& x) const {
    const Tensor dense_x = dense(x);
    Tensor y = empty_like(dense_x);
    if (y.numel() > 0) {
      WICK_DISPATCH(x.device(),
                    softmax_forward(dense_x.view_for_kernel(), y.view_for_kernel(), axis));
    }
    saved.save(y);
    return y;
  }

  Gradients backward(const Saved& saved, const Tensor& dy) const {
    return {apply(SoftmaxBackward{axis}, dy, saved[0])};
  }
};

struct LogSoftmaxBackward {
  static constexpr OpInfo info{.name = "log_softmax_backward"};
  int axis;
  static constexpr auto fields = std::tuple{field("axis", &LogSoftmaxBackward::axis)};

  Tensor forward(Saved& saved, const Tensor& dy, const Tensor& y) const {
    saved.save(dy, y);
    const Tensor dense_y = dense(y);
    const Tensor dense_dy = laid_out_like(dense_y, dy);
    Tensor dx = empty_like(dense_y);
    if (dx.numel() > 0) {
      WICK_DISPATCH(y.device(),
                    log_softmax_backward(dense_dy.view_for_kernel(), dense_y.view_for_kernel(),
                                         dx.view_for_kernel(), axis));
    }
    return dx;
  }

  // dx = dy - exp(y) * sum(dy).
  Gradients backward(const Saved& saved, const Tensor& g) const {
    const Tensor dx = wide(g), dy = wide(saved[0]), y = wide(saved[1]);
    const Tensor weighted = dx * exp(y);
    Gradients grads(2);
    if (saved.needs(0)) grads[0] = dx - sum(weighted, {axis}, true);
    if (saved.needs(1)) grads[1] = -(weighted * sum(dy, {axis}, true));
    return grads;
  }
};

struct LogSoftmax {
  static constexpr OpInfo info{.name = "log_softmax", .autocast = kSoftmaxAutocast};
  int axis;
  static constexpr auto fields = std::tuple{field("axis", &LogSoftmax::axis)};

  Tensor forward(Saved& saved, const Tensor& x) const {
    const Tensor dense_x = dense(x);
    Tensor y = empty_like(dense_x);
    if (y.numel() > 0) {
      WICK_DISPATCH(x.device(),
                    log_softmax_forward(dense_x.view_for_kernel(), y.view_for_kernel(), axis));
    }
    saved.save(y);
    return y;
  }

  Gradients backward(const Saved& saved, const Tensor& dy) const {
    return {apply(LogSoftmaxBackward{axis}, dy, saved[0])};
  }
};

int checked_axis(const char* op, const Tensor& x, int64_t axis) {
  WICK_CHECK(is_floating(x.dtype(op)), op, ": needs a floating dtype: got ", to_string(x.dtype()));
  return wrap_axis(op, axis, x.rank());
}

}  // namespace

Tensor softmax(const Tensor& x, int64_t axis) {
  return apply(Softmax{checked_axis("softmax", x, axis)}, x);
}

Tensor log_softmax(const Tensor& x, int64_t axis) {
  return apply(LogSoftmax{checked_axis("log_softmax", x, axis)}, x);
}

}  // namespace wick
