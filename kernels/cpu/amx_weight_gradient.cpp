#ifdef __AVX512F__

#include "wick/kernels/cpu/amx_tiles.h"

namespace wick::WICK_ISA {

namespace amx {
namespace {

// About as many pixels are multiplied at a time, so that those of 32 channels fit the cache.
constexpr int64_t kPositions = 4096;
// Sums over parts of the images, which are added in the end, take about so many bytes.
constexpr int64_t kPartialBytes = int64_t{4} << 20;
constexpr int64_t kMostParts = 8;
// Pixels are fetched this many ahead: their lines are too far apart for the processor to foresee.
constexpr int64_t kAhead = 24;

/// dweight: for each element of the kernel the product of dy, its pixels side by side, and of x.
class WeightGradient {
 public:
  WICK_INLINE WeightGradient(const View& x, const View& dy, const View& dweight,
                             const Conv2dParams& params, Workspace& workspace)
      : x_(x),
        dy_(dy),
        dweight_(dweight.as<BFloat16>()),
        params_(params),
        kernel_{dweight.shape[2], dweight.shape[3]},
        grid_(axis(0), axis(1)),
        planes_(params.stride[0] * params.stride[1]),
        outputs_(dy_.c / kBlock),
        inputs_(x_.c / kBlock) {
    const int64_t threads = num_threads();
    group_ = smaller(larger(1, kPositions / grid_.image()), x_.n);
    const int64_t bytes = outputs_ * inputs_ * taps() * kBlock * kBlock * 4;
    parts_ = smaller(larger(1, smaller(kMostParts, kPartialBytes / bytes)),
                     (x_.n + group_ - 1) / group_);
    positions_ = round_up(group_ * grid_.image(), kBlock);
    pitch_ = positions_ + kBlock;
    pairs_ = (grid_.before + positions_ + grid_.after) / 2 + kTile;
    threads_ = smaller(threads, parts_ * outputs_);
    sums_ = static_cast<float*>(workspace.allocate(static_cast<size_t>(parts_ * bytes)));
    lines_ = halves(workspace, threads_ * planes_ * 2 * pairs_ * 2 * kBlock);
    transposed_ = halves(workspace, threads_ * share() * kBlock * pitch_);
  }

  WICK_INLINE void run() const {
    // Parts of the images times blocks of outputs.
    parallel_for(threads_, 1, [&](int64_t thread, int64_t) {
      const Tiles tiles;
      const int64_t units = parts_ * outputs_, end = units * (thread + 1) / threads_;
      for (int64_t unit = units * thread / threads_; unit < end;) {
        const int64_t part = unit / outputs_, first = unit % outputs_;
        const int64_t last = smaller(outputs_, first + end - unit);
        add_part(thread, part, first, last);
        unit += last - first;
      }
    });
    finish();
  }

 private:
  WICK_INLINE int64_t taps() const { return kernel_[0] * kernel_[1]; }
  // The most blocks of outputs that one thread has of one part.
  WICK_INLINE int64_t share() const {
    return smaller(outputs_, (parts_ * outputs_ + threads_ - 1) / threads_);
  }
  WICK_INLINE Reach reach(int i, int64_t tap) const {
    return reach_forward(tap, params_.stride[i], params_.padding[i], params_.dilation[i]);
  }
  WICK_INLINE Axis axis(int i) const {
    const int64_t stride = params_.stride[i];
    Axis axis(((i == 0 ? x_.h : x_.w) + stride - 1) / stride, i == 0 ? dy_.h : dy_.w);
    for (int64_t tap = 0; tap < kernel_[i]; ++tap) axis.include(reach(i, tap).shift);
    return axis;
  }
  WICK_INLINE float* sums(int64_t part, int64_t output, int64_t input, int64_t tap) const {
    const int64_t block = ((part * outputs_ + output) * inputs_ + input) * taps() + tap;
    return sums_ + block * kBlock * kBlock;
  }

  WICK_INLINE void add_part(int64_t thread, int64_t part, int64_t first, int64_t last) const {
    BFloat16* lines = lines_ + thread * planes_ * 2 * pairs_ * 2 * kBlock;
    BFloat16* transposed = transposed_ + thread * share() * kBlock * pitch_;
    const int64_t start = x_.n * part / parts_, end = x_.n * (part + 1) / parts_;
    for (int64_t image = start; image < end; image += group_) {
      const int64_t count = smaller(group_, end - image);
      const int64_t positions = round_up(count * grid_.image(), kBlock);
      for (int64_t output = first; output < last; ++output) {
        transpose_gradient(image, count, positions, output * kBlock,
                           transposed + (output - first) * kBlock * pitch_);
      }
      for (int64_t input = 0; input < inputs_; ++input) {
        for (int64_t plane = 0; plane < planes_; ++plane) {
          pair_lines(image, count, positions, plane, input * kBlock,
                     lines + plane * 2 * pairs_ * 2 * kBlock);
        }
        for (int64_t output = first; output < last; ++output) {
          const BFloat16* a = transposed + (output - first) * kBlock * pitch_;
          for (int64_t tap = 0; tap < taps(); ++tap) {
            multiply(a, lines, positions, tap, image > start, sums(part, output, input, tap));
          }
        }
      }
    }
  }

