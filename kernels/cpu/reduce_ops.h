#pragma once

#include <type_traits>

#include "wick/kernels/cpu/simd.h"
#include "wick/kernels/cpu/simd_math.h"

// What each reduction does to an element, and how it joins two partial results: on vectors, and on
// the double or int64 in which partial results of blocks are held.
namespace wick::WICK_ISA {

/// An int64 with the interface of a Vec, for reductions of integers.
struct IntLane {
  static constexpr int64_t size = 1;
  int64_t value;

  IntLane() = default;
  WICK_INLINE IntLane(int64_t v) : value(v) {}
  template <class S>
  WICK_INLINE static IntLane load(const S* p) {
    return static_cast<int64_t>(*p);
  }
  WICK_INLINE void store(int64_t* p) const { *p = value; }
  friend WICK_INLINE IntLane operator+(IntLane a, IntLane b) { return a.value + b.value; }
  friend WICK_INLINE IntLane operator*(IntLane a, IntLane b) { return a.value * b.value; }
};
WICK_INLINE IntLane max(IntLane a, IntLane b) { return a.value > b.value ? a : b; }
WICK_INLINE IntLane min(IntLane a, IntLane b) { return a.value < b.value ? a : b; }
WICK_INLINE int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }
WICK_INLINE int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
WICK_INLINE double max(double a, double b) { return a > b || a != a ? a : b; }
WICK_INLINE double min(double a, double b) { return a < b || a != a ? a : b; }
WICK_INLINE float max(float a, float b) { return a > b || a != a ? a : b; }
WICK_INLINE float min(float a, float b) { return a < b || a != a ? a : b; }

/// How lanes of L are loaded, and what partial results of blocks are held in.
template <class L>
struct LaneTypes {
  using Pack = Vec<L>;
  using Wide = double;
};
template <>
struct LaneTypes<int64_t> {
  using Pack = IntLane;
  using Wide = int64_t;
};

/// `n` elements from `p` on, `stride` apart, converted to lanes.
template <class L>
using PackFunction = void (*)(const void* p, int64_t stride, int64_t n, L* lanes);

template <class T, class L>
void pack(const void* p, int64_t stride, int64_t n, L* lanes) {
  const T* x = static_cast<const T*>(p);
  if (stride == 1) {
    for (int64_t i = 0; i < n; ++i) lanes[i] = static_cast<L>(x[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) lanes[i] = static_cast<L>(x[i * stride]);
  }
}

/// A center in two parts, so that x - center is exact where both are close.
template <class P>
struct Center {
  P high, low;
};

struct SumOf {
  static constexpr bool kUsesCenter = false;
  template <class W>
  WICK_INLINE static W identity() {
    return 0;
  }
  template <class V>
  WICK_INLINE static V join(V a, V b) {
    return a + b;
  }
  template <class P>
  WICK_INLINE static P map(P x, const Center<P>&) {
    return x;
  }
};
struct ProdOf : SumOf {
  template <class W>
  WICK_INLINE static W identity() {
    return 1;
  }
  template <class V>
  WICK_INLINE static V join(V a, V b) {
    return a * b;
  }
};
struct MaxOf : SumOf {
  template <class W>
  WICK_INLINE static W identity() {
    if constexpr (std::is_same_v<W, int64_t>) return INT64_MIN;
    return -static_cast<W>(__builtin_inf());
  }
  template <class V>
  WICK_INLINE static V join(V a, V b) {
    return max(a, b);
  }
};
struct MinOf : SumOf {
  template <class W>
  WICK_INLINE static W identity() {
    if constexpr (std::is_same_v<W, int64_t>) return INT64_MAX;
    return static_cast<W>(__builtin_inf());
  }
  template <class V>
  WICK_INLINE static V join(V a, V b) {
    return min(a, b);
  }
};
struct SumSquaresOf : SumOf {
  template <class P>
  WICK_INLINE static P map(P x, const Center<P>&) {
    return x * x;
  }
};
struct SumDeviationsOf : SumOf {
  static constexpr bool kUsesCenter = true;
  template <class P>
  WICK_INLINE static P map(P x, const Center<P>& c) {
    return (x - c.high) - c.low;
  }
};
struct SumSquaredDeviationsOf : SumOf {
  static constexpr bool kUsesCenter = true;
  template <class P>
  WICK_INLINE static P map(P x, const Center<P>& c) {
    const P d = (x - c.high) - c.low;
    return d * d;
  }
};
struct SumExpOf : SumOf {
  static constexpr bool kUsesCenter = true;
  template <class P>
  WICK_INLINE static P map(P x, const Center<P>& c) {
    return exp(x - c.high);
  }
};

}  // namespace wick::WICK_ISA
