#pragma once

#include <initializer_list>
#include <vector>

#include "wick/core/tensor.h"

namespace wick {

using List = std::vector<double>;

/// A float64 leaf of autograd's graph.
inline Tensor leaf(std::initializer_list<double> values) {
  return tensor<double>(values).set_requires_grad();
}

inline List values(const Tensor& x) { return x.to_vector<double>(); }

}  // namespace wick
