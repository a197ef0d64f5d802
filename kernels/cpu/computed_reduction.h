#pragma once

#include "wick/kernels/reduce.h"

// Reductions of what is in no memory.
namespace wick::WICK_ISA {

/// Elements that are computed when they are reduced, each once, by the thread that reduces it.
struct ComputedElements {
  const void* context;
  /// Elements [begin, begin + n) in the order of memory, as float, or as double where they are.
  void (*compute)(const void* context, int64_t begin, int64_t n, void* lanes);
};

/// reduce() of a floating x, whose view is dense and has no data.
void reduce_computed(Reduction kind, const View& x, const View& y, double factor,
                     const ComputedElements& elements);

}  // namespace wick::WICK_ISA
