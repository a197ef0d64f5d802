#ifdef __AVX512F__

#include "wick/kernels/cpu/amx_tiles.h"

namespace wick::WICK_ISA {

namespace amx {
namespace {

// A thread's copy of lines of an image stays near this many bytes.
constexpr int64_t kLinesBytes = int64_t{1} << 17;

/// The forward pass for images of few channels, such as photographs. A line of a patch, its pixels
/// side by side, is what a tile multiplies at a time: 16 neighbouring patches overlap in the image,
/// and a tile is loaded from there. Channels are filled up to an even number.
class FirstLayer {
 public:
  WICK_INLINE FirstLayer(const View& x, const View& weight, const View& bias, const View& y,
                         const Conv2dParams& params, Workspace& workspace)
      : from_(x),
        to_(y),
        weight_(weight.as<BFloat16>()),
        bias_(bias.as<BFloat16>()),
        params_(params),
        kernel_{weight.shape[2], weight.shape[3]},
        channels_(round_up(from_.c, 2)),
        inner_(kernel_[1] * channels_),
        step_(params.stride[1] * channels_),
        pitch_(round_up((round_up(to_.w, kBlock) - 1) * step_ + kBlock, kBlock)),
        outputs_(to_.c / kBlock),
        rows_(smaller(to_.h, larger(1, kLinesBytes / (pitch_ * 2 * params.stride[0])))),
        chunks_((to_.h + rows_ - 1) / rows_),
        lines_((rows_ - 1) * params.stride[0] + (kernel_[0] - 1) * params.dilation[0] + 1),
        threads_(smaller(num_threads(), from_.n * chunks_)),
        packed_(halves(workspace, outputs_ * kernel_[0] * 2 * kTileHalves)),
        copies_(halves(workspace, threads_ * lines_ * pitch_)) {}

  WICK_INLINE void run() const {
    pack();
    const int64_t units = from_.n * chunks_;
    parallel_for(threads_, 1, [&](int64_t thread, int64_t) {
      BFloat16* lines = copies_ + thread * lines_ * pitch_;
      const Tiles tiles(inner_);
      const int64_t end = units * (thread + 1) / threads_;
      for (int64_t unit = units * thread / threads_; unit < end; ++unit) {
        const int64_t image = unit / chunks_, first = unit % chunks_ * rows_;
        load(image, first * params_.stride[0] - params_.padding[0], lines);
        for (int64_t row = first; row < smaller(first + rows_, to_.h); ++row) {
          compute(image, row, lines + (row - first) * params_.stride[0] * pitch_);
        }
      }
    });
  }

 private:
  static WICK_INLINE BFloat16* halves(Workspace& workspace, int64_t count) {
    return static_cast<BFloat16*>(workspace.allocate(static_cast<size_t>(count) * 2));
  }

  // By outputs and lines of the kernel: two tiles of 16 outputs, pairs of a line's elements.
  WICK_INLINE void pack() const {
    for (int64_t tile = 0; tile < outputs_ * kernel_[0] * 2; ++tile) {
      const int64_t line = tile / 2 % kernel_[0];
      const int64_t output = tile / 2 / kernel_[0] * kBlock + tile % 2 * kTile;
      BFloat16* to = packed_ + tile * kTileHalves;
      for (int64_t i = 0; i < inner_; ++i) {
        const int64_t column = i / channels_, c = i % channels_;
        for (int64_t k = 0; k < kTile; ++k) {
          const int64_t at = ((output + k) * kernel_[0] + line) * kernel_[1] + column;
          to[i / 2 * kBlock + 2 * k + i % 2] =
              c < from_.c ? weight_[at * from_.c + c] : BFloat16(0.0f);
        }
      }
    }
  }

