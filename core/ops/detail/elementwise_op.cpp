#include "wick/core/ops/detail/elementwise_op.h"

namespace wick {

namespace {

// bool, integer, floating: an operand of a lower kind never changes the dtype of a higher one.
int kind(Dtype dtype) { return is_floating(dtype) ? 2 : dtype == kBool ? 0 : 1; }

}  // namespace

Dtype result_dtype(const Tensor& x, const Tensor& y, const char* user) {
  const Dtype a = x.dtype(user), b = y.dtype(user);
  const int ka = kind(a), kb = kind(b);
  const bool small_a = x.rank() == 0, small_b = y.rank() == 0;
  if (small_a != small_b) {
    if (small_b && ka >= kb) return a;
    if (small_a && kb >= ka) return b;
  }
  return promote(a, b);
}

Dtype result_dtype(const Tensor& x, Scalar y, const char* user) {
  if (is_floating(x.dtype(user))) return x.dtype();
  if (!y.is_integral()) return kFloat32;
  return x.dtype() == kBool ? kInt64 : x.dtype();
}

Tensor empty_result(const Shape& shape, Dtype dtype, std::initializer_list<Tensor> inputs) {
  for (const Tensor& input : inputs) {
    if (input.shape() == shape && is_dense(shape, input.strides())) {
      return empty_strided(shape, input.strides(), dtype, input.device());
    }
  }
  return empty(shape, dtype, inputs.begin()->device());
}

void check_writable(const char* op, const Tensor& self, const Shape& shape, Dtype dtype) {
  WICK_CHECK(self.shape(op) == shape, op, ": the result does not fit in place: got shape ",
             self.shape(), ", expected ", shape);
  WICK_CHECK(kind(dtype) <= kind(self.dtype()), op,
             ": the result's dtype does not fit in place: got ", to_string(self.dtype()),
             ", expected ", to_string(dtype));
  for (int axis = 0; axis < self.rank() && self.numel() > 0; ++axis) {
    WICK_CHECK(self.strides()[axis] != 0 || self.shape()[axis] <= 1, op,
               ": several elements share one place in memory: got strides ", self.strides(),
               ": clone the expanded tensor first");
  }
}

Tensor old_value(const Tensor& self) {
  Tensor old = self.clone();
  if (self.requires_grad()) {
    old.impl()->autograd = std::make_unique<AutogradMeta>(*self.impl()->autograd);
  }
  return old;
}

Tensor without_overlap(const Tensor& self, const Tensor& other) {
  const TensorImpl& a = *self.impl();
  const TensorImpl& b = *other.impl();
  if (a.storage != b.storage || self.numel() == 0 || other.numel() == 0) return other;
  const bool same = a.offset == b.offset && a.shape == b.shape && a.strides == b.strides;
  return same && a.dtype == b.dtype ? other : other.clone();
}

}  // namespace wick
