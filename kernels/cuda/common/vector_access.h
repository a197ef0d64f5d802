#pragma once

#include "wick/core/base/dtype.h"
#include "wick/kernels/cuda/common/device_code.h"

namespace wick::cuda {

/// kCount neighbouring elements, moved as one piece of up to 16 bytes where they are aligned to it.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount < 16 ? sizeof(T) * kCount : 16) Pack {
  T values[kCount];
  __device__ T& operator[](int i) { return values[i]; }
  __device__ const T& operator[](int i) const { return values[i]; }
};

/// Elements of T in 16 bytes.
template <class T>
inline constexpr int kPackSize = static_cast<int>(16 / sizeof(T));

/// What is at `p`, as one piece or several of 16 bytes.
template <class Piece>
__device__ Piece load_piece(const void* p) {
#ifdef WICK_SIM_COUNT
  return sim::load_whole(static_cast<const Piece*>(p));
#else
  return *static_cast<const Piece*>(p);
#endif
}
template <int kCount, class T>
__device__ Pack<T, kCount> load_pack(const T* p) {
  return load_piece<Pack<T, kCount>>(p);
}

#ifdef __CUDA_ARCH__
/// Into global memory. nvcc takes the assignment of a pack apart, into a store per element; an
/// instruction by name stays whole.
template <class Piece>
__device__ void store_whole(Piece* p, const Piece& piece) {
  constexpr int kWords = sizeof(Piece) / 4;
  if constexpr (kWords == 0) {
    *p = piece;
  } else {
    struct Words {
      uint32_t w[kWords];
    };
    const Words v = __builtin_bit_cast(Words, piece);
    const size_t to = __cvta_generic_to_global(p);
    if constexpr (kWords == 1) {
      asm volatile("st.global.b32 [%0], %1;" ::"l"(to), "r"(v.w[0]) : "memory");
    } else if constexpr (kWords == 2) {
      asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(v.w[0]), "r"(v.w[1])
                   : "memory");
    } else {
      WICK_UNROLL
      for (int i = 0; i < kWords; i += 4) {
        asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to + i * 4), "r"(v.w[i]),
                     "r"(v.w[i + 1]), "r"(v.w[i + 2]), "r"(v.w[i + 3])
                     : "memory");
      }
    }
  }
}
#endif

/// `p` is in global memory.
template <int kCount, class T>
__device__ void store_pack(T* p, const Pack<T, kCount>& values) {
  auto* const to = reinterpret_cast<Pack<T, kCount>*>(p);
#if defined(WICK_SIM_COUNT)
  sim::store_whole(to, values);
#elif defined(__CUDA_ARCH__)
  store_whole(to, values);
#else
  *to = values;
#endif
}

/// Whether packs of `count` elements may be used from `p` on.
template <class T>
bool is_aligned(const T* p, int count) {
  return reinterpret_cast<uintptr_t>(p) % (sizeof(T) * static_cast<unsigned>(count)) == 0;
}

}  // namespace wick::cuda
