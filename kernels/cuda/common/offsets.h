#pragma once

#include "wick/kernels/cuda/common/device_code.h"
#include "wick/kernels/loop_nest.h"

namespace wick::cuda {

/// Where element `position` of a LoopNest is in each of its views.
template <int kViews>
struct Offsets {
  int64_t offset[kViews] = {};

  __device__ Offsets(const LoopNest<kViews>& nest, int64_t position) {
    if (nest.numel <= 0x7fffffff) {  // division of 32 bits is several times faster
      locate(nest, static_cast<uint32_t>(position));
    } else {
      locate(nest, static_cast<uint64_t>(position));
    }
  }

 private:
  template <class Index>
  __device__ void locate(const LoopNest<kViews>& nest, Index position) {
    for (int axis = 0; axis < nest.rank; ++axis) {
      const Index size = static_cast<Index>(nest.sizes[axis]);
      const Index next = axis + 1 == nest.rank ? 0 : position / size;
      const int64_t index = static_cast<int64_t>(position - next * size);
      position = next;
      for (int v = 0; v < kViews; ++v) offset[v] += index * nest.strides[v][axis];
    }
  }
};

}  // namespace wick::cuda
