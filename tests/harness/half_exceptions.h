#pragma once

#include <string_view>

namespace wick::testing {

/// What an op computes from 16-bit inputs it computes in float32 and rounds once, forward and
/// backward (docs/design/ops.md): its results lie within this many units in the last place of the
/// reference in double.
inline constexpr double kHalfUnits = 2;

/// A case whose 16-bit results may lie further from the reference.
struct HalfException {
  std::string_view op_case;
  double units;
  const char* reason;
};

inline constexpr HalfException kHalfExceptions[] = {
    {"linear_gelu", 8, "GELU is computed of its argument as backward keeps it, in 16 bits"},
    {"losses_broadcast", 4, "its four losses add their gradients to those of one input"},
    {"scaled_dot_product_attention_of_heads", 4,
     "a GPU's library starts backward from the output, in 16 bits"},
    {"tanh", 4, "backward starts from the output, in 16 bits"},
};

/// A differentiable case that has no 16-bit dtypes.
struct FullPrecisionCase {
  std::string_view op_case;
  const char* reason;
};

inline constexpr const char* kDecomposes = "linalg takes float32 and float64 alone, as PyTorch's";
inline constexpr FullPrecisionCase kFullPrecisionCases[] = {
    {"cholesky", kDecomposes},  {"cholesky_solve", kDecomposes}, {"eigh", kDecomposes},
    {"lu_factor", kDecomposes}, {"pinv", kDecomposes},           {"qr", kDecomposes},
    {"slogdet", kDecomposes},   {"solve", kDecomposes},          {"solve_triangular", kDecomposes},
    {"svd", kDecomposes},
};

/// The units in the last place that the 16-bit results of a case may be wrong by.
constexpr double half_units(std::string_view op_case) {
  for (const HalfException& exception : kHalfExceptions) {
    if (exception.op_case == op_case) return exception.units;
  }
  return kHalfUnits;
}

}  // namespace wick::testing
