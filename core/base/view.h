#pragma once

#include "wick/core/base/device.h"
#include "wick/core/base/dtype.h"
#include "wick/core/base/shape.h"

namespace wick {

/// What a kernel gets to see of a tensor: where its first element is, and how to walk it.
/// Owns nothing. An undefined optional tensor has no data and rank 0.
struct View {
  void* data = nullptr;
  Dtype dtype = Dtype::kFloat32;
  Device device;
  Shape shape;
  Strides strides;

  WICK_INLINE bool defined() const { return data != nullptr; }  // false for an absent tensor
  WICK_INLINE int rank() const { return shape.rank(); }         // number of axes
  WICK_INLINE int64_t numel() const { return shape.numel(); }   // number of elements
  /// The data as elements of type T. Whether `dtype` is that of T is not checked.
  template <class T>
  WICK_INLINE T* as() const {
    return static_cast<T*>(data);
  }
};

}  // namespace wick