  WICK_INLINE void multiply(const BFloat16* a, const BFloat16* lines, int64_t positions,
                            int64_t tap, bool accumulate, float* to) const {
    const Reach y = reach(0, tap / kernel_[1]), x = reach(1, tap % kernel_[1]);
    const int64_t plane = y.plane * params_.stride[1] + x.plane;
    const int64_t at = grid_.before + y.shift * grid_.columns + x.shift;
    const BFloat16* b = lines + ((plane * 2 + at % 2) * pairs_ + at / 2) * 2 * kBlock;
    if (accumulate) {
      load_block(to);
    } else {
      zero_block();
    }
    for (int64_t p = 0; p < positions; p += kBlock, a += kBlock, b += kTile * 2 * kBlock) {
      multiply_block(a, kTile * pitch_, pitch_ * 2, b, kBlock, 2 * kBlock * 2);
    }
    store_block(to);
  }

  // Calls `put(position, 32 elements)` for `positions` positions from -before on; those beyond
  // the image are 0.
  template <class Put>
  WICK_INLINE_ALL void each_position(const Images<const BFloat16>& from, int64_t image,
                                     int64_t count, int64_t c, int64_t first_row,
                                     int64_t first_column, int64_t row_step, int64_t column_step,
                                     Put&& put) const {
    const __m512i zero = _mm512_setzero_si512();
    int64_t position = 0;
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t row = 0; row < grid_.rows; ++row) {
        const int64_t y = first_row + row * row_step;
        int64_t column = 0;
        if (y < from.h) {
          for (int64_t x = first_column; x < from.w; x += column_step, ++column) {
            const BFloat16* line = from.pixel(image + i, y, x) + c;
            _mm_prefetch(line + kAhead * column_step * from.c, _MM_HINT_T0);
            put(position++, _mm512_loadu_si512(line));
          }
        }
        for (; column < grid_.columns; ++column) put(position++, zero);
      }
    }
  }

  // dy's 32 channels from k on, a row of pixels each.
  WICK_INLINE void transpose_gradient(int64_t image, int64_t count, int64_t positions, int64_t k,
                                      BFloat16* to) const {
    Transposer put(to, pitch_);
    each_position(dy_, image, count, k, 0, 0, 1, 1, put);
    const __m512i zero = _mm512_setzero_si512();
    for (int64_t position = count * grid_.image(); position < positions; ++position) {
      put(position, zero);
    }
  }

  // 32 channels of a plane of x from c on, two neighbouring pixels side by side: the pairs that
  // begin with an even pixel, then those that begin with an odd one.
  WICK_INLINE_ALL void pair_lines(int64_t image, int64_t count, int64_t positions, int64_t plane,
                                  int64_t c, BFloat16* to) const {
    const __m512i zero = _mm512_setzero_si512();
    __m512i before = zero;
    int64_t last = 0;
    const auto put = [&](int64_t position, __m512i line) {
      const Pairs pairs(before, line);
      before = line;
      last = position;
      if (position == 0) return;
      const int64_t first = position - 1;  // of the pair
      BFloat16* out = to + (first % 2 * pairs_ + first / 2) * 2 * kBlock;
      _mm512_store_si512(out, pairs.low);
      _mm512_store_si512(out + kBlock, pairs.high);
    };
    for (int64_t position = 0; position < grid_.before; ++position) put(position, zero);
    const int64_t columns = params_.stride[1];
    each_position(x_, image, count, c, plane / columns, plane % columns, params_.stride[0], columns,
                  [&](int64_t position, __m512i line) { put(grid_.before + position, line); });
    const int64_t end = grid_.before + positions + grid_.after + 1;
    while (last < end) put(last + 1, zero);
  }

  // Adds up the parts, and writes the sums as the weights lie: outputs, kernel, inputs.
  WICK_INLINE void finish() const {
    parallel_for(outputs_ * inputs_ * taps(), 4, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t tap = i % taps(), input = i / taps() % inputs_;
        const int64_t output = i / taps() / inputs_;
        for (int64_t k = 0; k < kBlock; ++k) {
          BFloat16* to = dweight_ + ((output * kBlock + k) * taps() + tap) * x_.c + input * kBlock;
          for (int64_t c = 0; c < kBlock; c += kTile) {
            VecF sum(0);
            for (int64_t part = 0; part < parts_; ++part) {
              sum += VecF::load(sums(part, output, input, tap) + k * kBlock + c);
            }
            sum.store(to + c);
          }
        }
      }
    });
  }

  Images<const BFloat16> x_, dy_;
  BFloat16* dweight_;
  Conv2dParams params_;
  int64_t kernel_[2];
  Grid grid_;
  int64_t planes_;
  int64_t outputs_, inputs_;  // channels, in blocks
  int64_t group_, parts_;     // images multiplied at a time; parts of the batch
  int64_t positions_, pitch_, pairs_, threads_;
  float* sums_;
  BFloat16 *lines_, *transposed_;
};

}  // namespace
}  // namespace amx

void amx_backward_weights(const View& x, const View& dy, const View& dweight,
                          const Conv2dParams& params, Workspace& workspace) {
  amx::WeightGradient(x, dy, dweight, params, workspace).run();
}

}  // namespace wick::WICK_ISA

#endif
