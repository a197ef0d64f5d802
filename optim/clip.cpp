#include "wick/optim/clip.h"

#include <cmath>

#include "wick/core/autograd.h"
#include "wick/kernels/clip.h"

namespace wick::optim {

namespace {

// The gradients of `params`, dense ones for a kernel to change in place. Those that are not dense
// are copied, and copied back by write_back().
class DenseGrads {
 public:
  DenseGrads(const char* name, const std::vector<Tensor>& params) {
    for (const Tensor& param : params) {
      const Tensor grad = param.grad().defined() ? param.grad().detach() : Tensor();
      if (!grad.defined()) continue;
      WICK_CHECK(grad.dtype() == kFloat32 || grad.dtype() == kFloat64, name,
                 ": gradients must be float32 or float64: got ", to_string(grad.dtype()));
      WICK_CHECK(grads_.empty() || grad.device() == device(), name,
                 ": gradients must be on one device: got ", to_string(grad.device()), " and ",
                 to_string(device()));
      grads_.push_back(grad);
      dense_.push_back(is_dense(grad.shape(), grad.strides()) ? grad : grad.contiguous());
      views_.push_back(dense_.back().view_for_kernel());
    }
  }

  bool empty() const { return grads_.empty(); }
  Device device() const { return grads_[0].device(); }
  const View* views() const { return views_.data(); }
  int64_t count() const { return static_cast<int64_t>(views_.size()); }
  /// The widest dtype among them.
  Dtype dtype() const {
    for (const Tensor& grad : grads_) {
      if (grad.dtype() == kFloat64) return kFloat64;
    }
    return kFloat32;
  }
  int64_t chunks(int64_t size) const {
    int64_t total = 0;
    for (const Tensor& grad : grads_) total += (grad.numel() + size - 1) / size;
    return total;
  }
  void write_back() const {
    for (size_t i = 0; i < grads_.size(); ++i) {
      if (grads_[i].is_same(dense_[i])) {
        grads_[i].impl()->storage->bump_version();
      } else {
        grads_[i].copy_(dense_[i]);
      }
    }
  }

 private:
  std::vector<Tensor> grads_, dense_;
  std::vector<View> views_;
};

}  // namespace

Tensor clip_grad_norm_(const std::vector<Tensor>& params, double max_norm, double norm_type,
                       bool error_if_nonfinite) {
  WICK_CHECK(max_norm >= 0, "clip_grad_norm_: max_norm: got ", max_norm, ", expected 0 or more");
  WICK_CHECK(norm_type == HUGE_VAL || (std::isfinite(norm_type) && norm_type != 0),
             "clip_grad_norm_: norm_type: got ", norm_type,
             ", expected a number other than 0, or infinity");
  const NoGrad no_grad;
  const DenseGrads grads("clip_grad_norm_", params);
  if (grads.empty()) return zeros({}, kFloat32, params.empty() ? kCpu : params[0].device());
  const Device device = grads.device();
  const Tensor total = empty({}, grads.dtype(), device);
  const Tensor partial = empty({grads.chunks(kGradNormChunk)}, kFloat64, device);
  WICK_DISPATCH(device, grad_norm(grads.views(), grads.count(), norm_type,
                                  partial.view_for_kernel(), total.view_for_kernel()));
  if (error_if_nonfinite) {
    WICK_CHECK(std::isfinite(total.item()), "clip_grad_norm_: the norm of the gradients is ",
               total.item(), ", which nothing can be scaled by");
  }
  WICK_DISPATCH(device,
                grad_clip_norm(grads.views(), grads.count(), total.view_for_kernel(), max_norm));
  grads.write_back();
  return total;
}

void clip_grad_value_(const std::vector<Tensor>& params, double clip_value) {
  WICK_CHECK(clip_value >= 0, "clip_grad_value_: clip_value: got ", clip_value,
             ", expected 0 or more");
  const NoGrad no_grad;
  const DenseGrads grads("clip_grad_value_", params);
  if (grads.empty()) return;
  WICK_DISPATCH(grads.device(), grad_clip_value(grads.views(), grads.count(), clip_value));
  grads.write_back();
}

}  // namespace wick::optim
