#include "wick/kernels/cpu/convolution_patches.h"
#include "wick/kernels/cpu/direct_convolution.h"
#include "wick/kernels/cpu/product_parts.h"

namespace wick::WICK_ISA {

namespace weight_gradient {
namespace {

constexpr int64_t kBlockUnits = 128;    // results, or pairs of them, that are summed at a time
constexpr int64_t kSomeUnits = 16;      // of which what was read stays in the first cache
constexpr int64_t kMostColumns = 384;   // of patches whose weights one thread sums
constexpr int64_t kThreadWork = 65536;  // multiplications that are worth a thread
constexpr int64_t kLeastParts = 16;     // fewer blocks of the weights: results are shared too
constexpr int64_t kLeastShare = 8192;   // results that are worth sums of their own

// The gradient of one group's weights: y's gradient, transposed, times the patches of x.
template <class S>
class WeightGradient {
 public:
  using T = UnitOf<S>;

  WICK_INLINE WeightGradient(const View& x, const View& dy, const View& dweight,
                             const Conv2dParams& p, Workspace& workspace)
      : channels_(dweight.shape[1]),
        outputs_(dweight.shape[0] / p.groups),
        groups_(p.groups),
        patches_(x.as<S>(), forward_axis(x, dweight, dy, p, 0), forward_axis(x, dweight, dy, p, 1),
                 channels_, x.shape[1]),
        dy_(dy.as<S>()),
        dw_(dweight.as<S>()),
        results_(dy.shape[0] * dy.shape[2] * dy.shape[3]),
        columns_(patches_.lines() * patches_.line_size()),
        workspace_(workspace) {}

  WICK_INLINE void run() {
    const double work = static_cast<double>(groups_ * results_) * static_cast<double>(outputs_) *
                        static_cast<double>(columns_);
    const int64_t useful =
        work < 1e15 ? static_cast<int64_t>(work) / kThreadWork + 1 : num_threads();
    const int64_t threads = smaller(num_threads(), useful);
    // How many sums there are of each weight depends on the sizes alone.
    const int64_t tiles = groups_ * ((outputs_ + kTileRows - 1) / kTileRows) *
                          ((columns_ + kTileColumns<T> - 1) / kTileColumns<T>);
    shares_ = smaller(larger(1, kLeastParts / tiles), larger(1, results_ / kLeastShare));
    cpu::Product product;
    product.count = groups_ * shares_;
    product.sizes = {outputs_, columns_, results_};
    const Parts parts(product, kTileRows, kTileColumns<T>, outputs_, kMostColumns, threads, 16);
    const int64_t a_size = packed_tile(parts.most_rows(), kBlockUnits) + kGap;
    const int64_t b_size = kRow * kBlockUnits;
    const int64_t each = round_up(a_size + b_size, 16), used = smaller(threads, parts.count());
    const int64_t all = outputs_ * groups_ * columns_;
    const bool sums_apart = kPerUnit<S> == 2 || shares_ > 1;
    T* const sums = allocate(sums_apart ? shares_ * all : 0);
    T* const buffers = allocate(used * each);
    parallel_for_threads(parts.count(), used, [&](int64_t thread, int64_t begin, int64_t end) {
      T* const buffer = buffers + thread * each;
      for (int64_t i = begin; i < end; ++i) {
        compute(parts[i], sums_apart ? sums : reinterpret_cast<T*>(dw_), buffer, buffer + a_size);
      }
    });
    workspace_.release(buffers);
    if (sums_apart) add_shares(sums, all);
    workspace_.release(sums);
  }

 private:
  WICK_INLINE T* allocate(int64_t count) const {
    return static_cast<T*>(workspace_.allocate(static_cast<size_t>(count) * sizeof(T)));
  }

  // A row of packed patches, and what copies write beyond it.
  static constexpr int64_t kGap = kRunBytes / static_cast<int64_t>(sizeof(T));
  static constexpr int64_t kRow = kTileColumns<T> + kGap;

  void compute(const Part& part, T* sums, T* packed_dy, T* packed_x) const {
    const int64_t group = part.product % groups_, share = part.product / groups_;
    const int64_t begin = results_ * share / shares_, end = results_ * (share + 1) / shares_;
    T* const to = sums + ((share * groups_ + group) * outputs_ + part.row) * columns_;
    for (int64_t first = begin; first < end; first += kBlockUnits * kPerUnit<S>) {
      const int64_t count = smaller(kBlockUnits * kPerUnit<S>, end - first);
      pack_gradient(first, count, group * outputs_ + part.row, part, packed_dy);
      for (int64_t column = 0; column < part.columns; column += kTileColumns<T>) {
        const int64_t width = smaller(kTileColumns<T>, part.columns - column);
        pack_patches(first, count, part.column + column, width, group * channels_, packed_x);
        multiply(part, (count + kPerUnit<S> - 1) / kPerUnit<S>, first > begin, width, packed_dy,
                 packed_x, to + part.column + column);
      }
    }
  }

