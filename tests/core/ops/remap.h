#pragma once

#include <functional>

#include "wick/tests/harness/op_case.h"

namespace wick::testing {

/// Calls `visit(coordinates)` for each element of `shape` in row-major order.
inline void for_each_coordinate(const Shape& shape,
                                const std::function<void(const Shape&)>& visit) {
  const int64_t n = shape.numel();
  for (int64_t i = 0; i < n; ++i) {
    Shape at = shape;
    int64_t left = i;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      at[axis] = left % shape[axis];
      left /= shape[axis];
    }
    visit(at);
  }
}

/// Where the element at `coordinates` stands in row-major order.
inline size_t flat_index(const Shape& shape, const Shape& coordinates) {
  int64_t flat = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) flat = flat * shape[axis] + coordinates[axis];
  return static_cast<size_t>(flat);
}

inline double& at(HostArray& x, const Shape& coordinates) {
  return x.values[flat_index(x.shape, coordinates)];
}
inline double at(const HostArray& x, const Shape& coordinates) {
  return x.values[flat_index(x.shape, coordinates)];
}

inline HostArray filled(const Shape& shape, double value = 0) {
  return {shape, std::vector<double>(static_cast<size_t>(shape.numel()), value)};
}

/// The array of `shape` whose element at c is that of `x` at `source(c)`.
inline HostArray remap(const HostArray& x, const Shape& shape,
                       const std::function<Shape(const Shape&)>& source) {
  HostArray y = filled(shape);
  for_each_coordinate(shape, [&](const Shape& c) { at(y, c) = at(x, source(c)); });
  return y;
}

inline Shape with(Shape shape, int axis, int64_t size) {
  shape[axis] = size;
  return shape;
}

}  // namespace wick::testing
