#pragma once

#include "wick/kernels/conv.h"

// Convolution by the vendor's library: cudnn.cpp, or the simulator's convolution.cpp.
namespace wick::cuda {

/// Whether the library computes `problem` on `device`.
bool has_convolution(Device device, const Conv2dProblem& problem);

/// The library's engines for `problem`, as engine.h says.
std::vector<std::string> convolution_engines(Device device, const Conv2dProblem& problem);

/// Queues a convolution on the current stream of y's device: y from x, weight and bias (may be
/// undefined), or one of the gradients, dx in x or dweight in weight, from dy in y. All are dense
/// and channels-last. `engine`: as convolution_engines counts, or kAnyEngine. Error if the engine
/// cannot compute it after all.
void convolution(ConvDirection direction, const View& x, const View& weight, const View& bias,
                 const View& y, const Conv2dParams& params, int engine, Workspace& workspace);

}  // namespace wick::cuda
