#pragma once

#include "wick/tests/harness/op_case.h"

namespace wick::testing {

/// A case's call of a function of one or two tensors.
inline TensorFunction call_of(Tensor (*function)(const Tensor&)) {
  return [function](const Tensors& x) -> Tensors { return {function(x[0])}; };
}
inline TensorFunction call_of(Tensor (*function)(const Tensor&, const Tensor&)) {
  return [function](const Tensors& x) -> Tensors { return {function(x[0], x[1])}; };
}

}  // namespace wick::testing
