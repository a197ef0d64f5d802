#include "wick/kernels/cpu/direct_convolution.h"

#include "wick/kernels/cpu/convolution_patches.h"
#include "wick/kernels/cpu/convolution_weights.h"
#include "wick/kernels/cpu/product_parts.h"

namespace wick::WICK_ISA {

namespace direct {
namespace {

constexpr int64_t kInnerBytes = 3072;   // of a row of a block of k: what decides the sums' order
constexpr int64_t kBlockRows = 48;      // patches that are packed at a time, in whole tiles
constexpr int64_t kMostColumns = 384;   // of the weights that stay in the second cache
constexpr double kMostOutside = 0.04;   // of the taps that may be multiplied by zeros
constexpr int64_t kSumBytes = 1 << 18;  // of sums that several blocks of k add to

// One pass of a convolution: results = patches x weights, and what follows. run_passes() runs it.
template <class S>
class Convolution {
 public:
  using T = UnitOf<S>;

  // `x` is read, `y` written: x and y of the layer, or their gradients the other way round.
  WICK_INLINE Convolution(const View& x, const View& weight, const ConvEpilogue& epilogue,
                          const View& y, int64_t groups, const PassAxis& rows,
                          const PassAxis& columns, const WeightSteps& steps)
      : channels_(x.shape[1] / groups),
        outputs_(y.shape[1] / groups),
        groups_(groups),
        patches_(x.as<S>(), rows, columns, channels_, x.shape[1]),
        weights_{weight.as<S>(), steps, channels_, outputs_, weight.shape[3]},
        bias_(epilogue.bias.as<S>()),
        residual_(epilogue.residual.as<S>()),
        follows_(epilogue.relu || epilogue.residual.defined()),
        relu_(epilogue.relu),
        y_(y.as<S>()),
        results_(x.shape[0] * rows.count * columns.count),
        inner_(patches_.lines() * patches_.line_units()),
        is_in_place_(groups == 1 && inner_ <= kInner && patches_.are_short()),
        skips_(!is_in_place_ && patches_.are_rows() && channels_ % kPerUnit<S> == 0 && inner_ > 0 &&
               patches_.line_units() <= 2 * kInner &&
               1 - share_inside(rows) * share_inside(columns) > kMostOutside),
        is_grouped_(skips_ && x.shape[0] >= GroupedPlace::kGroupImages),
        block_(block()),
        is_bordered_(skips_ && !is_grouped_ && kPerUnit<S> == 1 &&
                     (block_ % patches_.line_units() == 0 || patches_.line_units() % block_ == 0)),
        is_scattered_(kPerUnit<S> == 2 && (inner_ > block_ || outputs_ % 32 != 0)),
        is_streamed_(!follows_ && y.numel() * size_of(y.dtype) >= kStreamBytes &&
                     outputs_ % 32 == 0 && reinterpret_cast<uintptr_t>(y.data) % 64 == 0) {}

  /// Sizes of what run_passes() allocates, in T: of the weights, the image, a thread's buffer.
  WICK_INLINE int64_t weights_size() const { return groups_ * group_weights(); }
  WICK_INLINE int64_t image_size() const {
    if (!is_in_place_) return 0;
    const int64_t size = PaddedImages<S>(patches_, images()).size();
    return round_up((size + kPerUnit<S> - 1) / kPerUnit<S>, 16);
  }
  WICK_INLINE int64_t buffer_size(const Parts& parts) const {
    const int64_t sums = is_scattered_ ? parts.most_rows() * parts.most_columns() : 0;
    return round_up(packed_size() + sums, 16);
  }

  WICK_INLINE bool has_taps() const { return inner_ > 0; }
  /// Multiplications.
  WICK_INLINE double work() const {
    return static_cast<double>(groups_ * results_) * static_cast<double>(outputs_) *
           static_cast<double>(inner_ + 1);
  }

  WICK_INLINE Parts parts(int64_t threads) const {
    const int64_t columns = smaller(outputs_, kMostColumns);
    // So that sums, and what several passes read, stay in the cache.
    const bool is_bounded = is_scattered_ || inner_ > block_ || has_steps();
    const int64_t most_rows =
        is_bounded ? larger(kBlockRows, kSumBytes / (columns * static_cast<int64_t>(sizeof(T))) /
                                            kBlockRows * kBlockRows)
                   : results_;
    cpu::Product product;
    product.count = groups_;
    product.sizes = {results_, outputs_, inner_};
    return Parts(product, kTileRows, kTileColumns<T>, most_rows, kMostColumns, threads, 4, 4);
  }

