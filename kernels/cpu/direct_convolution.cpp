#include "wick/kernels/cpu/direct_convolution.h"

#include "wick/kernels/cpu/convolution_patches.h"
#include "wick/kernels/cpu/product_parts.h"

namespace wick::WICK_ISA {

namespace direct {
namespace {

constexpr int64_t kInnerBytes = 3072;   // of a row of a block of k: what decides the sums' order
constexpr int64_t kBlockRows = 48;      // patches that are packed at a time, in whole tiles
constexpr int64_t kMostColumns = 384;   // of the weights that stay in the second cache
constexpr int64_t kSumBytes = 1 << 18;  // of sums that several blocks of k add to
constexpr int64_t kThreadWork = 65536;  // multiplications that are worth a thread

// How a group's weights lie in memory: from one channel that is summed over to the next, from one
// column of the results to the next, from one element of the kernel to the next.
struct WeightSteps {
  int64_t inner, column, element, group;
};

// One pass of a convolution: results = patches x weights + bias.
template <class S>
class Convolution {
 public:
  using T = UnitOf<S>;

  // `x` is read, `y` written: x and y of the layer, or their gradients the other way round.
  WICK_INLINE Convolution(const View& x, const View& weight, const View& bias, const View& y,
                          int64_t groups, const PassAxis& rows, const PassAxis& columns,
                          const WeightSteps& steps, Workspace& workspace)
      : channels_(x.shape[1] / groups),
        outputs_(y.shape[1] / groups),
        groups_(groups),
        kernel_columns_(weight.shape[3]),
        patches_(x.as<S>(), rows, columns, channels_, x.shape[1]),
        w_(weight.as<S>()),
        bias_(bias.as<S>()),
        y_(y.as<S>()),
        results_(x.shape[0] * rows.count * columns.count),
        inner_(patches_.lines() * patches_.line_units()),
        steps_(steps),
        block_(inner_ == 0 ? 0 : (inner_ + blocks() - 1) / blocks()),
        is_scattered_(kPerUnit<S> == 2 || rows.result_step > 1 || columns.result_step > 1),
        is_streamed_(y.numel() * size_of(y.dtype) >= kStreamBytes && outputs_ % 32 == 0 &&
                     reinterpret_cast<uintptr_t>(y.data) % 64 == 0),
        workspace_(workspace) {}

  WICK_INLINE void run() {
    if (inner_ == 0) return clear();
    const int64_t panels = (outputs_ + kTileColumns<T> - 1) / kTileColumns<T>;
    const int64_t panel = inner_ * kTileColumns<T>;
    T* const weights = allocate(groups_ * panels * panel);
    parallel_for(groups_ * panels * patches_.lines(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t line = i % patches_.lines(), at = i / patches_.lines();
        pack_line(at / panels, at % panels * kTileColumns<T>, line,
                  weights + at * panel + line * patches_.line_units() * kTileColumns<T>);
      }
    });
    multiply(weights, panels * panel);
    workspace_.release(weights);
  }

 private:
  static constexpr int64_t kInner = kInnerBytes / static_cast<int64_t>(sizeof(T));
  // Between packed patches, which copies write beyond.
  static constexpr int64_t kGap = kRunBytes / static_cast<int64_t>(sizeof(T));

  WICK_INLINE int64_t blocks() const { return (inner_ + kInner - 1) / kInner; }

  WICK_INLINE T* allocate(int64_t count) const {
    return static_cast<T*>(workspace_.allocate(static_cast<size_t>(count) * sizeof(T)));
  }

  // Writes large results, which are read much later, past the caches.
  WICK_INLINE void put(Vec<T> v, S* to, int64_t count) const {
    if constexpr (kPerUnit<S> == 1) {
      if (is_streamed_) return v.stream(to);
    }
    store_up_to(v, to, count);
  }

