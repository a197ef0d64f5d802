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

template <int kCount, class T>
__device__ Pack<T, kCount> load_pack(const T* p) {
#ifdef WICK_SIM_COUNT
  return sim::load_whole(reinterpret_cast<const Pack<T, kCount>*>(p));
#else
  return *reinterpret_cast<const Pack<T, kCount>*>(p);
#endif
}
template <int kCount, class T>
__device__ void store_pack(T* p, const Pack<T, kCount>& values) {
#ifdef WICK_SIM_COUNT
  sim::store_whole(reinterpret_cast<Pack<T, kCount>*>(p), values);
#else
  *reinterpret_cast<Pack<T, kCount>*>(p) = values;
#endif
}

/// Whether packs of `count` elements may be used from `p` on.
template <class T>
bool is_aligned(const T* p, int count) {
  return reinterpret_cast<uintptr_t>(p) % (sizeof(T) * static_cast<unsigned>(count)) == 0;
}

}  // namespace wick::cuda
