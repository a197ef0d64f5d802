#pragma once

#include "wick/core/base/dtype.h"
#include "wick/kernels/cpu/simd.h"

// Rows of elements from one dtype to another.
namespace wick::WICK_ISA {

/// Converts `n` elements; strides are in elements. Rounds to nearest for floating types and towards
/// zero for integers, which wrap; to bool: "is not 0".
using RowConverter = void (*)(void* to, int64_t to_stride, const void* from, int64_t from_stride,
                              int64_t n);
RowConverter row_converter(Dtype to, Dtype from);

/// Copies `bytes` past the caches. A stream_fence() must follow.
WICK_INLINE void stream_bytes(void* to, const void* from, int64_t bytes) {
  char* out = static_cast<char*>(to);
  const char* in = static_cast<const char*>(from);
  constexpr int64_t kWidth = sizeof(VecF);
  int64_t head = static_cast<int64_t>(-reinterpret_cast<uintptr_t>(out) & (kWidth - 1));
  if (head > bytes) head = bytes;
  __builtin_memcpy(out, in, static_cast<size_t>(head));
  int64_t i = head;
  for (; i + kWidth <= bytes; i += kWidth) {
    VecF v;
    __builtin_memcpy(&v, in + i, sizeof v);
    v.stream(reinterpret_cast<float*>(out + i));
  }
  __builtin_memcpy(out + i, in + i, static_cast<size_t>(bytes - i));
}

/// Fewer elements than this are not worth a second thread.
constexpr int64_t kParallelGrain = 16384;

}  // namespace wick::WICK_ISA
