#include <cstdio>

#include "wick/core/base/shape.h"

int main() {
  const wick::Shape shape = wick::broadcast_shapes("embed", {3, 1}, {4});
  std::printf("%s\n", wick::to_string(shape).c_str());
  return shape == wick::Shape{3, 4} ? 0 : 1;
}
