#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "wick/core/tensor.h"

// What makes tensors, and reads their elements. wick/core/tensor.h includes this.
namespace wick {

/// Uninitialised memory.
Tensor empty(const Shape& shape, Dtype dtype = kFloat32, Device device = kCpu,
             MemoryFormat format = MemoryFormat::kContiguous);
/// Uninitialised, laid out by `strides`, which must be dense (a permutation of row-major ones).
Tensor empty_strided(const Shape& shape, const Strides& strides, Dtype dtype, Device device);
/// Uninitialised, with `like`'s shape and device, its layout if that is dense, and its dtype unless
/// another is given.
Tensor empty_like(const Tensor& like, std::optional<Dtype> dtype = {});
/// Of zeros, of ones, or of `value`.
Tensor zeros(const Shape& shape, Dtype dtype = kFloat32, Device device = kCpu);
Tensor ones(const Shape& shape, Dtype dtype = kFloat32, Device device = kCpu);
Tensor full(const Shape& shape, Scalar value, Dtype dtype = kFloat32, Device device = kCpu);
/// The same with `like`'s shape, dtype, device and layout.
Tensor zeros_like(const Tensor& like);
Tensor ones_like(const Tensor& like);
Tensor full_like(const Tensor& like, Scalar value);
/// start, start + step, ... below stop; by default int64, or float32 if one of them is not whole.
Tensor arange(Scalar start, Scalar stop, Scalar step = 1, std::optional<Dtype> dtype = {},
              Device device = kCpu);
/// 0, 1, ... below stop.
inline Tensor arange(Scalar stop, std::optional<Dtype> dtype = {}, Device device = kCpu) {
  return arange(0, stop, 1, dtype, device);
}
/// `steps` numbers from `start` to `stop`, both included, evenly apart. For an integer dtype start
/// and stop lose their fractions first, as do the numbers then.
Tensor linspace(double start, double stop, int64_t steps, Dtype dtype = kFloat32,
                Device device = kCpu);
/// The powers of `base` with the exponents linspace(start, stop, steps).
Tensor logspace(double start, double stop, int64_t steps, double base = 10, Dtype dtype = kFloat32,
                Device device = kCpu);
/// Ones on the diagonal of a matrix of zeros, square unless `columns` is given.
Tensor eye(int64_t rows, std::optional<int64_t> columns = {}, Dtype dtype = kFloat32,
           Device device = kCpu);
/// A tensor of rank 0.
Tensor scalar_tensor(Scalar value, Dtype dtype = kFloat32, Device device = kCpu);

/// A tensor on memory of the caller's, without copying. The caller keeps the memory alive, or
/// passes `release`, which is called when the last tensor has freed it. Row-major unless `strides`
/// are given.
Tensor from_blob(void* data, const Shape& shape, Dtype dtype, std::function<void()> release = {},
                 std::optional<Strides> strides = {}, Device device = kCpu);
/// A tensor of `shape` (default: one axis) that shares the vector's memory; error if the number of
/// elements differs. The vector must outlive it.
template <class T>
Tensor as_tensor(std::vector<T>& values, std::optional<Shape> shape = {}) {
  const Shape s = shape.value_or(Shape{static_cast<int64_t>(values.size())});
  WICK_CHECK(s.numel() == static_cast<int64_t>(values.size()),
             "as_tensor: wrong number of elements: got ", values.size(), ", expected ", s.numel(),
             " for shape ", s);
  return from_blob(values.data(), s, dtype_of<T>);
}
/// A copy of `values` as a tensor of `shape` (default: one axis).
template <class T>
Tensor tensor(std::span<const T> values, std::optional<Shape> shape = {}, Device device = kCpu) {
  const Shape s = shape.value_or(Shape{static_cast<int64_t>(values.size())});
  WICK_CHECK(s.numel() == static_cast<int64_t>(values.size()),
             "tensor: wrong number of elements: got ", values.size(), ", expected ", s.numel(),
             " for shape ", s);
  Tensor host = empty(s, dtype_of<T>);
  for (size_t i = 0; i < values.size(); ++i) host.data<T>()[i] = values[i];
  return host.to(device);
}
template <class T>
Tensor tensor(std::initializer_list<T> values, std::optional<Shape> shape = {},
              Device device = kCpu) {
  return tensor(std::span<const T>(values.begin(), values.size()), shape, device);
}
template <class T>
Tensor tensor(const std::vector<T>& values, std::optional<Shape> shape = {}, Device device = kCpu) {
  return tensor(std::span<const T>(values), shape, device);
}

template <class T>
T Tensor::item() const {
  const Scalar value = item_scalar();
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(value.to_double());
  return static_cast<T>(value.to_int64());
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  const Tensor host = detach().cpu().contiguous();
  const T* first = host.data<T>();
  return std::vector<T>(first, first + host.numel());
}

}  // namespace wick
