#pragma once

#include <string>
#include <vector>

#include "wick/core/tensor.h"

namespace wick::bench {

/// What this machine can do at best, measured.
struct Ceilings {
  struct Memory {
    double footprint;  // bytes that are touched again and again
    double bytes_per_second;
  };
  /// By footprint, ascending: the best of copying, adding two arrays into a third, and reading, by
  /// one thread or all; on a GPU of copying.
  std::vector<Memory> memory;
  /// The best of a loop of multiply-adds in registers, by instruction set, and of matrix products.
  double flops_float32 = 0;
  double flops_bfloat16 = 0;

  /// Of a row that moves `bytes`: between the measured footprints on a logarithmic scale.
  double bytes_per_second(double bytes) const;
  double flops_per_second(Dtype dtype) const;
  /// Seconds that work takes at least, and by which of the two.
  struct Bound {
    double seconds = 0;  // 0 if there is none
    const char* by = "";
  };
  Bound bound(double bytes, double flops, Dtype dtype) const;
};

/// Measures them on `device`, for about `seconds`; each line of `report` is one figure.
Ceilings measure_ceilings(Device device, double seconds, std::vector<std::string>& report);

}  // namespace wick::bench