  // Results without a tap.
  WICK_INLINE void clear() const {
    const PassAxis &rows = patches_.rows, &columns = patches_.columns;
    const int64_t pixel = groups_ * outputs_, images = results_ / (rows.count * columns.count);
    const int64_t bytes = pixel * static_cast<int64_t>(sizeof(S));
    parallel_for(
        images * rows.count, 16384 / (columns.count * pixel + 1) + 1,
        [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t row =
                i / rows.count * rows.size + rows.result + i % rows.count * rows.result_step;
            char* to = reinterpret_cast<char*>(y_ + (row * columns.size + columns.result) * pixel);
            for (int64_t j = 0; j < columns.count; ++j, to += columns.result_step * bytes) {
              if (!is_streamed_) {
                __builtin_memset(to, 0, static_cast<size_t>(bytes));
                continue;
              }
              for (int64_t at = 0; at < bytes; at += static_cast<int64_t>(sizeof(VecF))) {
                VecF(0).stream(reinterpret_cast<float*>(to + at));
              }
            }
          }
          stream_fence();
        });
  }

  // The weights of one line of patches for up to kTileColumns results.
  WICK_INLINE void pack_line(int64_t group, int64_t column, int64_t line, T* to) const {
    const int64_t width = smaller(kTileColumns<T>, outputs_ - column);
    const S* const from = w_ + group * steps_.group + column * steps_.column;
    const int64_t taps = patches_.taps_per_line();
    if (channels_ % kPerUnit<S> != 0) return pack_odd_line(from, line, width, to);
    const int64_t units = channels_ / kPerUnit<S>;
    for (int64_t tap = 0; tap < taps; ++tap, to += units * kTileColumns<T>) {
      const S* const element =
          from + patches_.kernel_element(line, tap, kernel_columns_) * steps_.element;
      if constexpr (kPerUnit<S> == 1) {
        pack_columns(element, steps_.inner, steps_.column, channels_, width, to);
      } else if (steps_.inner == 1) {
        pack_columns(reinterpret_cast<const T*>(element), 1, steps_.column / 2, units, width, to);
      } else {
        pack_pairs(element, units, width, to);
      }
    }
  }

  // Pairs of channels whose columns are neighbours.
  WICK_INLINE void pack_pairs(const S* from, int64_t units, int64_t width, T* to) const {
#ifdef __AVX512F__
    if constexpr (kPerUnit<S> == 2) {
      for (int64_t u = 0; u < units; ++u, from += 2 * steps_.inner, to += kTileColumns<T>) {
        interleave_pairs(from, from + steps_.inner, width, to);
      }
    }
#endif
  }

  // Pairs that reach from one element of the kernel to the next.
  WICK_INLINE void pack_odd_line(const S* from, int64_t line, int64_t width, T* to) const {
    S* pairs = reinterpret_cast<S*>(to);
    for (int64_t k = 0; k < patches_.line_units() * kPerUnit<S>; ++k) {
      const bool is_padding = k >= patches_.line_size();
      const int64_t element =
          is_padding ? 0 : patches_.kernel_element(line, k / channels_, kernel_columns_);
      const S* const row = from + element * steps_.element + k % channels_ * steps_.inner;
      for (int64_t j = 0; j < width; ++j) {
        pairs[(k / kPerUnit<S> * kTileColumns<T> + j) * kPerUnit<S> + k % kPerUnit<S>] =
            is_padding ? S(0.0f) : row[j * steps_.column];
      }
    }
  }

  WICK_INLINE void multiply(const T* weights, int64_t group_weights) const {
    const double work = static_cast<double>(groups_ * results_) * static_cast<double>(outputs_) *
                        static_cast<double>(inner_ + 1);
    const int64_t useful =
        work < 1e15 ? static_cast<int64_t>(work) / kThreadWork + 1 : num_threads();
    const int64_t threads = smaller(num_threads(), useful);
    const int64_t columns = smaller(outputs_, kMostColumns);
    const bool keeps_sums = is_scattered_ || inner_ > block_;
    const int64_t most_rows =
        keeps_sums ? larger(kBlockRows, kSumBytes / (columns * static_cast<int64_t>(sizeof(T))) /
                                            kBlockRows * kBlockRows)
                   : results_;
    cpu::Product product;
    product.count = groups_;
    product.sizes = {results_, outputs_, inner_};
    const Parts parts(product, kTileRows, kTileColumns<T>, most_rows, kMostColumns, threads, 4);
    const int64_t packed = kBlockRows * (block_ + kGap);
    const int64_t sums = is_scattered_ ? parts.most_rows() * parts.most_columns() : 0;
    const int64_t each = round_up(packed + sums, 16), used = smaller(threads, parts.count());
    T* const buffers = allocate(used * each);
    parallel_for_threads(parts.count(), used, [&](int64_t thread, int64_t begin, int64_t end) {
      T* const buffer = buffers + thread * each;
      for (int64_t i = begin; i < end; ++i) {
        const Part part = parts[i];
        compute(part, weights + part.product * group_weights + part.column * inner_, buffer,
                buffer + packed);
      }
    });
    workspace_.release(buffers);
  }

