#ifdef __AVX512F__

#include "wick/kernels/cpu/amx_tiles.h"

namespace wick::WICK_ISA {

namespace amx {
namespace {

// A thread's copy of images of the source stays near this many bytes: half of its cache.
constexpr int64_t kSourceBytes = int64_t{1} << 20;

/// result = source convolved with weights: the forward pass, or the one to x's gradient, of which
/// every stride-th pixel, a phase, sees its own part of the kernel.
class Convolution {
 public:
  WICK_INLINE Convolution(const View& source, const View& weight, const View& bias,
                          const View& result, const Conv2dParams& params, bool backward,
                          Workspace& workspace)
      : from_(source),
        to_(result),
        weight_(weight.as<BFloat16>()),
        bias_(bias.as<BFloat16>()),
        stride_{params.stride[0], params.stride[1]},
        backward_(backward),
        kernel_{weight.shape[2], weight.shape[3]},
        params_(params),
        grid_(axis(0), axis(1)),
        planes_(backward ? 1 : stride_[0] * stride_[1]),
        pitch_(from_.c + kBlock),
        outputs_(to_.c / kBlock),
        inputs_(from_.c / kBlock) {
    const int64_t threads = num_threads();
    const int64_t image_bytes = planes_ * grid_.image() * pitch_ * 2;
    block_ = smaller(larger(1, kSourceBytes / image_bytes), (from_.n + threads - 1) / threads);
    blocks_ = (from_.n + block_ - 1) / block_;
    if (to_.w % (kTile * phases(1)) == 0) tiles_of_row_ = to_.w / phases(1) / kTile;
    tiles_of_image_ = tiles_of_row_ * ((to_.h + phases(0) - 1) / phases(0));
    positions_ = round_up(block_ * grid_.image(), kBlock);
    plane_ = (grid_.before + positions_ + grid_.after) * pitch_;
    threads_ = smaller(threads, blocks_ * outputs_);
    packed_ = halves(workspace, outputs_ * inputs_ * taps() * 2 * kTileHalves);
    copies_ = halves(workspace, threads_ * planes_ * plane_);
  }

  WICK_INLINE void run() const {
    pack();
    // Blocks of images times blocks of channels: a thread copies the images that it begins.
    parallel_for(threads_, 1, [&](int64_t thread, int64_t) {
      BFloat16* copy = copies_ + thread * planes_ * plane_;
      __builtin_memset(static_cast<void*>(copy), 0, static_cast<size_t>(planes_ * plane_) * 2);
      const Tiles tiles;
      const int64_t units = blocks_ * outputs_, end = units * (thread + 1) / threads_;
      for (int64_t unit = units * thread / threads_; unit < end;) {
        const int64_t block = unit / outputs_, first = unit % outputs_;
        const int64_t last = smaller(outputs_, first + end - unit);
        const int64_t image = block * block_, count = smaller(block_, from_.n - image);
        load(image, count, copy);
        for (int64_t output = first; output < last; ++output) compute(image, count, copy, output);
        unit += last - first;
      }
    });
  }

 private:
  WICK_INLINE int64_t taps() const { return kernel_[0] * kernel_[1]; }
  WICK_INLINE int64_t phases(int i) const { return backward_ ? stride_[i] : 1; }
  WICK_INLINE Reach reach(int i, int64_t tap, int64_t phase) const {
    const Conv2dParams& p = params_;
    return backward_ ? reach_backward(tap, p.stride[i], p.padding[i], p.dilation[i], phase)
                     : reach_forward(tap, p.stride[i], p.padding[i], p.dilation[i]);
  }
  WICK_INLINE Axis axis(int i) const {
    const int64_t source = i == 0 ? from_.h : from_.w, result = i == 0 ? to_.h : to_.w;
    const int64_t stride = stride_[i];
    Axis axis(backward_ ? source : (source + stride - 1) / stride,
              backward_ ? (result + stride - 1) / stride : result);
    for (int64_t phase = 0; phase < phases(i); ++phase) {
      for (int64_t tap = 0; tap < kernel_[i]; ++tap) {
        const Reach r = reach(i, tap, phase);
        if (r.used) axis.include(r.shift);
      }
    }
    return axis;
  }

