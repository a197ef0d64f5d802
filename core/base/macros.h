#pragma once

// Marks functions that kernels built for one instruction set include: always inlined, so that no
// out-of-line copy compiled for a newer processor can be picked by the linker for an older one.
#define WICK_INLINE inline __attribute__((always_inline))

// The same for functions that device code calls too.
#ifdef __CUDACC__
#define WICK_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define WICK_HOST_DEVICE WICK_INLINE
#endif
