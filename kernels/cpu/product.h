#pragma once

#include "wick/core/base/activation.h"
#include "wick/core/base/dtype.h"
#include "wick/core/base/workspace.h"

// Matrix products by Wick's own loops. Private to this folder and to products/.
namespace wick {

namespace cpu {

/// A matrix: element (i, j) is at data[i * row + j * column]. One of the two strides is 1, unless
/// that axis has size 1.
struct Matrix {
  const void* data = nullptr;
  int64_t row = 0;
  int64_t column = 0;
};

struct GemmSizes {
  int64_t m, n, k;
};

/// What computes products of bfloat16: float32 after a conversion, AVX-512's dot product of pairs,
/// or matrix units (AMX).
enum class BFloat16Unit { kFloat32, kDotProduct, kMatrix };

/// The best one this process may use.
BFloat16Unit bfloat16_unit();

/// What follows the sums of a product: c *= scale, c += residual, then activated = activation(c).
/// All are laid out as c, and each step is rounded to c's dtype.
struct Finish {
  const void* residual = nullptr;
  Activation activation = Activation::kNone;
  void* activated = nullptr;  // may be c
  double scale = 1;
};

/// c_i = a_i · b_i + bias, or c_i + a_i · b_i with `accumulate`, for `count` products.
struct Product {
  int64_t count = 1;
  GemmSizes sizes{};
  Dtype in{}, out{};  // floating; `out` is `in`, or float32 for bfloat16
  Matrix a, b;
  int64_t a_step = 0, b_step = 0;  // from one product to the next, in elements
  const void* bias = nullptr;      // n elements of type `out`; null with `accumulate`
  void* c = nullptr;
  int64_t c_row = 0, c_step = 0;
  bool accumulate = false;
  Finish finish{};  // not of integers
  BFloat16Unit unit = BFloat16Unit::kFloat32;
};

}  // namespace cpu

/// Each result is summed in one order, which depends on the sizes and strides alone: in float32 and
/// float64 the bits are the same on every instruction set.
namespace cpu_avx2 {
void product(const cpu::Product& p, Workspace& workspace);
}
namespace cpu_avx512 {
void product(const cpu::Product& p, Workspace& workspace);
/// bfloat16 by matrix units.
void bfloat16_product(const cpu::Product& p, Workspace& workspace);
}  // namespace cpu_avx512

}  // namespace wick
