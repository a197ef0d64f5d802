#pragma once

#include "wick/kernels/cuda/common/convert.h"
#include "wick/kernels/cuda/common/functor_call.h"
#include "wick/kernels/cuda/common/offsets.h"
#include "wick/kernels/cuda/common/real_special.h"

// What the kernels that chain_source() writes are made of.

/// Behind a kernel that is compiled at run time, which has one parameter, a struct: what the
/// simulated GPU's driver finds of it.
#ifdef WICK_SIM
#define WICK_EXPORT_KERNEL(kernel, Arguments)                                          \
  extern "C" __attribute__((visibility("default"))) const size_t kernel##_bytes;       \
  extern "C" __attribute__((visibility("default"))) void kernel##_thread(const void*); \
  const size_t kernel##_bytes = sizeof(Arguments);                                     \
  void kernel##_thread(const void* arguments) { kernel(*static_cast<const Arguments*>(arguments)); }
#else
#define WICK_EXPORT_KERNEL(kernel, Arguments)
#endif

namespace wick::cuda {

inline constexpr int kChainRank = 8;

/// Where the elements of a chain's views are, of which `kStrided` are not dense. The host writes it
/// word by word.
template <int kViews, int kStrided>
struct ChainPlaces {
  int64_t numel, rank;
  int64_t is_aligned;  // whether packs may be used for all dense views
  uint64_t zero;       // 0, which the compiler does not know
  int64_t sizes[kChainRank];
  void* views[kViews];
  int64_t strides[kStrided][kChainRank];
};
template <int kViews>
struct ChainPlaces<kViews, 0> {
  int64_t numel, rank, is_aligned;
  uint64_t zero;
  int64_t sizes[kChainRank];
  void* views[kViews];
};

/// Where kCount neighbouring elements are in the views that are not dense.
template <int kCount, int kStrided>
struct ChainOffsets {
  int64_t offset[kCount][kStrided];

  template <class Places>
  __device__ ChainOffsets(const Places& places, int64_t position) {
    const bool within_row = places.sizes[0] % kCount == 0;
    const Offsets<kStrided> first(places, position);
    WICK_UNROLL
    for (int j = 0; j < kCount; ++j) {
      if (within_row) {
        for (int v = 0; v < kStrided; ++v) {
          offset[j][v] = first.offset[v] + j * places.strides[v][0];
        }
      } else {
        const Offsets<kStrided> at(places, position + j);
        for (int v = 0; v < kStrided; ++v) offset[j][v] = at.offset[v];
      }
    }
  }
};

// `value`, of which the compiler knows nothing more. So an op of a chain computes with its inputs
// as it does alone: its additions are not joined with the multiplications of the op before.
__device__ inline float opaque(float value, uint64_t zero) {
  return __builtin_bit_cast(float,
                            __builtin_bit_cast(uint32_t, value) ^ static_cast<uint32_t>(zero));
}
__device__ inline double opaque(double value, uint64_t zero) {
  return __builtin_bit_cast(double, __builtin_bit_cast(uint64_t, value) ^ zero);
}
__device__ inline int64_t opaque(int64_t value, uint64_t) { return value; }

/// f(x...) as To, computed on T by the functions that are used for results of S.
template <class To, class S, class T, class F, class... X>
__device__ To chain_step(const F& f, uint64_t zero, X... x) {
  const T operands[] = {opaque(convert<T>(x), zero)...};
  return convert<To>(apply_functor<S>(f, operands));
}

}  // namespace wick::cuda