  // The weights as tiles: by outputs, inputs and elements of the kernel; two tiles of 16 outputs.
  WICK_INLINE void pack() const {
    parallel_for(outputs_ * inputs_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        BFloat16* to = packed_ + i * taps() * 2 * kTileHalves;
        const int64_t output = i / inputs_ * kBlock, input = i % inputs_ * kBlock;
        for (int64_t tap = 0; tap < taps(); ++tap, to += 2 * kTileHalves) {
          if (backward_) {
            pack_pairs(input, output, tap, to);
          } else {
            pack_transposed(output, input, tap, to);
          }
        }
      }
    });
  }
  WICK_INLINE const BFloat16* weight(int64_t k, int64_t tap, int64_t c) const {
    return weight_ + (k * taps() + tap) * (backward_ ? to_.c : from_.c) + c;
  }
  WICK_INLINE void pack_transposed(int64_t k, int64_t c, int64_t tap, BFloat16* to) const {
    for (int64_t half = 0; half < 2; ++half) {
      __m512i r[kTile];
      for (int64_t i = 0; i < kTile; ++i) {
        r[i] = _mm512_loadu_si512(weight(k + half * kTile + i, tap, c));
      }
      transpose(r);
      for (int64_t i = 0; i < kTile; ++i) {
        _mm512_store_si512(to + half * kTileHalves + i * kBlock, r[i]);
      }
    }
  }
  WICK_INLINE void pack_pairs(int64_t k, int64_t c, int64_t tap, BFloat16* to) const {
    for (int64_t i = 0; i < kTile; ++i) {
      const Pairs pairs(_mm512_loadu_si512(weight(k + 2 * i, tap, c)),
                        _mm512_loadu_si512(weight(k + 2 * i + 1, tap, c)));
      _mm512_store_si512(to + i * kBlock, pairs.low);
      _mm512_store_si512(to + kTileHalves + i * kBlock, pairs.high);
    }
  }

  // Copies images to their places in the planes, where the zeros already are.
  WICK_INLINE void load(int64_t image, int64_t count, BFloat16* copy) const {
    const int64_t rows = backward_ ? 1 : stride_[0], columns = backward_ ? 1 : stride_[1];
    for (int64_t row = 0; row < count * from_.h; ++row) {
      const int64_t i = row / from_.h, y = row % from_.h;
      const int64_t at = grid_.before + i * grid_.image() + y / rows * grid_.columns;
      for (int64_t first = 0; first < columns; ++first) {
        BFloat16* to = copy + (y % rows * columns + first) * plane_ + at * pitch_;
        for (int64_t x = first; x < from_.w; x += columns, to += pitch_) {
          const BFloat16* pixel = from_.pixel(image + i, y, x);
          for (int64_t c = 0; c < from_.c; c += kBlock) {
            _mm512_store_si512(to + c, _mm512_loadu_si512(pixel + c));
          }
        }
      }
    }
  }

  WICK_INLINE void compute(int64_t image, int64_t count, const BFloat16* copy,
                           int64_t output) const {
    for (int64_t y = 0; y < phases(0); ++y) {
      for (int64_t x = 0; x < phases(1); ++x) compute_phase(image, count, copy, output, y, x);
    }
  }

