#pragma once

#include "wick/core/base/device.h"
#include "wick/core/base/view.h"

// Kernels are plain functions on views. A family's header names each once; its definitions are in
//   cpu/<family>.cpp   hand-written: built once per instruction set, in namespace WICK_ISA, which
//                      is cpu_avx2 or cpu_avx512; in its folders: built once, in namespace cpu
//   cuda/<family>.cu   in namespace cuda
// A definition whose signature drifts from its declaration is an error of the compiler
// (-Wmissing-declarations), a missing one an error of the linker.

// clang-format off
/// Declares a kernel written by hand: `WICK_KERNEL(name, (const View& x, const View& y));`
#define WICK_KERNEL(name, ...)               \
  namespace cpu_avx2 { void name __VA_ARGS__; }   \
  namespace cpu_avx512 { void name __VA_ARGS__; } \
  namespace cuda { void name __VA_ARGS__; }       \
  static_assert(true)

/// Declares a kernel that a vendor library computes.
#define WICK_LIBRARY_KERNEL(name, ...)      \
  namespace cpu { void name __VA_ARGS__; }  \
  namespace cuda { void name __VA_ARGS__; } \
  static_assert(true)
// clang-format on

namespace wick {

namespace cpu {}
namespace cuda {}
namespace cpu_avx2 {
using namespace cpu;
}
namespace cpu_avx512 {
using namespace cpu;
}

/// Instruction sets that hand-written CPU kernels are built for.
enum class CpuIsa { kAvx2, kAvx512 };

/// The best one this processor has, or the lesser one that WICK_CPU_ISA=avx2 asks for.
CpuIsa cpu_isa();

[[noreturn]] void no_cuda_in_this_build();

}  // namespace wick

#ifdef WICK_HAS_CUDA
#define WICK_CALL_CUDA(...) ::wick::cuda::__VA_ARGS__
#define WICK_CALL_CUDA_INTO(result, ...) result = ::wick::cuda::__VA_ARGS__
#else
#define WICK_CALL_CUDA(...) ::wick::no_cuda_in_this_build()
#define WICK_CALL_CUDA_INTO(result, ...) ::wick::no_cuda_in_this_build()
#endif

#ifdef WICK_WITHOUT_AVX2  // built with a sanitizer on a machine that has AVX-512, to be run there
#define WICK_CALL_CPU(...) ::wick::cpu_avx512::__VA_ARGS__
#else
#define WICK_CALL_CPU(...)                                                              \
  (::wick::cpu_isa() == ::wick::CpuIsa::kAvx512 ? (void)::wick::cpu_avx512::__VA_ARGS__ \
                                                : (void)::wick::cpu_avx2::__VA_ARGS__)
#endif

/// Calls a kernel where `device` is: `WICK_DISPATCH(x.device(), softmax_forward(x, y));`
#define WICK_DISPATCH(device, ...) \
  do {                             \
    if ((device).is_cuda()) {      \
      WICK_CALL_CUDA(__VA_ARGS__); \
    } else {                       \
      WICK_CALL_CPU(__VA_ARGS__);  \
    }                              \
  } while (false)