  /// Zeros where results have no tap.
  WICK_INLINE void clear() const {
    const PassAxis &rows = patches_.rows, &columns = patches_.columns;
    const int64_t pixel = groups_ * outputs_;
    const int64_t bytes = pixel * static_cast<int64_t>(sizeof(S));
    parallel_for(
        images() * rows.count, 16384 / (columns.count * pixel + 1) + 1,
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

  /// Pads the image where it is multiplied in place.
  WICK_INLINE void pad(T* image) const {
    if (is_in_place_) {
      PaddedImages<S>(patches_, images()).fill(reinterpret_cast<S*>(image));
    }
  }

  WICK_INLINE void pack(T* weights) const {
    const int64_t panels = (outputs_ + kTileColumns<T> - 1) / kTileColumns<T>;
    const int64_t panel = inner_ * kTileColumns<T>;
    parallel_for(groups_ * panels * patches_.lines(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t line = i % patches_.lines(), at = i / patches_.lines();
        weights_.pack(patches_, at / panels, at % panels * kTileColumns<T>, line,
                      weights + at * panel + line * patches_.line_units() * kTileColumns<T>);
      }
    });
  }

  void compute(const Part& part, const T* all_weights, const T* image, T* packed) const {
    const T* const weights = all_weights + part.product * group_weights() + part.column * inner_;
    T* const sums = packed + packed_size();
    if (is_in_place_) {
      multiply_in_place(part, weights, reinterpret_cast<const S*>(image), sums);
    } else if (is_grouped_ || is_bordered_) {
      multiply_grouped(part, weights, packed, sums);
    } else {
      multiply_packed(part, weights, packed, sums);
    }
    if (is_streamed_) stream_fence();
  }

 private:
  static constexpr int64_t kInner = kInnerBytes / static_cast<int64_t>(sizeof(T));
  // Between packed patches, which copies write beyond.
  static constexpr int64_t kGap = kRunBytes / static_cast<int64_t>(sizeof(T));

  WICK_INLINE int64_t block() const {
    if (inner_ == 0) return 0;
    const int64_t blocks = (inner_ + kInner - 1) / kInner;
    if (!is_grouped_) return (inner_ + blocks - 1) / blocks;
    return (patches_.lines() + blocks - 1) / blocks * patches_.line_units();
  }
  WICK_INLINE int64_t images() const {
    return results_ / (patches_.rows.count * patches_.columns.count);
  }
  WICK_INLINE int64_t group_weights() const { return round_up(outputs_, kTileColumns<T>) * inner_; }
  WICK_INLINE int64_t packed_size() const {
    return is_in_place_ ? 0 : kBlockRows * (block_ + kGap);
  }

  void multiply_packed(const Part& part, const T* weights, T* packed, T* sums) const {
    const int64_t line = patches_.line_units() * kPerUnit<S>;
    const bool is_whole = block_ == inner_;  // so that sums are results
    for (int64_t k = 0; k < inner_; k += block_) {
      const int64_t inner = smaller(block_, inner_ - k);
      Tile<T, MultiplyOf<S>> tile{.inner = inner, .a_row = (inner + kGap) * kPerUnit<S>};
      for (int64_t first = 0, rows; first < part.rows; first += rows) {
        const PassPlace at = place_of(part.row + first);
        rows = smaller(kBlockRows, part.rows - first);
        if (steps_in_rows()) rows = smaller(rows, patches_.columns.count - at.column);
        patches_.gather(at, rows, line, k * kPerUnit<S>, (k + inner) * kPerUnit<S>,
                        part.product * channels_, reinterpret_cast<S*>(packed), tile.a_row);
        tile.a = reinterpret_cast<const S*>(packed);
        tile.b = weights + k * kTileColumns<T>;
        T* const to = sums + (is_whole ? 0 : first) * part.columns;
        multiply_rows(part, {k > 0, k + inner == inner_}, at,
                      patches_.columns.result_step * pixel(), rows, tile, to);
        if (is_scattered_ && k + inner == inner_) scatter(part, at, rows, to);
      }
    }
  }

  // `groups` is 1. A block of k is whole lines, or a part of one.
  void multiply_grouped(const Part& part, const T* weights, T* packed, T* sums) const {
    const int64_t line = patches_.line_units(), line_size = line * kPerUnit<S>;
    const bool is_whole = block_ == inner_;
    for (int64_t k = 0; k < inner_; k += block_) {
      const int64_t k_end = smaller(k + block_, inner_), skipped = k % line * kPerUnit<S>;
      const int64_t part_size = smaller(line_size, (k_end - k) * kPerUnit<S>);
      const BlockOfSums block{k > 0, k_end == inner_};
      for (int64_t first = 0, count; first < part.rows; first += count) {
        const GroupedPlace at(patches_.rows, patches_.columns, images(), part.row + first);
        count = smaller(kBlockRows, smaller(at.left, part.rows - first));
        const ResultTaps down(patches_.rows, at.row), across(patches_.columns, at.column);
        const int64_t from = larger(k / line, down.begin);
        const int64_t to_line = smaller((k_end + line - 1) / line, down.end);
        const int64_t begin = larger(skipped, across.begin * channels_);
        const int64_t end = smaller(skipped + part_size, across.end * channels_);
        const int64_t size = larger(0, end - begin);
        Tile<T, MultiplyOf<S>> tile{.inner = size / kPerUnit<S>,
                                    .lines = size == 0 ? 0 : larger(0, to_line - from)};
        T* const to = sums + (is_whole ? 0 : first) * part.columns;
        if (tile.lines > 0 || k == 0 || (block.is_last && follows_)) {
          tile.a_line = size;
          tile.a_row = tile.lines * size + kGap * kPerUnit<S>;
          tile.a = reinterpret_cast<const S*>(packed);
          tile.b_line = line * kTileColumns<T>;
          tile.b = weights + (from * line + begin / kPerUnit<S>)*kTileColumns<T>;
          for (int64_t i = 0; i < tile.lines; ++i) {
            patches_.gather_inside(at, count, from + i, begin, begin + size,
                                   reinterpret_cast<S*>(packed) + i * size, tile.a_row);
          }
          multiply_rows(part, block, at, result_step(at), count, tile, to);
        }
        if (is_scattered_ && block.is_last) scatter(part, at, count, to);
      }
    }
  }

  void multiply_in_place(const Part& part, const T* weights, const S* image, T* sums) const {
    const PaddedImages<S> padded(patches_, images());
    Tile<T, MultiplyOf<S>> tile{.inner = patches_.line_size() / kPerUnit<S>,
                                .lines = patches_.lines(),
                                .has_odd = patches_.line_size() % kPerUnit<S> != 0,
                                .a_row = patches_.columns.step * patches_.pixel(),
                                .a_line = padded.line_step(),
                                .b_line = patches_.line_units() * kTileColumns<T>};
    PassPlace at = place_of(part.row);
    for (int64_t first = 0, rows; first < part.rows; first += rows) {
      rows = smaller(smaller(kBlockRows, part.rows - first), patches_.columns.count - at.column);
      tile.a = image + padded.offset(at);
      tile.b = weights;
      multiply_rows(part, {false, true}, at, patches_.columns.result_step * pixel(), rows, tile,
                    sums);
      if (is_scattered_) scatter(part, at, rows, sums);
      at.advance(patches_.rows, patches_.columns, rows);
    }
  }

  // Whether sums over a block of k add to earlier ones, and are complete.
  struct BlockOfSums {
    bool adds, is_last;
  };

  WICK_INLINE PassPlace place_of(int64_t result) const {
    return {patches_.rows, patches_.columns, result};
  }
  // Whether results lie at equal steps only within a row of the image.
  WICK_INLINE bool steps_in_rows() const { return !is_scattered_ && has_steps(); }
  WICK_INLINE bool has_steps() const {
    return patches_.rows.result_step > 1 || patches_.columns.result_step > 1;
  }
  // Elements of a pixel of y, and where the one of a result is.
  WICK_INLINE int64_t pixel() const { return groups_ * outputs_; }
  WICK_INLINE int64_t result_step(const GroupedPlace& at) const {
    const int64_t row = patches_.columns.size * pixel();
    if (at.axis == GroupedPlace::kImage) return patches_.rows.size * row;
    if (at.axis == GroupedPlace::kRow) return patches_.rows.result_step * row;
    return patches_.columns.result_step * pixel();
  }
  WICK_INLINE S* result_at(const Part& part, const PassPlace& at) const {
    const PassAxis &rows = patches_.rows, &columns = patches_.columns;
    const int64_t row = at.image * rows.size + rows.result + at.row * rows.result_step;
    const int64_t column = columns.result + at.column * columns.result_step;
    return y_ + (row * columns.size + column) * pixel() + part.product * outputs_ + part.column;
  }

  // `rows` results from a place on: in y, `y_row` elements apart, or in `sums`. The tile has the
  // first column's operands, and changes.
  WICK_INLINE void multiply_rows(const Part& part, BlockOfSums block, const PassPlace& at,
                                 int64_t y_row, int64_t rows, Tile<T, MultiplyOf<S>>& tile,
                                 T* sums) const {
    const S* const a = tile.a;
    const T* const b = tile.b;
    tile.a_step = kPerUnit<S>;
    tile.b_step = kTileColumns<T>;
    tile.padded = true;
    S* const y = result_at(part, at);
    const S* const bias =
        bias_ != nullptr ? bias_ + part.product * outputs_ + part.column : nullptr;
    tile.c_row = is_scattered_ ? part.columns : y_row;
    tile.start_row = block.adds ? tile.c_row : 0;
    tile.streams = !is_scattered_ && is_streamed_ && block_ == inner_;
    for (int64_t begin = 0, end; begin < rows; begin = end) {
      end = begin + tile_rows<T>(rows - begin, part.columns);
      tile.a = a + begin * tile.a_row;
      for (int64_t column = 0; column < part.columns; column += kTileColumns<T>) {
        tile.width = smaller(kTileColumns<T>, part.columns - column);
        tile.b = b + column * inner_;
        const int64_t to = begin * tile.c_row + column;
        if (is_scattered_) {
          tile.c = sums + to;
          tile.start = block.adds ? tile.c : nullptr;
        } else if constexpr (kPerUnit<S> == 2) {
          tile.rounded = y + to;
          tile.bias = bias == nullptr ? nullptr : bias + column;
        } else {
          tile.c = y + to;
          tile.start = block.adds ? tile.c : bias == nullptr ? nullptr : bias + column;
          tile.is_far = !tile.streams;
        }
        multiply_tile(end - begin, tile);
        if constexpr (kPerUnit<S> == 1) {
          const S* const residual = residual_ == nullptr ? nullptr : residual_ + (tile.c - y_);
          if (block.is_last && follows_) finish_tile(end - begin, tile, residual, relu_);
        }
      }
    }
  }

  // Takes sums to where the results are, and rounds them: of neighbours in their order.
  WICK_INLINE void scatter(const Part& part, PassPlace at, int64_t count, const T* sums) const {
    for (int64_t r = 0; r < count; ++r, sums += part.columns) {
      scatter_row(part, sums, result_at(part, at));
      if (is_grouped_) {
        ++at.image;
      } else {
        at.advance(patches_.rows, patches_.columns, 1);
      }
    }
  }
  WICK_INLINE void scatter_row(const Part& part, const T* sums, S* to) const {
    const S* const bias =
        bias_ != nullptr ? bias_ + part.product * outputs_ + part.column : nullptr;
    int64_t j = 0;
#ifdef __AVX512F__
    if constexpr (kPerUnit<S> == 2) {
      for (; j + 32 <= part.columns; j += 32) {
        VecF low = VecF::load(sums + j), high = VecF::load(sums + j + 16);
        if (bias != nullptr) {
          low += VecF::load(bias + j);
          high += VecF::load(bias + j + 16);
        }
        store_pair(round_pair(low, high), to + j, is_streamed_);
      }
    }
#endif
    for (; j < part.columns; j += Vec<T>::size) {
      const int64_t left = part.columns - j;
      Vec<T> sum = load_up_to<T>(sums + j, left);
      if (bias != nullptr) sum += load_up_to<T>(bias + j, left);
      store_up_to(sum, to + j, left);
    }
  }

  int64_t channels_, outputs_, groups_;
  Patches<S> patches_;
  ConvolutionWeights<S> weights_;
  const S *bias_, *residual_;
  bool follows_, relu_;  // whether something follows the sums; whether ReLU does
  S* y_;
  int64_t results_, inner_;  // rows of the product, and its units along k
  bool is_in_place_;   // whether the image is padded, and its lines are multiplied where they lie
  bool skips_;         // whether many taps are outside of the image
  bool is_grouped_;    // whether these are left out, of many images (GroupedPlace)
  int64_t block_;      // of units along k that are summed at a time
  bool is_bordered_;   // the same of few images, where blocks of k fit lines
  bool is_scattered_;  // whether results are summed elsewhere first
  bool is_streamed_;   // whether these are many whole lines of the cache
};

// Runs `count` passes over one image, pass(i): pieces of neighbouring results together, so that
// what they read and write is read and written once. `packed`: the weights of all, or null.
template <class S, class MakePass>
void run_passes(int64_t count, const MakePass& pass, const void* packed, Workspace& workspace) {
  using T = UnitOf<S>;
  const auto allocate = [&](int64_t size) {
    return static_cast<T*>(workspace.allocate(static_cast<size_t>(size) * sizeof(T)));
  };
  int64_t weights_size = 0, image_size = 0;
  double work = 0;
  for (int64_t p = 0; p < count; ++p) {
    weights_size += pass(p).weights_size();
    image_size += pass(p).image_size();
    work += pass(p).work();
  }
  const int64_t threads = useful_threads(work);
  T* to_weights = packed != nullptr ? nullptr : allocate(weights_size);
  const T* const weights = packed != nullptr ? static_cast<const T*>(packed) : to_weights;
  T* const images = allocate(image_size);
  int64_t most_parts = 0, buffer_size = 0;
  T *const own_weights = to_weights, *to_image = images;
  for (int64_t p = 0; p < count; ++p) {
    const Convolution<S> convolution = pass(p);
    if (!convolution.has_taps()) {
      convolution.clear();
      continue;
    }
    if (packed == nullptr) {
      convolution.pack(to_weights);
      to_weights += convolution.weights_size();
    }
    convolution.pad(to_image);
    to_image += convolution.image_size();
    const Parts parts = convolution.parts(threads);
    most_parts = larger(most_parts, parts.count());
    buffer_size = larger(buffer_size, convolution.buffer_size(parts));
  }
  const int64_t used = smaller(threads, most_parts * count);
  T* const buffers = allocate(used * buffer_size);
  parallel_for_threads(most_parts, used, [&](int64_t thread, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T *from = weights, *image = images;
      for (int64_t p = 0; p < count; ++p) {
        const Convolution<S> convolution = pass(p);
        if (!convolution.has_taps()) continue;
        const Parts parts = convolution.parts(threads);
        if (i < parts.count()) {
          convolution.compute(parts[i], from, image, buffers + thread * buffer_size);
        }
        from += convolution.weights_size();
        image += convolution.image_size();
      }
    }
  });
  workspace.release(buffers);
  workspace.release(images);
  if (packed == nullptr) workspace.release(own_weights);
}

template <class S>
WICK_INLINE Convolution<S> forward_pass(const View& x, const View& weight,
                                        const ConvEpilogue& epilogue, const View& y,
                                        const Conv2dParams& p) {
  const int64_t channels = weight.shape[1], kernel = weight.shape[2] * weight.shape[3];
  const WeightSteps steps{1, kernel * channels, channels,
                          weight.shape[0] / p.groups * kernel * channels};
  return Convolution<S>(x, weight, epilogue, y, p.groups, forward_axis(x, weight, y, p, 0),
                        forward_axis(x, weight, y, p, 1), steps);
}

template <class S>
void forward(const View& x, const View& weight, const void* packed, const ConvEpilogue& epilogue,
             const View& y, const Conv2dParams& p, Workspace& workspace) {
  run_passes<S>(
      1, [&](int64_t) { return forward_pass<S>(x, weight, epilogue, y, p); }, packed, workspace);
}

template <class S>
void backward_data(const View& dy, const View& weight, const View& dx, const Conv2dParams& p,
                   Workspace& workspace) {
  const int64_t channels = weight.shape[1], kernel = weight.shape[2] * weight.shape[3];
  const WeightSteps steps{kernel * channels, 1, channels,
                          weight.shape[0] / p.groups * kernel * channels};
  const int64_t down = smaller(p.stride[0], dx.shape[2]);
  const int64_t across = smaller(p.stride[1], dx.shape[3]);
  run_passes<S>(
      down * across,
      [&](int64_t i) {
        return Convolution<S>(dy, weight, ConvEpilogue{}, dx, p.groups,
                              backward_axis(dy, weight, dx, p, 0, i / across),
                              backward_axis(dy, weight, dx, p, 1, i % across), steps);
      },
      nullptr, workspace);
}

}  // namespace
}  // namespace direct

void direct_forward(const View& x, const View& weight, const void* packed,
                    const ConvEpilogue& epilogue, const View& y, const Conv2dParams& params,
                    Workspace& workspace) {
  using namespace direct;
  switch (x.dtype) {
    case Dtype::kFloat64: return forward<double>(x, weight, packed, epilogue, y, params, workspace);
#ifdef __AVX512F__
    case Dtype::kBFloat16:
      return forward<BFloat16>(x, weight, packed, epilogue, y, params, workspace);
#endif
    default: return forward<float>(x, weight, packed, epilogue, y, params, workspace);
  }
}

void direct_packed_bytes(const View& x, const View& weight, const View& y,
                         const Conv2dParams& params, int64_t* bytes) {
  *bytes = direct::forward_pass<float>(x, weight, {}, y, params).weights_size() *
           static_cast<int64_t>(sizeof(float));
}

void direct_pack(const View& x, const View& weight, const View& y, const Conv2dParams& params,
                 void* packed) {
  direct::forward_pass<float>(x, weight, {}, y, params).pack(static_cast<float*>(packed));
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