  void compute(const Part& part, const T* weights, T* packed, T* sums) const {
    const int64_t line = patches_.line_units() * kPerUnit<S>;
    const bool is_whole = block_ == inner_;  // so that sums are results
    for (int64_t k = 0; k < inner_; k += block_) {
      const int64_t inner = smaller(block_, inner_ - k);
      for (int64_t first = 0; first < part.rows; first += kBlockRows) {
        const int64_t rows = smaller(kBlockRows, part.rows - first);
        patches_.gather(place_of(part.row + first), rows, line, k * kPerUnit<S>,
                        (k + inner) * kPerUnit<S>, part.product * channels_,
                        reinterpret_cast<S*>(packed), (inner + kGap) * kPerUnit<S>);
        T* const to = sums + (is_whole ? 0 : first) * part.columns;
        multiply_rows(part, k, inner, first, rows, weights + k * kTileColumns<T>, packed, to);
        if (is_scattered_ && is_whole) scatter(part, first, rows, to);
      }
    }
    if (is_scattered_ && !is_whole) scatter(part, 0, part.rows, sums);
  }

  WICK_INLINE PassPlace place_of(int64_t result) const {
    return {patches_.rows, patches_.columns, result};
  }

  WICK_INLINE void multiply_rows(const Part& part, int64_t k, int64_t inner, int64_t first,
                                 int64_t rows, const T* weights, const T* packed, T* sums) const {
    Tile<T, MultiplyOf<S>> tile{.inner = inner,
                                .a_row = inner + kGap,
                                .a_step = 1,
                                .b_step = kTileColumns<T>,
                                .padded = true};
    const T* bias = nullptr;
    T* c = sums;
    tile.c_row = part.columns;
    if constexpr (kPerUnit<S> == 1) {
      if (!is_scattered_) {
        tile.c_row = groups_ * outputs_;
        c = y_ + (part.row + first) * tile.c_row + part.product * outputs_ + part.column;
        if (bias_ != nullptr) bias = bias_ + part.product * outputs_ + part.column;
        tile.is_far = true;
      }
    }
    tile.start_row = k > 0 ? tile.c_row : 0;
    for (int64_t begin = 0, end; begin < rows; begin = end) {
      end = begin + tile_rows<T>(rows - begin, part.columns);
      tile.a = packed + begin * tile.a_row;
      for (int64_t column = 0; column < part.columns; column += kTileColumns<T>) {
        tile.width = smaller(kTileColumns<T>, part.columns - column);
        tile.b = weights + column * inner_;
        tile.c = c + begin * tile.c_row + column;
        tile.start = k > 0 ? tile.c : bias != nullptr ? bias + column : nullptr;
        multiply_tile(end - begin, tile);
      }
    }
  }

