#pragma once

#include "wick/kernels/cpu/rows.h"
#include "wick/kernels/cpu/simd_math.h"

namespace wick::WICK_ISA {

/// The sum of exp(x[i] - max) over a row.
template <class A, class T>
[[gnu::noinline]] double sum_of_exponentials(const T* x, int64_t size, A max) {
  constexpr A kLowest = -static_cast<A>(__builtin_inf());
  const Vec<A> m(max);
  return sum_row<A>(size, [&](int64_t i, int64_t n) {
    return exp((n == Vec<A>::size ? Vec<A>::load(x + i) : load_filled<A>(x + i, n, kLowest)) - m);
  });
}

}  // namespace wick::WICK_ISA
