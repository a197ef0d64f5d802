#pragma once

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_in = 1, unsigned y_in = 1, unsigned z_in = 1)
      : x(x_in), y(y_in), z(z_in) {}
};
