#pragma once

// The transforms of Winograd's F(4x4, 3x3) with the points 0, p, -p, q, -q and infinity, p = 3/4
// and q = 3/2: with these the result's error is about twice the direct sum's, with the usual 1 and
// 2 five times (on the choice of points: Barabasz et al. 2018, arXiv 1803.10986). Each is applied
// to a matrix from both sides: along its columns, then along its rows.

#include "wick/kernels/cpu/simd.h"

namespace wick::WICK_ISA::winograd {

inline constexpr int kIn = 6;   // a tile of the image, and of the transformed space
inline constexpr int kOut = 4;  // a tile of the result
inline constexpr int kKernel = 3;
inline constexpr int kPoints = kIn * kIn;  // elements of a transformed tile

inline constexpr float kP = 0.75f, kP2 = kP * kP, kP3 = kP2 * kP;
inline constexpr float kQ = 1.5f, kQ2 = kQ * kQ, kQ3 = kQ2 * kQ;
// 1 over the product of a point's distances from the others: of 0, of p and -p, of q and -q.
inline constexpr float kZeroScale = 1 / (kP2 * kQ2);
inline constexpr float kPScale = 1 / (2 * kP2 * (kP2 - kQ2));
inline constexpr float kQScale = 1 / (2 * kQ2 * (kQ2 - kP2));

// 6 elements of the image -> 6 points.
struct ImageTransform {
  static constexpr int kFrom = kIn, kTo = kIn;
  WICK_INLINE static void apply(const VecF* d, VecF* t) {
    const VecF p(kP), q(kQ), p2(kP2), q2(kQ2), sum(kP2 + kQ2), product(kP2 * kQ2);
    const VecF even = fma(-q2, d[2], d[4]), odd = fma(-q2, d[1], d[3]);
    const VecF even2 = fma(-p2, d[2], d[4]), odd2 = fma(-p2, d[1], d[3]);
    t[0] = fma(product, d[0], fma(-sum, d[2], d[4]));
    t[1] = fma(p, odd, even);
    t[2] = fma(-p, odd, even);
    t[3] = fma(q, odd2, even2);
    t[4] = fma(-q, odd2, even2);
    t[5] = fma(product, d[1], fma(-sum, d[3], d[5]));
  }
};

// 3 elements of a kernel -> 6 points.
struct KernelTransform {
  static constexpr int kFrom = kKernel, kTo = kIn;
  WICK_INLINE static void apply(const VecF* w, VecF* u) {
    const VecF near_odd(kP * kPScale), far_odd(kQ * kQScale);
    const VecF near = fma(VecF(kP2 * kPScale), w[2], VecF(kPScale) * w[0]);
    const VecF far = fma(VecF(kQ2 * kQScale), w[2], VecF(kQScale) * w[0]);
    u[0] = VecF(kZeroScale) * w[0];
    u[1] = fma(near_odd, w[1], near);
    u[2] = fma(-near_odd, w[1], near);
    u[3] = fma(far_odd, w[1], far);
    u[4] = fma(-far_odd, w[1], far);
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
    y[1] = fma(VecF(kQ), far_difference, VecF(kP) * difference);
    y[2] = fma(VecF(kQ2), far_sum, VecF(kP2) * sum);
    y[3] = fma(VecF(kQ3), far_difference, fma(VecF(kP3), difference, m[5]));
  }
};

// The transpose of ResultTransform: 4 elements of a gradient -> 6 points.
struct ResultTransposed {
  static constexpr int kFrom = kOut, kTo = kIn;
  WICK_INLINE static void apply(const VecF* y, VecF* m) {
    const VecF even = fma(VecF(kP2), y[2], y[0]);
    const VecF odd = fma(VecF(kP3), y[3], VecF(kP) * y[1]);
    const VecF far_even = fma(VecF(kQ2), y[2], y[0]);
    const VecF far_odd = fma(VecF(kQ3), y[3], VecF(kQ) * y[1]);
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
    const VecF near = u[1] + u[2], far = u[3] + u[4];
    w[0] = fma(VecF(kZeroScale), u[0], fma(VecF(kPScale), near, VecF(kQScale) * far));
    w[1] = fma(VecF(kP * kPScale), u[1] - u[2], VecF(kQ * kQScale) * (u[3] - u[4]));
    w[2] = fma(VecF(kP2 * kPScale), near, fma(VecF(kQ2 * kQScale), far, u[5]));
  }
};

/// `Transform` of the matrix that `load(row, column)` gives, each element handed to
/// `store(row, column, value)`.
template <class Transform, class Load, class Store>
WICK_INLINE_ALL void transform(const Load& load, const Store& store) {
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
