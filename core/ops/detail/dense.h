#pragma once

#include "wick/core/tensor.h"

namespace wick {

/// `x` if its elements fill their memory without gaps, in any order of the axes; else a row-major
/// copy.
inline Tensor dense(const Tensor& x) {
  return is_dense(x.shape(), x.strides()) ? x : x.contiguous();
}

/// `x`, of the shape of the dense tensor `like`, with its elements in the same order in memory.
inline Tensor laid_out_like(const Tensor& like, const Tensor& x) {
  bool same = true;
  for (int axis = 0; axis < x.rank(); ++axis) {
    same = same && (x.shape()[axis] == 1 || x.strides()[axis] == like.strides()[axis]);
  }
  if (same) return x;
  Tensor copy = empty_like(like, x.dtype());
  copy.copy_(x);
  return copy;
}

}  // namespace wick
