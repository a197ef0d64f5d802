#pragma once

#include "wick/kernels/declare.h"

// Products of few rows by one matrix, many times over: the matrix is packed once. On the CPU alone;
// a GPU's library needs no packing.
#define WICK_PACKED_PRODUCT(isa)                                         \
  namespace isa {                                                        \
  void pack_matrix(const View& b, const View& packed);                   \
  void packed_product(const View& a, const View& packed, const View& y); \
  }

namespace wick {

/// What packed matrices have columns in multiples of.
inline constexpr int64_t kPackedColumns = 64;

/// pack_matrix: `packed` [K, N rounded up to kPackedColumns] gets the elements of b [K, N], of any
/// strides, by groups of columns that fit registers side by side. float32 or float64.
/// packed_product: y [M, N] = a [M, K] · b, both row-major without gaps. Each element is summed in
/// one order, whatever M and the number of threads.
WICK_PACKED_PRODUCT(cpu_avx2)
WICK_PACKED_PRODUCT(cpu_avx512)

}  // namespace wick

#undef WICK_PACKED_PRODUCT
