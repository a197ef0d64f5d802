#pragma once

// What CUDA's compiler knows by itself, for kernels that the host's compiler builds: indices,
// barriers, warp functions, atomics. Functions that wait for other threads are macros, so that an
// error can name their line.

#include <math.h>

#include <cstdint>
#include <type_traits>

#include "wick/kernels/sim/cuda_runtime.h"
#include "wick/kernels/sim/geometry.h"

#define __global__
#define __device__
#define __host__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

namespace wick::sim {

/// A line of device code.
struct Site {
  const char* file;
  int line;
};

/// The thread that runs now.
struct Here {
  uint3 thread, block;
  dim3 block_size, grid_size;
};
extern constinit Here here;

void sync_threads(Site site);
/// Returns how many threads of the block gave true.
int sync_threads_count(Site site, bool value);
void sync_warp(Site site, unsigned mask);
/// Every lane of `mask` gives `bits` and gets those of lane `source`.
uint64_t shuffle(Site site, unsigned mask, uint64_t bits, int source);
/// The lanes of `mask` that gave true.
unsigned ballot(Site site, unsigned mask, bool value);
int lane();
void fence();
/// The block's own copy of a variable in shared memory that `key` names.
void* shared_variable(const void* key, size_t bytes);
void* dynamic_shared();
/// Ends the kernel with an error: a failed assertion.
[[noreturn]] void trap(Site site, const char* what);

template <class T>
uint64_t to_bits(T value) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  return bits;
}
template <class T>
T shuffle_value(Site site, unsigned mask, T value, int source) {
  const uint64_t bits = shuffle(site, mask, to_bits(value), source);
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}
template <class T>
T shuffle_to(Site site, unsigned mask, T value, int source, int width = 32) {
  const int first = lane() / width * width;
  return shuffle_value(site, mask, value, first + source % width);
}
template <class T>
T shuffle_xor(Site site, unsigned mask, T value, int bits, int width = 32) {
  const int from = lane() ^ bits;
  return shuffle_value(site, mask, value, from / width > lane() / width ? lane() : from);
}
template <class T>
T shuffle_up(Site site, unsigned mask, T value, int distance, int width = 32) {
  const int from = lane() - distance;
  return shuffle_value(site, mask, value, from < lane() / width * width ? lane() : from);
}
template <class T>
T shuffle_down(Site site, unsigned mask, T value, int distance, int width = 32) {
  const int from = lane() + distance;
  return shuffle_value(site, mask, value, from >= (lane() / width + 1) * width ? lane() : from);
}

template <class T, size_t kCount>
T (&shared_array(const void* key))
[kCount] {
  return *static_cast<T(*)[kCount]>(shared_variable(key, sizeof(T) * kCount));
}

template <class T, class Function>
T atomic_update(T* address, Function next) {
  T before, after;
  __atomic_load(address, &before, __ATOMIC_RELAXED);
  do {
    after = next(before);
  } while (!__atomic_compare_exchange(address, &before, &after, false, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED));
  return before;
}

}  // namespace wick::sim

#define WICK_SIM_SITE \
  ::wick::sim::Site { __FILE__, __LINE__ }

#define threadIdx (::wick::sim::here.thread)
#define blockIdx (::wick::sim::here.block)
#define blockDim (::wick::sim::here.block_size)
#define gridDim (::wick::sim::here.grid_size)

