#pragma once

#include <vector>

#include "wick/core/tensor.h"

namespace wick {

/// Error that names `op` unless all the tensors are defined: for functions made of others, whose
/// names the error would have.
template <class... Tensors>
void check_defined(const char* op, const Tensors&... tensors) {
  (static_cast<void>(tensors.dtype(op)), ...);
}
inline void check_defined(const char* op, const std::vector<Tensor>& tensors) {
  for (const Tensor& tensor : tensors) check_defined(op, tensor);
}

}  // namespace wick
