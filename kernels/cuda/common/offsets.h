#pragma once

#include "wick/kernels/cuda/common/vector_access.h"
#ifndef WICK_RUNTIME_COMPILED
#include "wick/kernels/loop_nest.h"
#endif

namespace wick::cuda {

/// Where element `position` of a LoopNest, or of a ChainPlaces, is in each of its views.
template <int kViews>
struct Offsets {
  int64_t offset[kViews] = {};

  template <class Nest>
  __device__ Offsets(const Nest& nest, int64_t position) {
    if (nest.numel <= 0x7fffffff) {  // division of 32 bits is several times faster
      locate(nest, static_cast<uint32_t>(position));
    } else {
      locate(nest, static_cast<uint64_t>(position));
    }
  }

 private:
  template <class Nest, class Index>
  __device__ void locate(const Nest& nest, Index position) {
    for (int axis = 0; axis < nest.rank; ++axis) {
      const Index size = static_cast<Index>(nest.sizes[axis]);
      const Index next = axis + 1 == nest.rank ? 0 : position / size;
      const int64_t index = static_cast<int64_t>(position - next * size);
      position = next;
      for (int v = 0; v < kViews; ++v) offset[v] += index * nest.strides[v][axis];
    }
  }
};

#ifndef WICK_RUNTIME_COMPILED
/// Whether all views are dense, walked alike and begin at 16-byte boundaries.
template <int kViews>
bool can_be_packed(const LoopNest<kViews>& nest, const View* const* views) {
  if (nest.rank != 1) return false;
  for (int v = 0; v < kViews; ++v) {
    if (nest.strides[v][0] != 1 || !is_aligned(views[v]->as<char>(), 16)) return false;
  }
  return true;
}
#endif

}  // namespace wick::cuda
