#pragma once

#include "wick/core/apply.h"
#include "wick/core/tensor.h"

// What functions of matrices, the last two axes of a tensor, have in common.
namespace wick::linalg {

/// As PyTorch has it: on a GPU mixed precision leaves the inputs as they are.
inline constexpr AutocastPolicy kInFull = {.cpu = Autocast::kToFloat32};

inline Tensor transposed(const Tensor& a) { return a.transpose(-2, -1); }

/// The axes before the matrix.
inline Shape batch_of(const Tensor& a) {
  Shape batch;
  for (int i = 0; i + 2 < a.rank(); ++i) batch.push_back(a.size(i));
  return batch;
}

inline Shape with(Shape batch, const Shape& rest) {
  for (const int64_t size : rest) batch.push_back(size);
  return batch;
}

inline void check_full(const char* op, const Tensor& a) {
  WICK_CHECK(a.dtype() == kFloat32 || a.dtype() == kFloat64, op, ": needs float32 or float64: got ",
             a.dtype());
}

inline void check_matrix(const char* op, const Tensor& a) {
  WICK_CHECK(a.rank(op) >= 2, op, ": needs matrices: got shape ", a.shape());
}

/// A contiguous copy, or `a` itself, on the CPU: [batch, m, n].
inline Tensor on_host(const char* op, const Tensor& a) {
  check_full(op, a);
  check_matrix(op, a);
  return a.cpu().contiguous().view({batch_of(a).numel(), a.size(-2), a.size(-1)});
}

inline void check_square(const char* op, const Tensor& a) {
  check_matrix(op, a);
  WICK_CHECK(a.size(-1) == a.size(-2), op, ": needs square matrices: got shape ", a.shape());
}

}  // namespace wick::linalg
