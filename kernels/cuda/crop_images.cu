#include "wick/kernels/crop_images.h"

#include "wick/kernels/cuda/channels_last.h"

namespace wick::cuda {

namespace {

struct CropJob {
  const uint8_t* x;
  const int32_t* placements;
  const float* coefficients;
  int64_t height, width, channels;  // of x
  int64_t rows, columns;            // of y
  ImageSizes lines;                 // y with each row of it as the channels of one pixel
};

// Element `i` of row `p` of one image of y, from `image`, the same image of x.
template <int kChannels>
__device__ float cropped(const CropJob& job, const uint8_t* image, const int32_t* place, int64_t p,
                         int64_t i) {
  const uint32_t channels = kChannels > 0 ? kChannels : static_cast<uint32_t>(job.channels);
  const uint32_t q = static_cast<uint32_t>(i) / channels, c = static_cast<uint32_t>(i) % channels;
  const int64_t erase_row = p - place[kPlaceEraseTop];
  const int erase_column = static_cast<int>(q) - place[kPlaceEraseLeft];
  if (erase_row >= 0 && erase_row < place[kPlaceEraseHeight] && erase_column >= 0 &&
      erase_column < place[kPlaceEraseWidth]) {
    return job.coefficients[2 * channels + c];
  }
  const int flips = place[kPlaceFlips];
  const int64_t row = placed(p, job.rows, place[kPlaceTop], (flips & 2) != 0);
  const int64_t column = placed(q, job.columns, place[kPlaceLeft], (flips & 1) != 0);
  const float shift = job.coefficients[channels + c];
  if (row < 0 || row >= job.height || column < 0 || column >= job.width) return shift;
  const uint8_t byte = image[(row * job.width + column) * channels + c];
  return fmaf(static_cast<float>(byte), job.coefficients[c], shift);
}

template <class T, int kChannels, int kVector>
__global__ void __launch_bounds__(256)
    crop_images_kernel(const __grid_constant__ CropJob job, T* __restrict__ y) {
  const int64_t count = job.lines.numel() / kVector;
  for (int64_t i = global_thread(); i < count; i += global_threads()) {
    const ImagePlace<kVector> at(job.lines, i);
    const uint8_t* image = job.x + at.image * job.height * job.width * job.channels;
    const int32_t* place = job.placements + at.image * kPlacements;
    Pack<T, kVector> result;
    WICK_UNROLL
    for (int j = 0; j < kVector; ++j) {
      result[j] = convert<T>(cropped<kChannels>(job, image, place, at.y, at.channel + j));
    }
    store_pack(y + i * kVector, result);
  }
}

template <class T, int kChannels>
void crop(const CropJob& job, const View& y) {
  constexpr int kVector = kPackSize<T>;
  if (job.lines.c % kVector == 0 && is_aligned(y.as<char>(), 16)) {
    return launch("crop_images", y.device, grid_for(y.device, y.numel(), kVector),
                  crop_images_kernel<T, kChannels, kVector>, job, y.as<T>());
  }
  launch("crop_images", y.device, grid_for(y.device, y.numel()),
         crop_images_kernel<T, kChannels, 1>, job, y.as<T>());
}

}  // namespace

void crop_images(const View& x, const View& placements, const View& coefficients, const View& y) {
  ImageSizes lines(y);
  lines.c *= lines.w;
  lines.w = 1;
  const CropJob job{x.as<uint8_t>(),
                    placements.as<int32_t>(),
                    coefficients.as<float>(),
                    x.shape[2],
                    x.shape[3],
                    x.shape[1],
                    y.shape[2],
                    y.shape[3],
                    lines};
  visit_floating(y.dtype, [&]<class T>(Type<T>) {
    switch (job.channels) {
      case 1: return crop<T, 1>(job, y);
      case 3: return crop<T, 3>(job, y);
      default: return crop<T, 0>(job, y);
    }
  });
}

}  // namespace wick::cuda
