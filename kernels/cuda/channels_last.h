#pragma once

#include "wick/core/base/view.h"
#include "wick/kernels/cuda/common/convert.h"
#include "wick/kernels/cuda/common/launch.h"
#include "wick/kernels/cuda/common/vector_access.h"

// What kernels on channels-last images share. Private to this folder.
namespace wick::cuda {

/// The sizes of a channels-last image tensor.
struct ImageSizes {
  int64_t n, c, h, w;

  explicit ImageSizes(const View& x) : n(x.shape[0]), c(x.shape[1]), h(x.shape[2]), w(x.shape[3]) {}
  WICK_HOST_DEVICE int64_t numel() const { return n * c * h * w; }
  /// Where a pixel's first channel is.
  WICK_HOST_DEVICE int64_t pixel(int64_t image, int64_t y, int64_t x) const {
    return ((image * h + y) * w + x) * c;
  }
};

/// Image, row, column and first channel of the `i`-th group of `kVector` channels.
template <int kVector>
struct ImagePlace {
  int64_t image, y, x, channel;

  __device__ ImagePlace(const ImageSizes& s, int64_t i) {
    if (s.numel() <= 0x7fffffff) {  // division of 32 bits is several times faster
      locate<uint32_t>(s, i);
    } else {
      locate<uint64_t>(s, i);
    }
  }

 private:
  template <class Index>
  __device__ void locate(const ImageSizes& s, int64_t i) {
    const Index groups = static_cast<Index>(s.c / kVector), w = static_cast<Index>(s.w);
    const Index h = static_cast<Index>(s.h), position = static_cast<Index>(i);
    const Index pixel = position / groups, row = pixel / w;
    channel = static_cast<int64_t>(position - pixel * groups) * kVector;
    x = static_cast<int64_t>(pixel - row * w);
    image = static_cast<int64_t>(row / h);
    y = static_cast<int64_t>(row % h);
  }
};

/// kVector neighbouring elements as the type they are computed in.
template <class T, int kVector>
__device__ Pack<Accumulator<T>, kVector> load_lanes(const T* p) {
  const Pack<T, kVector> raw = load_pack<kVector>(p);
  Pack<Accumulator<T>, kVector> lanes;
  WICK_UNROLL
  for (int j = 0; j < kVector; ++j) lanes[j] = convert<Accumulator<T>>(raw[j]);
  return lanes;
}
template <class T, int kVector>
__device__ void store_lanes(T* p, const Pack<Accumulator<T>, kVector>& lanes) {
  Pack<T, kVector> raw;
  WICK_UNROLL
  for (int j = 0; j < kVector; ++j) raw[j] = convert<T>(lanes[j]);
  store_pack(p, raw);
}

/// Calls `run.operator()<T, kVector>()`, kVector being the channels that a thread takes: 16 bytes
/// of them where all pixels of `views` begin at multiples of that, else one.
template <class Run>
void visit_image_vectors(std::initializer_list<const View*> views, const Run& run) {
  const View& x = **views.begin();
  visit_floating(x.dtype, [&]<class T>(Type<T>) {
    bool packed = x.shape[1] % kPackSize<T> == 0;
    for (const View* view : views) packed = packed && is_aligned(view->as<char>(), 16);
    if (packed) return run.template operator()<T, kPackSize<T>>();
    run.template operator()<T, 1>();
  });
}

}  // namespace wick::cuda
