#pragma once

#include <math.h>

#include "wick/kernels/optim.h"

// What an optimizer does to one element, on every device. kernels/optim/NAME.h has, in namespace
// rules::NAME,
//   struct Args : OptimArgs       what a step is told, and kName, the name of its kernels
//   template <class T> struct ... a rule, or several
//   choose(args, run)             calls run(RuleOf<...>()) with the rule that the arguments ask for
// and nothing names the file: CMake writes a source per device that instantiates optim_step of its
// Args there (kernels/cpu/optim.cpp.in, kernels/cuda/optim.cu.in).
//
// A rule is made for a tensor, where the tensor is, of the arguments, the number of the update (1
// is the first) and the optimizer's own number; rule(w, d, a, b, c) gives the new parameter, where
// a, b and c are references to the states whose bits are set in Rule::kStates. With `static
// constexpr bool kOwnDecay = true` d is without weight decay, which the rule adds itself.
//
// A rule that goes by norms of a tensor has besides
//   kMeasured                     the states that measuring changes
//   measure(w, g, a, b, c, x, y)  before the update: sets x and y to what the element adds to two
//                                 sums over the tensor, where g is the gradient without decay
//   settle(x, y, own)             takes the sums, and the optimizer's own number, into the rule

namespace wick {

template <template <class> class Rule>
struct RuleOf {};

/// Updates `count` tensors, of one device and dtype, by the rule of `args`.
namespace cpu_avx2 {
template <class Args>
void optim_step(const OptimTensor* tensors, int64_t count, const Args& args, const OptimStep& step);
}
namespace cpu_avx512 {
template <class Args>
void optim_step(const OptimTensor* tensors, int64_t count, const Args& args, const OptimStep& step);
}
namespace cuda {
template <class Args>
void optim_step(const OptimTensor* tensors, int64_t count, const Args& args, const OptimStep& step);
}

WICK_HOST_DEVICE float root(float x) { return ::sqrtf(x); }
WICK_HOST_DEVICE double root(double x) { return ::sqrt(x); }
WICK_HOST_DEVICE float magnitude(float x) { return ::fabsf(x); }
WICK_HOST_DEVICE double magnitude(double x) { return ::fabs(x); }
template <class T>
WICK_HOST_DEVICE double squared(T x) {
  return static_cast<double>(x) * static_cast<double>(x);
}

}  // namespace wick
