#pragma once

#include <functional>
#include <vector>

#include "wick/core/base/check.h"
#include "wick/core/tensor.h"

namespace wick {

/// What gradcheck looks at: tensors in, tensors out.
using TensorFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// A gradient is wrong: the text names output and input, and holds both Jacobians.
class GradcheckError : public Error {
 public:
  using Error::Error;
};

/// PyTorch's arguments and defaults. There is no forward mode, no vmap and no sparse input here, so
/// what asks for those (check_forward_ad, check_batched_grad, masked) is left out; dtypes of
/// gradients (check_grad_dtypes) the engine checks in every backward.
struct GradcheckOptions {
  /// The step of the central differences.
  double eps = 1e-6;
  /// |analytical - numerical| <= atol + rtol |numerical| for each element of a Jacobian.
  double atol = 1e-5;
  double rtol = 1e-3;
  /// Throw GradcheckError; else return false.
  bool raise_exception = true;
  /// By how much the gradients of two runs may differ.
  double nondet_tol = 0;
  /// Whether gradients are also right where some of the incoming ones are undefined.
  bool check_undefined_grad = true;
  /// Compare one product u'Jv with random u and v per Jacobian, not every element.
  bool fast_mode = false;
};

/// Compares the gradients that backward computes for `function` at `inputs` with central
/// differences, for the inputs that require a gradient: float64, for of less precision little can
/// be said. Checks besides that gradients are the same in a second run, linear in the incoming
/// ones, and the same for one input alone. Returns whether all is right.
///
/// The inputs are changed in place while it runs, so a function may also use them by capture (a
/// module's parameters). Errors: no input requires a gradient, or elements of one share memory.
bool gradcheck(const TensorFunction& function, const std::vector<Tensor>& inputs,
               const GradcheckOptions& options = {});

/// gradcheck of the gradient itself: as a function of `inputs` and of `grad_outputs`, one per
/// output that requires a gradient, by default normal random numbers.
bool gradgradcheck(const TensorFunction& function, const std::vector<Tensor>& inputs,
                   const std::vector<Tensor>& grad_outputs = {},
                   const GradcheckOptions& options = {});

}  // namespace wick