#define __syncthreads() ::wick::sim::sync_threads(WICK_SIM_SITE)
#define __syncthreads_count(value) ::wick::sim::sync_threads_count(WICK_SIM_SITE, (value) != 0)
#define __syncthreads_or(value) (__syncthreads_count(value) != 0)
#define __syncwarp(mask) ::wick::sim::sync_warp(WICK_SIM_SITE, mask)
#define __shfl_sync(mask, ...) ::wick::sim::shuffle_to(WICK_SIM_SITE, mask, __VA_ARGS__)
#define __shfl_xor_sync(mask, ...) ::wick::sim::shuffle_xor(WICK_SIM_SITE, mask, __VA_ARGS__)
#define __shfl_up_sync(mask, ...) ::wick::sim::shuffle_up(WICK_SIM_SITE, mask, __VA_ARGS__)
#define __shfl_down_sync(mask, ...) ::wick::sim::shuffle_down(WICK_SIM_SITE, mask, __VA_ARGS__)
#define __ballot_sync(mask, value) ::wick::sim::ballot(WICK_SIM_SITE, mask, (value) != 0)
#define __any_sync(mask, value) (__ballot_sync(mask, value) != 0)
#define __all_sync(mask, value) (__ballot_sync(mask, value) == (mask))
#define __threadfence() ::wick::sim::fence()
#define __trap() ::wick::sim::trap(WICK_SIM_SITE, "the kernel trapped")

#ifdef WICK_SIM_COUNT
namespace wick::sim {

// What a GPU moves as one piece of up to 16 bytes, the host's compiler would move as several: not
// through a register that it cannot see into.
using Piece16 = unsigned char __attribute__((vector_size(16), may_alias));
using Piece8 [[gnu::may_alias]] = uint64_t;
using Piece4 [[gnu::may_alias]] = uint32_t;

template <class Piece, class P>
inline void move_pieces(P* to, const P* from) {
  for (size_t i = 0; i < sizeof(P) / sizeof(Piece); ++i) {
    Piece piece = reinterpret_cast<const Piece*>(from)[i];
    if constexpr (sizeof(Piece) == 16) {
      asm("" : "+x"(piece));
    } else {
      asm("" : "+r"(piece));
    }
    reinterpret_cast<Piece*>(to)[i] = piece;
  }
}
template <class P>
inline void move_whole(P* to, const P* from) {
  if constexpr (sizeof(P) % 16 == 0) {
    move_pieces<Piece16>(to, from);
  } else if constexpr (sizeof(P) % 8 == 0) {
    move_pieces<Piece8>(to, from);
  } else if constexpr (sizeof(P) % 4 == 0) {
    move_pieces<Piece4>(to, from);
  } else {
    *to = *from;
  }
}
template <class P>
inline P load_whole(const P* from) {
  P value;
  move_whole(&value, from);
  return value;
}
template <class P>
inline void store_whole(P* to, const P& value) {
  move_whole(to, &value);
}

}  // namespace wick::sim
#endif

#define WICK_SHARED(type, name, count) \
  static char name##_key;              \
  auto& name = ::wick::sim::shared_array<type, count>(&name##_key)
#define WICK_DYNAMIC_SHARED(type, name) \
  type* name = static_cast<type*>(::wick::sim::dynamic_shared())

template <class T>
inline T atomicAdd(T* address, std::type_identity_t<T> value) {
  return ::wick::sim::atomic_update(address, [=](T before) { return before + value; });
}
template <class T>
inline T atomicMax(T* address, std::type_identity_t<T> value) {
  return ::wick::sim::atomic_update(address,
                                    [=](T before) { return before > value ? before : value; });
}
template <class T>
inline T atomicMin(T* address, std::type_identity_t<T> value) {
  return ::wick::sim::atomic_update(address,
                                    [=](T before) { return before < value ? before : value; });
}
template <class T>
inline T atomicOr(T* address, std::type_identity_t<T> value) {
  return ::wick::sim::atomic_update(address, [=](T before) { return before | value; });
}
template <class T>
inline T atomicExch(T* address, std::type_identity_t<T> value) {
  return ::wick::sim::atomic_update(address, [=](T) { return value; });
}
template <class T>
inline T atomicCAS(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> desired) {
  return ::wick::sim::atomic_update(
      address, [=](T before) { return before == expected ? desired : before; });
}

template <class T>
inline T __ldg(const T* address) {
  return *address;
}
template <class T>
inline T __ldcs(const T* address) {
  return *address;
}
template <class T>
inline void __stcs(T* address, T value) {
  *address = value;
}
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline uint64_t __umul64hi(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>((static_cast<Wide>(a) * b) >> 64);
}