  WICK_INLINE void compute_phase(int64_t image, int64_t count, const BFloat16* copy, int64_t output,
                                 int64_t phase_y, int64_t phase_x) const {
    struct Step {
      int64_t source, weight;
    } steps[kMostTaps];
    int64_t used = 0;
    for (int64_t tap = 0; tap < taps(); ++tap) {
      const Reach y = reach(0, tap / kernel_[1], phase_y), x = reach(1, tap % kernel_[1], phase_x);
      if (!y.used || !x.used) continue;
      const int64_t plane = y.plane * stride_[1] + x.plane;
      const int64_t shift = y.shift * grid_.columns + x.shift;
      steps[used++] = {plane * plane_ + (grid_.before + shift) * pitch_, tap * 2 * kTileHalves};
    }
    const BFloat16* weights = packed_ + output * inputs_ * taps() * 2 * kTileHalves;
    const int64_t tiles = tiles_of(count);
    for (int64_t tile = 0; tile < tiles; tile += 2) {
      const int64_t at = place(tile), next = tile + 1 < tiles ? place(tile + 1) : at;
      zero_block();
      for (int64_t input = 0; input < inputs_; ++input) {
        const BFloat16* a = copy + at * pitch_ + input * kBlock;
        const BFloat16* b = weights + input * taps() * 2 * kTileHalves;
        for (int64_t i = 0; i < used; ++i) {
          multiply_block(a + steps[i].source, (next - at) * pitch_, pitch_ * 2, b + steps[i].weight,
                         kTileHalves, 64);
        }
      }
      alignas(64) float sums[kBlock * kBlock];
      store_block(sums);
      store(image, count, at, sums, output * kBlock, phase_y, phase_x);
      if (next == at) continue;
      store(image, count, next, sums + kTile * kBlock, output * kBlock, phase_y, phase_x);
    }
  }

  // Tiles follow one another in the row of all numbers, or leave out the zeros between rows, where
  // whole tiles make up a row of results.
  WICK_INLINE int64_t tiles_of(int64_t images) const {
    if (tiles_of_row_ == 0) return (images * grid_.image() + kTile - 1) / kTile;
    return images * tiles_of_image_;
  }
  // The number of a tile's first pixel.
  WICK_INLINE int64_t place(int64_t tile) const {
    if (tiles_of_row_ == 0) return tile * kTile;
    const int64_t image = tile / tiles_of_image_, in_image = tile % tiles_of_image_;
    const int64_t row = in_image / tiles_of_row_, in_row = in_image % tiles_of_row_;
    return image * grid_.image() + row * grid_.columns + in_row * kTile;
  }

  // Writes the results of a tile that lie in one of `images` images.
  WICK_INLINE void store(int64_t image, int64_t images, int64_t at, const float* sums, int64_t k,
                         int64_t phase_y, int64_t phase_x) const {
    VecF bias[2] = {VecF(0), VecF(0)};
    if (bias_ != nullptr) {
      bias[0] = VecF::load(bias_ + k);
      bias[1] = VecF::load(bias_ + k + kTile);
    }
    int64_t i = at / grid_.image(), y = at % grid_.image() / grid_.columns;
    int64_t x = at % grid_.columns;
    const int64_t rows = phases(0), columns = phases(1);
    for (int64_t n = 0; n < kTile && i < images; ++n, sums += kBlock) {
      const int64_t py = y * rows + phase_y, px = x * columns + phase_x;
      if (py < to_.h && px < to_.w) {
        BFloat16* to = to_.pixel(image + i, py, px) + k;
        (VecF::load(sums) + bias[0]).store(to);
        (VecF::load(sums + kTile) + bias[1]).store(to + kTile);
      }
      if (++x < grid_.columns) continue;
      x = 0;
      if (++y < grid_.rows) continue;
      y = 0;
      ++i;
    }
  }

  Images<const BFloat16> from_;
  Images<BFloat16> to_;
  const BFloat16 *weight_, *bias_;
  int64_t stride_[2];
  bool backward_;
  int64_t kernel_[2];
  Conv2dParams params_;
  Grid grid_;
  int64_t planes_, pitch_;
  int64_t outputs_, inputs_;  // channels, in blocks
  int64_t block_, blocks_;    // images of a block, and how many blocks
  int64_t tiles_of_row_ = 0, tiles_of_image_;
  int64_t positions_, plane_, threads_;
  BFloat16 *packed_, *copies_;
};

}  // namespace
}  // namespace amx

void amx_forward(const View& x, const View& weight, const View& bias, const View& y,
                 const Conv2dParams& params, Workspace& workspace) {
  amx::Convolution(x, weight, bias, y, params, false, workspace).run();
}

void amx_backward_data(const View& dy, const View& weight, const View& dx,
                       const Conv2dParams& params, Workspace& workspace) {
  amx::Convolution(dy, weight, View{}, dx, params, true, workspace).run();
}

}  // namespace wick::WICK_ISA

#endif
