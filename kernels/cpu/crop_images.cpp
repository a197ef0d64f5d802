#include "wick/kernels/crop_images.h"

#include "wick/kernels/cpu/channels_last.h"

namespace wick::WICK_ISA {

namespace {

// kChannels: of each pixel, or 0 if the compiler does not know.
template <class T, int kChannels>
void crop_rows(const View& x_view, const View& placements, const View& coefficients,
               const View& y_view) {
  using A = Accumulator<T>;
  const Images<const uint8_t> x(x_view);
  const Images<T> y(y_view);
  const int64_t channels = kChannels > 0 ? kChannels : x.c;
  const float* const scale = coefficients.as<float>();
  const float *const shift = scale + channels, *const erased = shift + channels;
  for_each_row(y.n, y.h, y.w * channels, [&](int64_t n, int64_t p) {
    const int32_t* place = placements.as<int32_t>() + n * kPlacements;
    const int64_t row = placed(p, y.h, place[kPlaceTop], (place[kPlaceFlips] & 2) != 0);
    const bool flipped = (place[kPlaceFlips] & 1) != 0, inside = row >= 0 && row < x.h;
    const int64_t erase_row = p - place[kPlaceEraseTop];
    const bool erases = erase_row >= 0 && erase_row < place[kPlaceEraseHeight];
    T* to = y.pixel(n, p, 0);
    for (int64_t q = 0; q < y.w; ++q, to += channels) {
      const int64_t column = placed(q, y.w, place[kPlaceLeft], flipped);
      const int64_t erase_column = q - place[kPlaceEraseLeft];
      if (erases && erase_column >= 0 && erase_column < place[kPlaceEraseWidth]) {
        for (int64_t c = 0; c < channels; ++c) to[c] = T(static_cast<A>(erased[c]));
      } else if (inside && column >= 0 && column < x.w) {
        const uint8_t* from = x.pixel(n, row, column);
        for (int64_t c = 0; c < channels; ++c) {
          const float value = __builtin_fmaf(static_cast<float>(from[c]), scale[c], shift[c]);
          to[c] = T(static_cast<A>(value));
        }
      } else {
        for (int64_t c = 0; c < channels; ++c) to[c] = T(static_cast<A>(shift[c]));
      }
    }
  });
}

}  // namespace

void crop_images(const View& x, const View& placements, const View& coefficients, const View& y) {
  visit_floating(y.dtype, [&]<class T>(Type<T>) {
    switch (x.shape[1]) {
      case 1: return crop_rows<T, 1>(x, placements, coefficients, y);
      case 3: return crop_rows<T, 3>(x, placements, coefficients, y);
      default: return crop_rows<T, 0>(x, placements, coefficients, y);
    }
  });
}

}  // namespace wick::WICK_ISA
