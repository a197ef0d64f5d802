#pragma once

#include <vector>

#include "wick/core/tensor.h"
#include "wick/kernels/gradient_norm.h"

namespace wick::optim {

/// The gradients of some parameters, dense ones for a kernel to read or change in place. Those that
/// are not dense are copied, and copied back by write_back(). For the library's own use.
class DenseGrads {
 public:
  /// Error, named after `name`, unless they are on one device.
  DenseGrads(const char* name, const std::vector<Tensor>& params);

  bool empty() const { return grads_.empty(); }
  Device device() const { return grads_[0].device(); }
  const View* views() const { return views_.data(); }
  int64_t count() const { return static_cast<int64_t>(views_.size()); }
  /// float64 if one of them is, else float32.
  Dtype dtype() const;
  /// Chunks of `size` elements that none shares.
  int64_t chunks(int64_t size) const;
  void write_back() const;

 private:
  std::vector<Tensor> grads_, dense_;
  std::vector<View> views_;
};

/// What one pass over gradients gives, on their device.
struct GradientNorm {
  Tensor norm;       // float64, rank 0: 2-norm of all of them, divided by the scale
  Tensor found_inf;  // float32, rank 0: 1 if an element is not finite, else 0
};

/// The norm of the gradients of `params`, divided by `grad_scale` (float32, rank 0, or undefined
/// for 1); with `unscale`, the gradients are divided too, in place. `more` says where else results
/// go.
GradientNorm gradient_norm(const char* name, const std::vector<Tensor>& params,
                           const Tensor& grad_scale, bool unscale, GradientNormArgs more = {});

}  // namespace wick::optim
