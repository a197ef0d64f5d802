// Tensor's members for functions.
#include "wick/core/ops/activation.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/index.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/slice.h"
#include "wick/core/ops/softmax.h"
#include "wick/core/ops/sort.h"
#include "wick/core/ops/view.h"

namespace wick {

Tensor Tensor::add(const Tensor& y, Scalar alpha) const { return wick::add(*this, y, alpha); }
Tensor Tensor::add(Scalar y) const { return wick::add(*this, y); }
Tensor Tensor::sub(const Tensor& y, Scalar alpha) const { return wick::sub(*this, y, alpha); }
Tensor Tensor::sub(Scalar y) const { return wick::sub(*this, y); }
Tensor Tensor::mul(const Tensor& y) const { return wick::mul(*this, y); }
Tensor Tensor::mul(Scalar y) const { return wick::mul(*this, y); }
Tensor Tensor::div(const Tensor& y) const { return wick::div(*this, y); }
Tensor Tensor::div(Scalar y) const { return wick::div(*this, y); }
Tensor Tensor::pow(const Tensor& exponent) const { return wick::pow(*this, exponent); }
Tensor Tensor::pow(Scalar exponent) const { return wick::pow(*this, exponent); }
Tensor Tensor::maximum(const Tensor& y) const { return wick::maximum(*this, y); }
Tensor Tensor::minimum(const Tensor& y) const { return wick::minimum(*this, y); }
Tensor Tensor::clamp(std::optional<Scalar> low, std::optional<Scalar> high) const {
  return wick::clamp(*this, low, high);
}
Tensor Tensor::neg() const { return wick::neg(*this); }
Tensor Tensor::abs() const { return wick::abs(*this); }
Tensor Tensor::sign() const { return wick::sign(*this); }
Tensor Tensor::square() const { return wick::square(*this); }
Tensor Tensor::sqrt() const { return wick::sqrt(*this); }
Tensor Tensor::rsqrt() const { return wick::rsqrt(*this); }
Tensor Tensor::reciprocal() const { return wick::reciprocal(*this); }
Tensor Tensor::exp() const { return wick::exp(*this); }
Tensor Tensor::expm1() const { return wick::expm1(*this); }
Tensor Tensor::log() const { return wick::log(*this); }
Tensor Tensor::log1p() const { return wick::log1p(*this); }
Tensor Tensor::log2() const { return wick::log2(*this); }
Tensor Tensor::sin() const { return wick::sin(*this); }
Tensor Tensor::cos() const { return wick::cos(*this); }
Tensor Tensor::tan() const { return wick::tan(*this); }
Tensor Tensor::atan2(const Tensor& x) const { return wick::atan2(*this, x); }
Tensor Tensor::tanh() const { return wick::tanh(*this); }
Tensor Tensor::erf() const { return wick::erf(*this); }
Tensor Tensor::sigmoid() const { return wick::sigmoid(*this); }
Tensor Tensor::relu() const { return wick::relu(*this); }
Tensor Tensor::floor() const { return wick::floor(*this); }
Tensor Tensor::ceil() const { return wick::ceil(*this); }
Tensor Tensor::round() const { return wick::round(*this); }
Tensor Tensor::trunc() const { return wick::trunc(*this); }
Tensor Tensor::eq(const Tensor& y) const { return wick::eq(*this, y); }
Tensor Tensor::eq(Scalar y) const { return wick::eq(*this, y); }
Tensor Tensor::ne(const Tensor& y) const { return wick::ne(*this, y); }
Tensor Tensor::ne(Scalar y) const { return wick::ne(*this, y); }
Tensor Tensor::lt(const Tensor& y) const { return wick::lt(*this, y); }
Tensor Tensor::lt(Scalar y) const { return wick::lt(*this, y); }
Tensor Tensor::le(const Tensor& y) const { return wick::le(*this, y); }
Tensor Tensor::le(Scalar y) const { return wick::le(*this, y); }
Tensor Tensor::gt(const Tensor& y) const { return wick::gt(*this, y); }
Tensor Tensor::gt(Scalar y) const { return wick::gt(*this, y); }
Tensor Tensor::ge(const Tensor& y) const { return wick::ge(*this, y); }
Tensor Tensor::ge(Scalar y) const { return wick::ge(*this, y); }
Tensor Tensor::logical_and(const Tensor& y) const { return wick::logical_and(*this, y); }
Tensor Tensor::logical_or(const Tensor& y) const { return wick::logical_or(*this, y); }
Tensor Tensor::logical_xor(const Tensor& y) const { return wick::logical_xor(*this, y); }
Tensor Tensor::logical_not() const { return wick::logical_not(*this); }
Tensor Tensor::isnan() const { return wick::isnan(*this); }
Tensor Tensor::isinf() const { return wick::isinf(*this); }
Tensor Tensor::isfinite() const { return wick::isfinite(*this); }
bool Tensor::equal(const Tensor& y) const { return wick::equal(*this, y); }
bool Tensor::allclose(const Tensor& y, double rtol, double atol, bool equal_nan) const {
  return wick::allclose(*this, y, rtol, atol, equal_nan);
}
Tensor Tensor::masked_fill(const Tensor& mask, Scalar value) const {
  return wick::masked_fill(*this, mask, value);
}
Tensor Tensor::sum(const Shape& axes, bool keepdim) const {
  return wick::sum(*this, axes, keepdim);
}
Tensor Tensor::mean(const Shape& axes, bool keepdim) const {
  return wick::mean(*this, axes, keepdim);
}
Tensor Tensor::prod(const Shape& axes, bool keepdim) const {
  return wick::prod(*this, axes, keepdim);
}
Tensor Tensor::var(const Shape& axes, int64_t correction, bool keepdim) const {
  return wick::var(*this, axes, correction, keepdim);
}
Tensor Tensor::std(const Shape& axes, int64_t correction, bool keepdim) const {
  return wick::stddev(*this, axes, correction, keepdim);
}
Tensor Tensor::norm(double ord, const Shape& axes, bool keepdim) const {
  return wick::norm(*this, ord, axes, keepdim);
}
Tensor Tensor::logsumexp(const Shape& axes, bool keepdim) const {
  return wick::logsumexp(*this, axes, keepdim);
}
Tensor Tensor::amax(const Shape& axes, bool keepdim) const {
  return wick::amax(*this, axes, keepdim);
}
Tensor Tensor::amin(const Shape& axes, bool keepdim) const {
  return wick::amin(*this, axes, keepdim);
}
Tensor Tensor::max() const { return wick::max(*this); }
Tensor Tensor::min() const { return wick::min(*this); }
Sorted Tensor::max(int64_t axis, bool keepdim) const { return wick::max(*this, axis, keepdim); }
Sorted Tensor::min(int64_t axis, bool keepdim) const { return wick::min(*this, axis, keepdim); }
Tensor Tensor::argmax(std::optional<int64_t> axis, bool keepdim) const {
  return wick::argmax(*this, axis, keepdim);
}
Tensor Tensor::argmin(std::optional<int64_t> axis, bool keepdim) const {
  return wick::argmin(*this, axis, keepdim);
}
Tensor Tensor::any(const Shape& axes, bool keepdim) const {
  return wick::any(*this, axes, keepdim);
}
Tensor Tensor::all(const Shape& axes, bool keepdim) const {
  return wick::all(*this, axes, keepdim);
}
Tensor Tensor::softmax(int64_t axis) const { return wick::softmax(*this, axis); }
Tensor Tensor::log_softmax(int64_t axis) const { return wick::log_softmax(*this, axis); }
Tensor Tensor::cumsum(int64_t axis) const { return wick::cumsum(*this, axis); }
Tensor Tensor::cumprod(int64_t axis) const { return wick::cumprod(*this, axis); }
Sorted Tensor::sort(int64_t axis, bool descending) const {
  return wick::sort(*this, axis, descending);
}
Tensor Tensor::argsort(int64_t axis, bool descending) const {
  return wick::argsort(*this, axis, descending);
}
Sorted Tensor::topk(int64_t k, int64_t axis, bool largest) const {
  return wick::topk(*this, k, axis, largest);
}
Tensor Tensor::matmul(const Tensor& other) const { return wick::matmul(*this, other); }
Tensor Tensor::mm(const Tensor& other) const { return wick::mm(*this, other); }
Tensor Tensor::bmm(const Tensor& other) const { return wick::bmm(*this, other); }
Tensor Tensor::dot(const Tensor& other) const { return wick::dot(*this, other); }
Tensor Tensor::outer(const Tensor& other) const { return wick::outer(*this, other); }
Tensor Tensor::index_select(int64_t axis, const Tensor& index) const {
  return wick::index_select(*this, axis, index);
}
Tensor Tensor::index_add(int64_t axis, const Tensor& index, const Tensor& source) const {
  return wick::index_add(*this, axis, index, source);
}
Tensor Tensor::gather(int64_t axis, const Tensor& index) const {
  return wick::gather(*this, axis, index);
}
Tensor Tensor::scatter(int64_t axis, const Tensor& index, const Tensor& source) const {
  return wick::scatter(*this, axis, index, source);
}
Tensor Tensor::scatter_add(int64_t axis, const Tensor& index, const Tensor& source) const {
  return wick::scatter_add(*this, axis, index, source);
}
Tensor Tensor::take_along_axis(const Tensor& index, int64_t axis) const {
  return wick::take_along_axis(*this, index, axis);
}
Tensor Tensor::masked_select(const Tensor& mask) const { return wick::masked_select(*this, mask); }
Tensor Tensor::nonzero() const { return wick::nonzero(*this); }
Tensor Tensor::repeat(const Shape& times) const { return wick::repeat(*this, times); }
Tensor Tensor::tril(int64_t diagonal) const { return wick::tril(*this, diagonal); }
Tensor Tensor::triu(int64_t diagonal) const { return wick::triu(*this, diagonal); }
Tensor Tensor::flip(const Shape& axes) const { return wick::flip(*this, axes); }
Tensor Tensor::roll(int64_t shift, int64_t axis) const { return wick::roll(*this, shift, axis); }
std::vector<Tensor> Tensor::split(const std::vector<int64_t>& sizes, int64_t axis) const {
  return wick::split(*this, sizes, axis);
}
std::vector<Tensor> Tensor::unbind(int64_t axis) const { return wick::unbind(*this, axis); }
Tensor Tensor::unflatten(int64_t axis, const Shape& sizes) const {
  return wick::unflatten(*this, axis, sizes);
}
Tensor Tensor::movedim(const Shape& from, const Shape& to) const {
  return wick::movedim(*this, from, to);
}
Tensor Tensor::diagonal(int64_t offset, int64_t axis0, int64_t axis1) const {
  return wick::diagonal(*this, offset, axis0, axis1);
}

}  // namespace wick
