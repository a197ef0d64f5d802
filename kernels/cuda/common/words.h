#pragma once

#include "wick/core/base/dtype.h"
#include "wick/kernels/cuda/common/vector_access.h"

namespace wick::cuda {

/// 16 bytes that are only moved.
using Word16 = Pack<uint64_t, 2>;

/// Calls `visit(Type<T>{})` with a type of `bytes` (1, 2, 4, 8 or 16) bytes, for elements that are
/// only moved.
template <class Visit>
void visit_words(int64_t bytes, Visit&& visit) {
  switch (bytes) {
    case 1: return visit(Type<uint8_t>{});
    case 2: return visit(Type<uint16_t>{});
    case 4: return visit(Type<uint32_t>{});
    case 8: return visit(Type<uint64_t>{});
    default: return visit(Type<Word16>{});
  }
}

/// The most bytes, up to 16, in which runs of `bytes` from `x` and `y` on can be moved.
inline int64_t widest_word(int64_t bytes, const void* x, const void* y) {
  const auto bits = static_cast<uintptr_t>(bytes) | reinterpret_cast<uintptr_t>(x) |
                    reinterpret_cast<uintptr_t>(y) | 16;
  return static_cast<int64_t>(bits & (~bits + 1));
}

}  // namespace wick::cuda
