#include "wick/optim/detail/gradient_norm.h"

#include "wick/core/autograd.h"
#include "wick/core/sparse_rows.h"

namespace wick::optim {

DenseGrads::DenseGrads(const char* name, const std::vector<Tensor>& params) {
  for (const Tensor& param : params) {
    if (!param.grad().defined()) continue;
    const Tensor grad = gradient_elements(param.grad()).detach();
    WICK_CHECK(grads_.empty() || grad.device() == device(), name,
               ": gradients must be on one device: got ", to_string(grad.device()), " and ",
               to_string(device()));
    grads_.push_back(grad);
    dense_.push_back(is_dense(grad.shape(), grad.strides()) ? grad : grad.contiguous());
    views_.push_back(dense_.back().view_for_kernel());
  }
}

Dtype DenseGrads::dtype() const {
  for (const Tensor& grad : grads_) {
    if (grad.dtype() == kFloat64) return kFloat64;
  }
  return kFloat32;
}

int64_t DenseGrads::chunks(int64_t size) const {
  int64_t total = 0;
  for (const Tensor& grad : grads_) total += (grad.numel() + size - 1) / size;
  return total;
}

void DenseGrads::write_back() const {
  for (size_t i = 0; i < grads_.size(); ++i) {
    if (grads_[i].is_same(dense_[i])) {
      grads_[i].impl()->storage->bump_version();
    } else {
      grads_[i].copy_(dense_[i]);
    }
  }
}

GradientNorm gradient_norm(const char* name, const std::vector<Tensor>& params,
                           const Tensor& grad_scale, bool unscale, GradientNormArgs more) {
  const NoGrad no_grad;
  const DenseGrads grads(name, params);
  const Device device =
      grads.empty() ? (params.empty() ? kCpu : params[0].device()) : grads.device();
  const GradientNorm result{empty({}, kFloat64, device), empty({}, kFloat32, device)};
  if (grads.empty()) {
    result.norm.fill_(0);
    result.found_inf.fill_(0);
    return result;
  }
  const Tensor partial = empty({grads.chunks(kGradNormChunk), 2}, kFloat64, device);
  more.scale = grad_scale.defined() ? grad_scale.data<float>() : nullptr;
  more.unscale = unscale;
  more.partial = partial.data<double>();
  more.norm = result.norm.data<double>();
  more.found_inf = result.found_inf.data<float>();
  WICK_DISPATCH(device, gradient_norm(grads.views(), grads.count(), more));
  if (unscale) grads.write_back();
  return result;
}

}  // namespace wick::optim
