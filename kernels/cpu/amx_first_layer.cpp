#ifdef __AVX512F__

#include "wick/kernels/cpu/amx_tiles.h"

namespace wick::WICK_ISA {

namespace amx {
namespace {

// The first layers see images of few channels, such as photographs. A line of a patch, its pixels
// side by side, is what a tile has of it: neighbouring patches overlap in a line of the image.
// Channels are filled up to an even number.

/// The lines of an image that some rows of results are made of, with zeros around.
struct PatchLines {
  Images<const BFloat16> images;
  Conv2dParams params;
  int64_t kernel[2], rows_to, columns_to;
  int64_t channels, inner;  // of a pixel and of a line of a patch, as tiles have them
  int64_t step, pitch;      // elements from a patch to the next, and from a line to the next
  int64_t rows, chunks;     // rows of results at a time, and how many times
  int64_t count;            // of lines

  WICK_INLINE PatchLines(const View& x, const View& weight, const View& y, const Conv2dParams& conv)
      : images(x),
        params(conv),
        kernel{weight.shape[2], weight.shape[3]},
        rows_to(y.shape[2]),
        columns_to(y.shape[3]),
        channels(round_up(images.c, 2)),
        inner(kernel[1] * channels),
        step(params.stride[1] * channels),
        pitch(round_up((round_up(columns_to, kBlock) - 1) * step + kBlock, kBlock)) {}

  WICK_INLINE void split(int64_t rows_at_a_time) {
    rows = smaller(rows_to, larger(1, rows_at_a_time));
    chunks = (rows_to + rows - 1) / rows;
    count = (rows - 1) * params.stride[0] + (kernel[0] - 1) * params.dilation[0] + 1;
  }
  WICK_INLINE int64_t units() const { return images.n * chunks; }

  /// Copies those of chunk `chunk` of an image.
  WICK_INLINE void load(int64_t image, int64_t chunk, BFloat16* lines) const {
    __builtin_memset(static_cast<void*>(lines), 0, static_cast<size_t>(count * pitch) * 2);
    // As many pixels as fit a vector at a time.
    const int64_t pixels = kBlock / channels;
    alignas(64) uint16_t order[kBlock];
    uint32_t used = 0;
    for (int64_t i = 0; i < kBlock; ++i) {
      const int64_t c = i % channels;
      order[i] = static_cast<uint16_t>(i / channels * images.c + c);
      if (c < images.c && i / channels < pixels) used |= uint32_t{1} << i;
    }
    const __m512i places = _mm512_load_si512(order);
    const int64_t first = chunk * rows * params.stride[0] - params.padding[0];
    const int64_t before = params.padding[1];
    const int64_t width = smaller(images.w, pitch / channels - before);
    for (int64_t line = 0; line < count; ++line) {
      const int64_t y = first + line;
      if (y < 0 || y >= images.h) continue;
      BFloat16* to = lines + line * pitch + before * channels;
      const BFloat16* pixel = images.pixel(image, y, 0);
      for (int64_t x = 0; x < width; x += pixels) {
        const int64_t n = smaller(pixels, width - x);
        const __m512i read = _mm512_maskz_loadu_epi16(first_lanes(n * images.c), pixel);
        const __m512i spread = _mm512_maskz_permutexvar_epi16(used, places, read);
        _mm512_mask_storeu_epi16(to, first_lanes(n * channels), spread);
        pixel += n * images.c;
        to += n * channels;
      }
    }
  }
  static WICK_INLINE __mmask32 first_lanes(int64_t n) {
    return static_cast<__mmask32>((uint64_t{1} << n) - 1);
  }
};

// A thread's copy of lines of an image stays near this many bytes.
constexpr int64_t kLinesBytes = int64_t{1} << 17;

/// The forward pass: a tile of 16 neighbouring patches is loaded from where they overlap.
class FirstLayer {
 public:
  WICK_INLINE FirstLayer(const View& x, const View& weight, const View& bias, const View& y,
                         const Conv2dParams& params, Workspace& workspace)
      : lines_(x, weight, y, params),
        to_(y),
        weight_(weight.as<BFloat16>()),
        bias_(bias.as<BFloat16>()),
        outputs_(to_.c / kBlock) {
    lines_.split(kLinesBytes / (lines_.pitch * 2 * params.stride[0]));
    threads_ = smaller(num_threads(), lines_.units());
    packed_ = halves(workspace, outputs_ * lines_.kernel[0] * 2 * kTileHalves);
    copies_ = halves(workspace, threads_ * lines_.count * lines_.pitch);
  }

  WICK_INLINE void run() const {
    pack();
    const int64_t units = lines_.units();
    parallel_for(threads_, 1, [&](int64_t thread, int64_t) {
      BFloat16* lines = copies_ + thread * lines_.count * lines_.pitch;
      const Tiles tiles(lines_.inner);
      const int64_t end = units * (thread + 1) / threads_;
      for (int64_t unit = units * thread / threads_; unit < end; ++unit) {
        const int64_t image = unit / lines_.chunks, chunk = unit % lines_.chunks;
        lines_.load(image, chunk, lines);
        const int64_t first = chunk * lines_.rows;
        for (int64_t row = first; row < smaller(first + lines_.rows, to_.h); ++row) {
          compute(image, row, lines + (row - first) * lines_.params.stride[0] * lines_.pitch);
        }
      }
    });
  }