  // Copies the lines of an image from `first` on, with zeros around.
  WICK_INLINE void load(int64_t image, int64_t first, BFloat16* lines) const {
    __builtin_memset(static_cast<void*>(lines), 0, static_cast<size_t>(lines_ * pitch_) * 2);
    // As many pixels as fit a vector at a time.
    const int64_t pixels = kBlock / channels_;
    alignas(64) uint16_t order[kBlock];
    uint32_t used = 0;
    for (int64_t i = 0; i < kBlock; ++i) {
      const int64_t c = i % channels_;
      order[i] = static_cast<uint16_t>(i / channels_ * from_.c + c);
      if (c < from_.c && i / channels_ < pixels) used |= uint32_t{1} << i;
    }
    const __m512i places = _mm512_load_si512(order);
    const int64_t before = params_.padding[1];
    const int64_t width = smaller(from_.w, pitch_ / channels_ - before);
    for (int64_t line = 0; line < lines_; ++line) {
      const int64_t y = first + line;
      if (y < 0 || y >= from_.h) continue;
      BFloat16* to = lines + line * pitch_ + before * channels_;
      const BFloat16* pixel = from_.pixel(image, y, 0);
      for (int64_t x = 0; x < width; x += pixels) {
        const int64_t count = smaller(pixels, width - x);
        const __m512i read = _mm512_maskz_loadu_epi16(first_lanes(count * from_.c), pixel);
        const __m512i spread = _mm512_maskz_permutexvar_epi16(used, places, read);
        _mm512_mask_storeu_epi16(to, first_lanes(count * channels_), spread);
        pixel += count * from_.c;
        to += count * channels_;
      }
    }
  }
  static WICK_INLINE __mmask32 first_lanes(int64_t count) {
    return static_cast<__mmask32>((uint64_t{1} << count) - 1);
  }

  WICK_INLINE void compute(int64_t image, int64_t row, const BFloat16* lines) const {
    const int64_t line = params_.dilation[0] * pitch_;
    for (int64_t column = 0; column < to_.w; column += kBlock) {
      const BFloat16* b = packed_;
      for (int64_t output = 0; output < outputs_; ++output) {
        const BFloat16* a = lines + column * step_;
        zero_block();
        for (int64_t i = 0; i < kernel_[0]; ++i, a += line, b += 2 * kTileHalves) {
          multiply_block(a, kTile * step_, step_ * 2, b, kTileHalves, 64);
        }
        alignas(64) float sums[kBlock * kBlock];
        store_block(sums);
        store(to_.pixel(image, row, column) + output * kBlock, smaller(kBlock, to_.w - column),
              sums, output * kBlock);
      }
    }
  }

  WICK_INLINE void store(BFloat16* to, int64_t count, const float* sums, int64_t k) const {
    VecF bias[2] = {VecF(0), VecF(0)};
    if (bias_ != nullptr) {
      bias[0] = VecF::load(bias_ + k);
      bias[1] = VecF::load(bias_ + k + kTile);
    }
    for (int64_t n = 0; n < count; ++n, sums += kBlock, to += to_.c) {
      (VecF::load(sums) + bias[0]).store(to);
      (VecF::load(sums + kTile) + bias[1]).store(to + kTile);
    }
  }

  Images<const BFloat16> from_;
  Images<BFloat16> to_;
  const BFloat16 *weight_, *bias_;
  Conv2dParams params_;
  int64_t kernel_[2];
  int64_t channels_, inner_;  // of a pixel and of a line of a patch, as tiles have them
  int64_t step_, pitch_;      // elements from a patch to the next, and from a line to the next
  int64_t outputs_;           // channels, in blocks
  int64_t rows_, chunks_;     // rows of results at a time, and how many times
  int64_t lines_;             // which those are made of
  int64_t threads_;
  BFloat16 *packed_, *copies_;
};

}  // namespace
}  // namespace amx

void amx_first_layer(const View& x, const View& weight, const View& bias, const View& y,
                     const Conv2dParams& params, Workspace& workspace) {
  amx::FirstLayer(x, weight, bias, y, params, workspace).run();
}

}  // namespace wick::WICK_ISA

#endif
