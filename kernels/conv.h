#pragma once

#include <string>
#include <vector>

#include "wick/core/base/workspace.h"
#include "wick/kernels/declare.h"
#include "wick/kernels/engine.h"

namespace wick {

enum class ConvDirection : uint8_t { kForward, kBackwardData, kBackwardWeights };

enum class ConvAlgorithm : uint8_t {
  kDirect,    // on channels-last tensors as they are
  kWinograd,  // float32, 3x3, stride 1: a quarter of the multiplications
  kIm2col,    // patches copied side by side, then matrix multiplication: every case
  kLibrary,   // what the GPU vendor's library chooses
  kAmx,       // bfloat16 on the CPU's matrix units: our own code for them
};
inline constexpr int kConvAlgorithms = 5;

/// How a convolution is computed: for kLibrary also by which of its engines.
struct ConvPlan {
  ConvPlan(ConvAlgorithm a = ConvAlgorithm::kDirect, int e = kAnyEngine)
      : algorithm(a), engine(e) {}
  friend bool operator==(const ConvPlan&, const ConvPlan&) = default;

  ConvAlgorithm algorithm;
  int engine;
};

struct Conv2dParams {
  int64_t stride[2] = {1, 1};
  int64_t padding[2] = {0, 0};
  int64_t dilation[2] = {1, 1};
  int64_t groups = 1;
};

/// A convolution without its data. x: [N, C, H, W], weight: [K, C / groups, R, S], y: [N, K, P, Q].
struct Conv2dProblem {
  ConvDirection direction = ConvDirection::kForward;
  Dtype dtype = Dtype::kFloat32;
  Shape x, weight, y;
  Conv2dParams params;
};

/// What follows a convolution: y = relu(convolution + bias + residual).
struct ConvEpilogue {
  View bias = {};      // [K] or undefined
  View residual = {};  // laid out as y, or undefined
  bool relu = false;
};

namespace cpu {
/// Whether the CPU computes convolutions of `dtype` as it is: of bfloat16 with its instructions.
bool convolves(Dtype dtype);
}  // namespace cpu

// All tensors are dense and channels-last (weights too: stored K, R, S, C) and not empty, of one
// dtype: on the CPU one that it convolves, on a GPU float64, float32, bfloat16 or float16.

// Algorithms that compute `problem` on `device`; first the one that a fixed rule prefers. Room for
// kConvAlgorithms.
WICK_LIBRARY_KERNEL(conv2d_algorithms, (const Conv2dProblem& problem, Device device,
                                        ConvAlgorithm* algorithms, int* count));

// The library's engines for `problem` (see engine.h); none on the CPU.
WICK_LIBRARY_KERNEL(conv2d_engines, (const Conv2dProblem& problem, Device device,
                                     std::vector<std::string>* engines));

// The kernels take only algorithms that conv2d_algorithms lists. bias: [K] or undefined.
WICK_LIBRARY_KERNEL(conv2d_forward,
                    (const View& x, const View& weight, const View& bias, const View& y,
                     const Conv2dParams& params, const ConvPlan& plan, Workspace& workspace));
WICK_LIBRARY_KERNEL(conv2d_backward_data,
                    (const View& dy, const View& weight, const View& dx, const Conv2dParams& params,
                     const ConvPlan& plan, Workspace& workspace));
WICK_LIBRARY_KERNEL(conv2d_backward_weights,
                    (const View& x, const View& dy, const View& dweight, const Conv2dParams& params,
                     const ConvPlan& plan, Workspace& workspace));

namespace cpu {
/// conv2d_forward() and what follows. Results are rounded where separate ops round them. `packed`:
/// what conv2d_pack() made of the weight for the plan's algorithm, or null.
void conv2d_fused(const View& x, const View& weight, const void* packed,
                  const ConvEpilogue& epilogue, const View& y, const Conv2dParams& params,
                  const ConvPlan& plan, Workspace& workspace);
/// Bytes of a weight as forward passes by `algorithm` multiply it; 0 where they take it as it is.
/// The form is that of cpu_isa(), and of any size of images.
int64_t conv2d_packed_bytes(const Conv2dProblem& problem, ConvAlgorithm algorithm);
void conv2d_pack(const Conv2dProblem& problem, ConvAlgorithm algorithm, const View& weight,
                 void* packed);
}  // namespace cpu

}  // namespace wick