  // Takes sums to where the results are, and rounds them.
  WICK_INLINE void scatter(const Part& part, int64_t first, int64_t count, const T* sums) const {
    const PassAxis &rows = patches_.rows, &columns = patches_.columns;
    const int64_t column = part.product * outputs_ + part.column;
    PassPlace at = place_of(part.row + first);
    for (int64_t r = 0; r < count; ++r, at.advance(rows, columns, 1), sums += part.columns) {
      const int64_t row = at.image * rows.size + rows.result + at.row * rows.result_step;
      const int64_t pixel = row * columns.size + columns.result + at.column * columns.result_step;
      S* const to = y_ + pixel * groups_ * outputs_ + column;
      const S* const bias = bias_ != nullptr ? bias_ + column : nullptr;
      int64_t j = 0;
#ifdef __AVX512F__
      if constexpr (kPerUnit<S> == 2) {
        for (; j + 32 <= part.columns; j += 32) {
          VecF low = VecF::load(sums + j), high = VecF::load(sums + j + 16);
          if (bias != nullptr) {
            low += VecF::load(bias + j);
            high += VecF::load(bias + j + 16);
          }
          const __m512i rounded = round_pair(low, high);
          if (is_streamed_) {
            _mm512_stream_si512(reinterpret_cast<__m512i*>(to + j), rounded);
          } else {
            _mm512_storeu_si512(to + j, rounded);
          }
        }
      }
#endif
      for (; j < part.columns; j += Vec<T>::size) {
        const int64_t left = part.columns - j;
        Vec<T> sum = load_up_to<T>(sums + j, left);
        if (bias != nullptr) sum += load_up_to<T>(bias + j, left);
        put(sum, to + j, left);
      }
    }
    stream_fence();
  }

  int64_t channels_, outputs_, groups_, kernel_columns_;
  Patches<S> patches_;
  const S *w_, *bias_;
  S* y_;
  int64_t results_, inner_;  // rows of the product, and its units along k
  WeightSteps steps_;
  int64_t block_;      // of units along k that are summed at a time
  bool is_scattered_;  // whether results are summed elsewhere first
  bool is_streamed_;   // whether these are many whole lines of the cache
  Workspace& workspace_;
};

template <class S>
void forward(const View& x, const View& weight, const View& bias, const View& y,
             const Conv2dParams& p, Workspace& workspace) {
  const int64_t channels = weight.shape[1], kernel = weight.shape[2] * weight.shape[3];
  const WeightSteps steps{1, kernel * channels, channels,
                          weight.shape[0] / p.groups * kernel * channels};
  Convolution<S>(x, weight, bias, y, p.groups, forward_axis(x, weight, y, p, 0),
                 forward_axis(x, weight, y, p, 1), steps, workspace)
      .run();
}

template <class S>
void backward_data(const View& dy, const View& weight, const View& dx, const Conv2dParams& p,
                   Workspace& workspace) {
  const int64_t channels = weight.shape[1], kernel = weight.shape[2] * weight.shape[3];
  const WeightSteps steps{kernel * channels, 1, channels,
                          weight.shape[0] / p.groups * kernel * channels};
  for (int64_t row = 0; row < smaller(p.stride[0], dx.shape[2]); ++row) {
    for (int64_t column = 0; column < smaller(p.stride[1], dx.shape[3]); ++column) {
      Convolution<S>(dy, weight, View{}, dx, p.groups, backward_axis(dy, weight, dx, p, 0, row),
                     backward_axis(dy, weight, dx, p, 1, column), steps, workspace)
          .run();
    }
  }
}

}  // namespace
}  // namespace direct

void direct_forward(const View& x, const View& weight, const View& bias, const View& y,
                    const Conv2dParams& params, Workspace& workspace) {
  switch (x.dtype) {
    case Dtype::kFloat64: return direct::forward<double>(x, weight, bias, y, params, workspace);
#ifdef __AVX512F__
    case Dtype::kBFloat16: return direct::forward<BFloat16>(x, weight, bias, y, params, workspace);
#endif
    default: return direct::forward<float>(x, weight, bias, y, params, workspace);
  }
}

void direct_backward_data(const View& dy, const View& weight, const View& dx,
                          const Conv2dParams& params, Workspace& workspace) {
  switch (dy.dtype) {
    case Dtype::kFloat64: return direct::backward_data<double>(dy, weight, dx, params, workspace);
#ifdef __AVX512F__
    case Dtype::kBFloat16:
      return direct::backward_data<BFloat16>(dy, weight, dx, params, workspace);
#endif
    default: return direct::backward_data<float>(dy, weight, dx, params, workspace);
  }
}

}  // namespace wick::WICK_ISA
