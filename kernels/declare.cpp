#include "wick/kernels/declare.h"

#include <cstdlib>
#include <string_view>

#include "wick/core/base/check.h"
#include "wick/kernels/elementwise_chain.h"

namespace wick {

CpuIsa cpu_isa() {
#ifdef WICK_WITHOUT_AVX2
  return CpuIsa::kAvx512;
#else
  static const CpuIsa isa = [] {
    const char* wanted = std::getenv("WICK_CPU_ISA");
    if (wanted != nullptr && std::string_view(wanted) == "avx2") return CpuIsa::kAvx2;
    const bool v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return v4 ? CpuIsa::kAvx512 : CpuIsa::kAvx2;
  }();
  return isa;
#endif
}

ElementwiseCapture*& elementwise_capture() {
  static thread_local ElementwiseCapture* capture = nullptr;
  return capture;
}

void ElementwiseCapture::note(const ElementwiseCall& call, const View* inputs) {
  ++count;
  last = call;
  for (int k = 0; k < call.arity; ++k) last.x[k] = inputs[k];
}

void no_cuda_in_this_build() { detail::fail("cuda: this build has no GPU support (WICK_GPU=off)"); }

}  // namespace wick
