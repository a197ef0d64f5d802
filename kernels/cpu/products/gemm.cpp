#include "wick/kernels/cpu/products/gemm.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "wick/core/base/parallel.h"
#include "wick/kernels/declare.h"

namespace wick::cpu {

namespace {

// Integers: indices and counts.
template <class T>
void multiply_integers(const Product& p, const T* a, const T* b, const T* bias, T* c) {
  const auto [m, n, k] = p.sizes;
  const int64_t columns = n, inner = k;
  parallel_for(m, std::max<int64_t>(1, 32768 / (n * k + 1)), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      T* row = c + i * p.c_row;
      for (int64_t j = 0; j < columns; ++j) {
        T sum = p.accumulate ? row[j] : bias != nullptr ? bias[j] : T(0);
        for (int64_t l = 0; l < inner; ++l) {
          sum = static_cast<T>(sum +
                               a[i * p.a.row + l * p.a.column] * b[l * p.b.row + j * p.b.column]);
        }
        row[j] = sum;
      }
    }
  });
}

template <class T>
void multiply_integers(const Product& p) {
  for (int64_t i = 0; i < p.count; ++i) {
    multiply_integers(p, static_cast<const T*>(p.a.data) + i * p.a_step,
                      static_cast<const T*>(p.b.data) + i * p.b_step, static_cast<const T*>(p.bias),
                      static_cast<T*>(p.c) + i * p.c_step);
  }
}

void multiply(Product p, Workspace& workspace) {
  p.unit = bfloat16_unit();
  switch (p.in) {
    case Dtype::kFloat64:
    case Dtype::kFloat32:
    case Dtype::kBFloat16: return WICK_CALL_CPU(product(p, workspace));
    case Dtype::kInt64: return multiply_integers<int64_t>(p);
    case Dtype::kInt32: return multiply_integers<int32_t>(p);
    case Dtype::kUint8: return multiply_integers<uint8_t>(p);
    default: unsupported_dtype(p.in);
  }
}

// Whether this process may use matrix units: Linux gives their registers to who asks.
bool may_use_tiles() {
  constexpr unsigned kBFloat16 = 1u << 22, kTiles = 1u << 24;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kBFloat16) == 0 || (d & kTiles) == 0) {
    return false;
  }
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}

}  // namespace

BFloat16Unit bfloat16_unit() {
  static const BFloat16Unit unit = [] {
    if (cpu_isa() != CpuIsa::kAvx512 || !__builtin_cpu_supports("avx512bf16")) {
      return BFloat16Unit::kFloat32;
    }
    return may_use_tiles() ? BFloat16Unit::kMatrix : BFloat16Unit::kDotProduct;
  }();
  return unit;
}

void gemm(GemmSizes sizes, Dtype in, const Matrix& a, const Matrix& b, const void* bias, Dtype out,
          void* c, int64_t ldc, bool accumulate, const Finish& finish, Workspace& workspace) {
  multiply({.sizes = sizes,
            .in = in,
            .out = out,
            .a = a,
            .b = b,
            .bias = bias,
            .c = c,
            .c_row = ldc,
            .accumulate = accumulate,
            .finish = finish},
           workspace);
}

void gemm_batch(int64_t count, GemmSizes sizes, Dtype dtype, const Matrix& a, int64_t a_step,
                const Matrix& b, int64_t b_step, void* c, int64_t c_step, const Finish& finish,
                Workspace& workspace) {
  multiply({.count = count,
            .sizes = sizes,
            .in = dtype,
            .out = dtype,
            .a = a,
            .b = b,
            .a_step = a_step,
            .b_step = b_step,
            .c = c,
            .c_row = sizes.n,
            .c_step = c_step,
            .finish = finish},
           workspace);
}

}  // namespace wick::cpu