 private:
  // By outputs and lines of the kernel: two tiles of 16 outputs, pairs of a line's elements.
  WICK_INLINE void pack() const {
    const int64_t rows = lines_.kernel[0], columns = lines_.kernel[1], channels = lines_.channels;
    for (int64_t tile = 0; tile < outputs_ * rows * 2; ++tile) {
      const int64_t line = tile / 2 % rows;
      const int64_t output = tile / 2 / rows * kBlock + tile % 2 * kTile;
      BFloat16* to = packed_ + tile * kTileHalves;
      for (int64_t i = 0; i < lines_.inner; ++i) {
        const int64_t column = i / channels, c = i % channels;
        for (int64_t k = 0; k < kTile; ++k) {
          const int64_t at = ((output + k) * rows + line) * columns + column;
          to[i / 2 * kBlock + 2 * k + i % 2] =
              c < lines_.images.c ? weight_[at * lines_.images.c + c] : BFloat16(0.0f);
        }
      }
    }
  }

  WICK_INLINE void compute(int64_t image, int64_t row, const BFloat16* lines) const {
    const int64_t line = lines_.params.dilation[0] * lines_.pitch, step = lines_.step;
    for (int64_t column = 0; column < to_.w; column += kBlock) {
      const BFloat16* b = packed_;
      for (int64_t output = 0; output < outputs_; ++output) {
        const BFloat16* a = lines + column * step;
        zero_block();
        for (int64_t i = 0; i < lines_.kernel[0]; ++i, a += line, b += 2 * kTileHalves) {
          multiply_block(a, kTile * step, step * 2, b, kTileHalves, 64);
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

  PatchLines lines_;
  Images<BFloat16> to_;
  const BFloat16 *weight_, *bias_;
  int64_t outputs_;  // channels, in blocks
  int64_t threads_;
  BFloat16 *packed_, *copies_;
};

// About as many pixels of dy are multiplied at a time, so that those of 32 channels fit the cache.
constexpr int64_t kGradientPixels = 512;
// Sums over parts of the images, which are added in the end, take at most about so many bytes.
constexpr int64_t kGradientParts = 32;
constexpr int64_t kGradientBytes = int64_t{4} << 20;

/// The gradient of the weights: for each line of the kernel the product of dy, its pixels side by
/// side, and of the lines of their patches.
class FirstLayerGradient {
 public:
  WICK_INLINE FirstLayerGradient(const View& x, const View& dy, const View& dweight,
                                 const Conv2dParams& params, Workspace& workspace)
      : lines_(x, dweight, dy, params),
        dy_(dy),
        dweight_(dweight.as<BFloat16>()),
        outputs_(dy_.c / kBlock),
        columns_(round_up(dy_.w, kBlock)) {
    lines_.split(kGradientPixels / columns_);
    const int64_t most = larger(1, kGradientBytes / (sums_of_part() * 4));
    parts_ = smaller(smaller(kGradientParts, most), lines_.units());
    threads_ = smaller(num_threads(), parts_);
    pitch_ = lines_.rows * columns_ + kBlock;
    sums_ =
        static_cast<float*>(workspace.allocate(static_cast<size_t>(parts_ * sums_of_part()) * 4));
    copies_ = halves(workspace, threads_ * lines_.count * lines_.pitch);
    pairs_ = halves(workspace, threads_ * lines_.count * columns_ * kBlock);
    transposed_ = halves(workspace, threads_ * dy_.c * pitch_);
  }

  WICK_INLINE void run() const {
    const int64_t units = lines_.units();
    parallel_for(threads_, 1, [&](int64_t thread, int64_t) {
      const Tiles tiles;
      // Columns beyond the image stay 0.
      BFloat16* pairs = pairs_ + thread * lines_.count * columns_ * kBlock;
      __builtin_memset(static_cast<void*>(pairs), 0,
                       static_cast<size_t>(lines_.count * columns_ * kBlock) * 2);
      const int64_t last = parts_ * (thread + 1) / threads_;
      for (int64_t part = parts_ * thread / threads_; part < last; ++part) {
        const int64_t begin = units * part / parts_, end = units * (part + 1) / parts_;
        for (int64_t unit = begin; unit < end; ++unit) {
          add(thread, unit, pairs, unit > begin, sums_ + part * sums_of_part());
        }
      }
    });
    finish();
  }

 private:
  WICK_INLINE int64_t sums_of_part() const { return outputs_ * lines_.kernel[0] * kBlock * kBlock; }

  WICK_INLINE void add(int64_t thread, int64_t unit, BFloat16* pairs, bool accumulate,
                       float* sums) const {
    BFloat16* copy = copies_ + thread * lines_.count * lines_.pitch;
    BFloat16* transposed = transposed_ + thread * dy_.c * pitch_;
    const int64_t image = unit / lines_.chunks, chunk = unit % lines_.chunks;
    const int64_t first = chunk * lines_.rows, rows = smaller(lines_.rows, dy_.h - first);
    lines_.load(image, chunk, copy);
    for (int64_t line = 0; line < lines_.count; ++line) {
      pair_patches(copy + line * lines_.pitch, pairs + line * columns_ * kBlock);
    }
    for (int64_t output = 0; output < outputs_; ++output) {
      transpose_gradient(image, first, rows, output * kBlock,
                         transposed + output * kBlock * pitch_);
    }
    for (int64_t output = 0; output < outputs_; ++output) {
      for (int64_t line = 0; line < lines_.kernel[0]; ++line, sums += kBlock * kBlock) {
        multiply(transposed + output * kBlock * pitch_,
                 pairs + line * lines_.params.dilation[0] * columns_ * kBlock, rows, accumulate,
                 sums);
      }
    }
  }

  // The line's patches, two neighbours side by side: their first 16 elements, then the others.
  WICK_INLINE void pair_patches(const BFloat16* line, BFloat16* to) const {
    const __m512i zero = _mm512_setzero_si512();
    const int64_t step = lines_.step;
    for (int64_t x = 0; x < dy_.w; x += 2, line += 2 * step, to += 2 * kBlock) {
      const Pairs pairs(_mm512_loadu_si512(line),
                        x + 1 < dy_.w ? _mm512_loadu_si512(line + step) : zero);
      _mm512_store_si512(to, pairs.low);
      _mm512_store_si512(to + kBlock, pairs.high);
    }
  }

  // dy's 32 channels from k on, a row of pixels each.
  WICK_INLINE void transpose_gradient(int64_t image, int64_t first, int64_t rows, int64_t k,
                                      BFloat16* to) const {
    Transposer put(to, pitch_);
    const __m512i zero = _mm512_setzero_si512();
    int64_t position = 0;
    for (int64_t y = first; y < first + rows; ++y) {
      const BFloat16* pixel = dy_.pixel(image, y, 0) + k;
      for (int64_t x = 0; x < dy_.w; ++x, pixel += dy_.c) {
        put(position++, _mm512_loadu_si512(pixel));
      }
      for (int64_t x = dy_.w; x < columns_; ++x) put(position++, zero);
    }
  }

  WICK_INLINE void multiply(const BFloat16* a, const BFloat16* b, int64_t rows, bool accumulate,
                            float* sums) const {
    if (accumulate) {
      load_block(sums);
    } else {
      zero_block();
    }
    for (int64_t row = 0; row < rows; ++row, b += lines_.params.stride[0] * columns_ * kBlock) {
      for (int64_t x = 0; x < columns_; x += kBlock, a += kBlock) {
        multiply_block(a, kTile * pitch_, pitch_ * 2, b + x * kBlock, kBlock, 2 * kBlock * 2);
      }
    }
    store_block(sums);
  }

  // Adds up the parts, and writes the sums as the weights lie: outputs, kernel, inputs.
  WICK_INLINE void finish() const {
    const int64_t lines = lines_.kernel[0];
    parallel_for(outputs_ * lines, 1, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        for (int64_t k = 0; k < kBlock; ++k) {
          const int64_t output = block / lines * kBlock + k;
          finish_line(sums_ + (block * kBlock + k) * kBlock, output * lines + block % lines);
        }
      }
    });
  }
  WICK_INLINE void finish_line(const float* sums, int64_t line) const {
    const int64_t channels = lines_.images.c;
    VecF totals[2] = {VecF(0), VecF(0)};
    for (int64_t part = 0; part < parts_; ++part, sums += sums_of_part()) {
      totals[0] += VecF::load(sums);
      totals[1] += VecF::load(sums + kTile);
    }
    alignas(64) float total[kBlock];
    totals[0].store(total);
    totals[1].store(total + kTile);
    BFloat16* to = dweight_ + line * lines_.kernel[1] * channels;
    for (int64_t i = 0; i < lines_.inner; ++i) {
      if (i % lines_.channels < channels) *to++ = BFloat16(total[i]);
    }
  }

  PatchLines lines_;
  Images<const BFloat16> dy_;
  BFloat16* dweight_;
  int64_t outputs_;          // channels, in blocks
  int64_t columns_, pitch_;  // of a row of dy with its zeros; from a channel to the next
  int64_t parts_, threads_;
  float* sums_;
  BFloat16 *copies_, *pairs_, *transposed_;
};

}  // namespace
}  // namespace amx

void amx_first_layer(const View& x, const View& weight, const View& bias, const View& y,
                     const Conv2dParams& params, Workspace& workspace) {
  amx::FirstLayer(x, weight, bias, y, params, workspace).run();
}

void amx_first_backward_weights(const View& x, const View& dy, const View& dweight,
                                const Conv2dParams& params, Workspace& workspace) {
  amx::FirstLayerGradient(x, dy, dweight, params, workspace).run();
}

}  // namespace wick::WICK_ISA

#endif
