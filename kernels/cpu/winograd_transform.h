#pragma once

// The transforms of Winograd's F(4x4, 3x3) with the points 0, 1, -1, 2, -2 and infinity. Each is
// applied to a matrix from both sides: along its columns, then along its rows.

#include "wick/kernels/cpu/simd.h"

namespace wick::WICK_ISA::winograd {

inline constexpr int kIn = 6;   // a tile of the image, and of the transformed space
inline constexpr int kOut = 4;  // a tile of the result
inline constexpr int kKernel = 3;
inline constexpr int kPoints = kIn * kIn;  // elements of a transformed tile

// 6 elements of the image -> 6 points.
struct ImageTransform {
  static constexpr int kFrom = kIn, kTo = kIn;
  WICK_INLINE static void apply(const VecF* d, VecF* t) {
    const VecF four(4), five(5), two(2);
    const VecF even = fma(-four, d[2], d[4]), odd = fma(-four, d[1], d[3]);
    const VecF even2 = d[4] - d[2], odd2 = two * (d[3] - d[1]);
    t[0] = fma(four, d[0], fma(-five, d[2], d[4]));
    t[1] = even + odd;
    t[2] = even - odd;
    t[3] = even2 + odd2;
    t[4] = even2 - odd2;
    t[5] = fma(four, d[1], fma(-five, d[3], d[5]));
  }
};

// 3 elements of a kernel -> 6 points.
struct KernelTransform {
  static constexpr int kFrom = kKernel, kTo = kIn;
  WICK_INLINE static void apply(const VecF* w, VecF* u) {
    const VecF sixth(1.0f / 6), twelfth(1.0f / 12), twenty_fourth(1.0f / 24);
    const VecF ends = -sixth * (w[0] + w[2]), far = fma(twenty_fourth, w[0], sixth * w[2]);
    u[0] = VecF(0.25f) * w[0];
    u[1] = fma(-sixth, w[1], ends);
    u[2] = fma(sixth, w[1], ends);
    u[3] = fma(twelfth, w[1], far);
    u[4] = fma(-twelfth, w[1], far);
    u[5] = w[2];
  }
};

// 6 points -> 4 elements of the result.
struct ResultTransform {
  static constexpr int kFrom = kIn, kTo = kOut;
  WICK_INLINE static void apply(const VecF* m, VecF* y) {
    const VecF sum = m[1] + m[2], difference = m[1] - m[2];
    const VecF far_sum = m[3] + m[4], far_difference = m[3] - m[4];
    y[0] = m[0] + sum + far_sum;
    y[1] = fma(VecF(2), far_difference, difference);
    y[2] = fma(VecF(4), far_sum, sum);
    y[3] = fma(VecF(8), far_difference, difference) + m[5];
  }
};

// The transpose of ResultTransform: 4 elements of a gradient -> 6 points.
struct ResultTransposed {
  static constexpr int kFrom = kOut, kTo = kIn;
  WICK_INLINE static void apply(const VecF* y, VecF* m) {
    const VecF even = y[0] + y[2], odd = y[1] + y[3];
    const VecF far_even = fma(VecF(4), y[2], y[0]), far_odd = fma(VecF(8), y[3], VecF(2) * y[1]);
    m[0] = y[0];
    m[1] = even + odd;
    m[2] = even - odd;
    m[3] = far_even + far_odd;
    m[4] = far_even - far_odd;
    m[5] = y[3];
  }
};

// The transpose of KernelTransform: 6 points -> 3 elements of a kernel's gradient.
struct KernelTransposed {
  static constexpr int kFrom = kIn, kTo = kKernel;
  WICK_INLINE static void apply(const VecF* u, VecF* w) {
    const VecF sixth(1.0f / 6), twelfth(1.0f / 12), twenty_fourth(1.0f / 24);
    const VecF near = -sixth * (u[1] + u[2]), far = u[3] + u[4];
    w[0] = fma(VecF(0.25f), u[0], fma(twenty_fourth, far, near));
    w[1] = fma(twelfth, u[3] - u[4], sixth * (u[2] - u[1]));
    w[2] = fma(sixth, far, near) + u[5];
  }
};

/// `Transform` of the matrix that `load(row, column)` gives, each element handed to
/// `store(row, column, value)`.
template <class Transform, class Load, class Store>
WICK_INLINE void transform(const Load& load, const Store& store) {
  constexpr int from = Transform::kFrom, to = Transform::kTo;
  VecF half[to][from];
#pragma GCC unroll 6
  for (int column = 0; column < from; ++column) {
    VecF in[from], out[to];
#pragma GCC unroll 6
    for (int row = 0; row < from; ++row) in[row] = load(row, column);
    Transform::apply(in, out);
#pragma GCC unroll 6
    for (int row = 0; row < to; ++row) half[row][column] = out[row];
  }
#pragma GCC unroll 6
  for (int row = 0; row < to; ++row) {
    VecF out[to];
    Transform::apply(half[row], out);
#pragma GCC unroll 6
    for (int column = 0; column < to; ++column) store(row, column, out[column]);
  }
}

}  // namespace wick::WICK_ISA::winograd