  // The first row of each tile of `rows`, and its height: `body(begin, height)`.
  template <class Body>
  static WICK_INLINE void for_tiles(const Part& part, const Body& body) {
    for (int64_t begin = 0, height; begin < part.rows; begin += height) {
      height = tile_rows<T>(part.rows - begin, part.columns);
      body(begin, height);
    }
  }
  // Where the packed tile is that has `row` as its first: copies write beyond the one before.
  static WICK_INLINE int64_t packed_tile(int64_t row, int64_t units) {
    return row * (units + kGap);
  }

  // y's gradient, tile by tile; in a tile unit by unit.
  WICK_INLINE void pack_gradient(int64_t first, int64_t count, int64_t channel, const Part& part,
                                 T* to) const {
    const int64_t pixel = groups_ * outputs_, units = (count + kPerUnit<S> - 1) / kPerUnit<S>;
    const S* const all = dy_ + first * pixel + channel;
    for (int64_t some = 0; some < units; some += kSomeUnits) {
      for_tiles(part, [&](int64_t begin, int64_t height) {
        const S* from = all + some * kPerUnit<S> * pixel + begin;
        T* tile = to + packed_tile(begin, units) + some * height;
        for (int64_t u = some; u < smaller(some + kSomeUnits, units); ++u, tile += height) {
          pack_units(from, (u + 1) * kPerUnit<S> <= count ? from + pixel : nullptr, height, tile);
          from += kPerUnit<S> * pixel;
          __builtin_prefetch(from + kSomeUnits * kPerUnit<S> * pixel);
        }
      });
    }
  }

  // At most 12 units of one result, or of two results; a second one that is not there is 0.
  static WICK_INLINE void pack_units(const S* first, [[maybe_unused]] const S* second,
                                     int64_t count, T* to) {
#ifdef __AVX512F__
    if constexpr (kPerUnit<S> == 2) return interleave_pairs(first, second, count, to);
#endif
    if constexpr (kPerUnit<S> == 1) copy_run(first, count, to);
  }

  // `width` elements from `column` on of the patches of `count` results.
  WICK_INLINE void pack_patches(int64_t first, int64_t count, int64_t column, int64_t width,
                                int64_t channel, T* to) const {
    const int64_t line = patches_.line_size();
    if constexpr (kPerUnit<S> == 1) {
      patches_.gather({patches_.rows, patches_.columns, first}, count, line, column, column + width,
                      channel, to, kRow);
    } else {
#ifdef __AVX512F__
      constexpr int64_t kSome = 16;
      S rows[kSome][2 * kRow];
      for (int64_t i = 0; i < count; i += kSome) {
        const int64_t some = smaller(kSome, count - i);
        patches_.gather({patches_.rows, patches_.columns, first + i}, some, line, column,
                        column + width, channel, rows[0], 2 * kRow);
        for (int64_t j = 0; j < some; j += 2, to += kRow) {
          interleave_pairs(rows[j], j + 1 < some ? rows[j + 1] : nullptr, width, to);
        }
      }
#endif
    }
  }

  WICK_INLINE void multiply(const Part& part, int64_t units, bool adds, int64_t width,
                            const T* packed_dy, const T* packed_x, T* c) const {
    Tile<T, MultiplyOf<S>> tile{.inner = units,
                                .a_row = 1,
                                .b = packed_x,
                                .b_step = kRow,
                                .padded = true,
                                .c_row = columns_,
                                .width = width,
                                .is_far = true};
    tile.start_row = tile.c_row;
    for_tiles(part, [&](int64_t begin, int64_t height) {
      tile.a = packed_dy + packed_tile(begin, units);
      tile.a_step = height;
      tile.c = c + begin * tile.c_row;
      tile.start = adds ? tile.c : nullptr;
      multiply_tile(height, tile);
    });
  }

  WICK_INLINE void add_shares(const T* sums, int64_t all) const {
    parallel_for(all, 16384, [&](int64_t begin, int64_t end) {
      for_vectors<T>(end - begin, [&](int64_t at, int64_t left) {
        Vec<T> sum = load_up_to<T>(sums + begin + at, left);
        for (int64_t s = 1; s < shares_; ++s) {
          sum += load_up_to<T>(sums + s * all + begin + at, left);
        }
        store_up_to(sum, dw_ + begin + at, left);
      });
    });
  }

  int64_t channels_, outputs_, groups_;
  Patches<S> patches_;
  const S* dy_;
  S* dw_;
  int64_t results_;
  int64_t columns_;     // of the weights of one output
  int64_t shares_ = 1;  // of the results, each with sums of its own
  Workspace& workspace_;
};

}  // namespace
}  // namespace weight_gradient

void direct_backward_weights(const View& x, const View& dy, const View& dweight,
                             const Conv2dParams& params, Workspace& workspace) {
  switch (x.dtype) {
    case Dtype::kFloat64:
      return weight_gradient::WeightGradient<double>(x, dy, dweight, params, workspace).run();
#ifdef __AVX512F__
    case Dtype::kBFloat16:
      return weight_gradient::WeightGradient<BFloat16>(x, dy, dweight, params, workspace).run();
#endif
    default: return weight_gradient::WeightGradient<float>(x, dy, dweight, params, workspace).run();
  }
}

}  // namespace wick::WICK_ISA
