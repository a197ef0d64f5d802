#include "wick/kernels/cpu/convolution_patches.h"
#include "wick/kernels/cpu/direct_convolution.h"
#include "wick/kernels/cpu/product_parts.h"

namespace wick::WICK_ISA {

namespace weight_gradient {
namespace {

// Results, or pairs of them, that are summed at a time.
template <class S>
constexpr int64_t kUnitsAtATime = kPerUnit<S> == 2 ? 64 : 128;
constexpr int64_t kPatchColumns = 192;  // elements of patches that are packed at a time
constexpr int64_t kMostColumns = 384;   // of patches whose weights one thread sums
constexpr int64_t kFewColumns = 256;    // so few elements of a patch leave vectors to the outputs
constexpr int64_t kLeastParts = 16;     // fewer blocks of the weights: results are shared too
constexpr int64_t kShareColumns = 64;   // of such a block, on every instruction set
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
        is_turned_(columns_ <= kFewColumns && outputs_ % 16 == 0),
        is_in_place_(is_turned_ && groups_ == 1 && patches_.are_short()),
        workspace_(workspace) {}

  WICK_INLINE void run() {
    const double work = static_cast<double>(groups_ * results_) * static_cast<double>(outputs_) *
                        static_cast<double>(columns_);
    const int64_t threads = useful_threads(work);
    // How many sums there are of each weight depends on the sizes alone.
    const int64_t tiles = groups_ * ((outputs_ + kTileRows - 1) / kTileRows) *
                          ((columns_ + kShareColumns - 1) / kShareColumns);
    shares_ = smaller(larger(1, kLeastParts / tiles), larger(1, results_ / kLeastShare));
    cpu::Product product;
    product.count = groups_ * shares_;
    product.sizes = {is_turned_ ? columns_ : outputs_, is_turned_ ? outputs_ : columns_, results_};
    const Parts parts(product, kTileRows, kTileColumns<T>, product.sizes.m, kMostColumns, threads,
                      16, 16);
    const int64_t rows = parts.most_rows(), columns = parts.most_columns();
    const int64_t a_size = is_in_place_ ? 0 : (rows + kGap) * kBlockUnits + kGap;
    const int64_t b_rows =
        is_in_place_ ? rows_at_a_time() * units_of(patches_.columns.count) : kBlockUnits;
    const int64_t b_size = (is_turned_ ? columns : kRow) * b_rows + kGap;
    const int64_t each = round_up(a_size + b_size, 16), used = smaller(threads, parts.count());
    const int64_t all = outputs_ * groups_ * columns_;
    const bool sums_apart = kPerUnit<S> == 2 || shares_ > 1 || is_turned_;
    T* const sums = allocate(sums_apart ? shares_ * all : 0);
    T* const image = is_in_place_ ? padded_image() : nullptr;
    T* const buffers = allocate(used * each);
    parallel_for_threads(parts.count(), used, [&](int64_t thread, int64_t begin, int64_t end) {
      T* const buffer = buffers + thread * each;
      for (int64_t i = begin; i < end; ++i) {
        if (is_in_place_) {
          compute_in_place(parts[i], image, sums, buffer);  // which packs y's gradient alone
          continue;
        }
        compute(parts[i], sums_apart ? sums : reinterpret_cast<T*>(dw_), buffer, buffer + a_size);
      }
    });
    workspace_.release(buffers);
    if (image != nullptr) workspace_.release(image);
    if (is_turned_) {
      add_turned(sums, all);
    } else if (sums_apart) {
      add_shares(sums, all);
    }
    workspace_.release(sums);
  }

 private:
  WICK_INLINE T* allocate(int64_t count) const {
    return static_cast<T*>(workspace_.allocate(static_cast<size_t>(count) * sizeof(T)));
  }

  // A row of packed patches, and what copies write beyond it.
  static constexpr int64_t kGap = kRunBytes / static_cast<int64_t>(sizeof(T));
  static constexpr int64_t kRow = kPatchColumns + kGap;
  static constexpr int64_t kBlockUnits = kUnitsAtATime<S>;

  void compute(const Part& part, T* sums, T* packed_a, T* packed_b) const {
    const int64_t group = part.product % groups_, share = part.product / groups_;
    const int64_t begin = results_ * share / shares_, end = results_ * (share + 1) / shares_;
    T* const to = sums + (share * groups_ + group) * outputs_ * columns_;
    for (int64_t first = begin; first < end; first += kBlockUnits * kPerUnit<S>) {
      const int64_t count = smaller(kBlockUnits * kPerUnit<S>, end - first);
      if (is_turned_) {
        add_turned_block(part, group, first, count, first > begin, packed_a, packed_b, to);
      } else {
        add_block(part, group, first, count, first > begin, packed_a, packed_b, to);
      }
    }
  }

  // --- Short lines, which are multiplied where they lie -----------------------------------------

  WICK_INLINE int64_t images() const {
    return results_ / (patches_.rows.count * patches_.columns.count);
  }
  // Of results.
  WICK_INLINE int64_t rows_at_a_time() const {
    return larger(1, kBlockUnits * kPerUnit<S> / patches_.columns.count);
  }
  // Units of a row of the padded image.
  WICK_INLINE int64_t image_row(const PaddedImages<S>& padded) const {
    return kPerUnit<S> == 1 ? padded.row() : padded.row() + kGap;
  }

  // The padded image; of pairs, each element with that of the next result.
  WICK_INLINE T* padded_image() const {
    const PaddedImages<S> padded(patches_, images());
    if constexpr (kPerUnit<S> == 1) {
      T* const image = allocate(padded.size());
      padded.fill(image);
      return image;
    } else {
      const int64_t rows = images() * padded.rows(), row = image_row(padded);
      const int64_t next = patches_.columns.step * patches_.pixel();
      T* const image = allocate(rows * row);
      T* const single = allocate((padded.size() + 1) / 2);
      padded.fill(reinterpret_cast<S*>(single));
      parallel_for(rows, 16384 / (row + 1) + 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const S* const from = reinterpret_cast<const S*>(single) + i * padded.row();
          // Whole vectors are written, the later ones over the ends of the earlier ones.
          const int64_t paired = larger(0, padded.row() - next);
          pack_units(from, from + next, paired, image + i * row);
          pack_units(from + paired, nullptr, padded.row() - paired, image + i * row + paired);
        }
      });
      workspace_.release(single);
      return image;
    }
  }

  // A few rows of results at a time, whose sums stay in registers.
  void compute_in_place(const Part& part, const T* image, T* sums, T* packed_dy) const {
    const PassAxis &rows = patches_.rows, &columns = patches_.columns;
    const PaddedImages<S> padded(patches_, images());
    const int64_t row = image_row(padded), share = part.product, all = images() * rows.count;
    const int64_t begin = all * share / shares_, end = all * (share + 1) / shares_;
    const int64_t units = units_of(columns.count), line = patches_.line_size();
    Tile<T, MultiplyOf<S>> tile{.inner = columns.count / kPerUnit<S>,
                                .has_odd = columns.count % kPerUnit<S> != 0,
                                .a_row = kPerUnit<S>};
    tile.a_step = kPerUnit<S> * kPerUnit<S> * columns.step * patches_.pixel();
    tile.a_line = kPerUnit<S> * rows.step * row;
    tile.c_row = outputs_;
    for (int64_t first = begin; first < end; first += tile.lines) {
      const int64_t in_image = first % rows.count;
      tile.lines = smaller(smaller(rows_at_a_time(), end - first), rows.count - in_image);
      const T* b = packed_dy;
      if constexpr (kPerUnit<S> == 1) {
        b = dy_ + first * columns.count * outputs_ + part.column;
        tile.b_step = outputs_;
      } else {
        tile.b_step = part.columns;
        for (int64_t i = 0; i < tile.lines; ++i) {
          pack_gradient((first + i) * columns.count, columns.count, part.column, part.columns,
                        packed_dy + i * units * part.columns, part.columns);
        }
      }
      tile.b_line = units * tile.b_step;
      tile.start_row = first > begin ? outputs_ : 0;
      const T* const from =
          image + (first / rows.count * padded.rows() + in_image * rows.step) * row;
      for (int64_t r = part.row, height; r < part.row + part.rows; r += height) {
        const int64_t left = smaller(line - r % line, part.row + part.rows - r);
        height = tile_rows<T>(left, part.columns);
        tile.a = reinterpret_cast<const S*>(from + r / line * rows.spacing * row + r % line);
        for (int64_t column = 0; column < part.columns; column += kTileColumns<T>) {
          tile.width = smaller(kTileColumns<T>, part.columns - column);
          tile.b = b + column;
          tile.c = sums + (share * columns_ + r) * outputs_ + part.column + column;
          tile.start = first > begin ? tile.c : nullptr;
          multiply_tile(height, tile);
        }
      }
    }
  }

  // --- All others -------------------------------------------------------------------------------

  static WICK_INLINE int64_t units_of(int64_t count) {
    return (count + kPerUnit<S> - 1) / kPerUnit<S>;
  }

  // Tiles have outputs as rows, and elements of the patches as columns.
  WICK_INLINE void add_block(const Part& part, int64_t group, int64_t first, int64_t count,
                             bool adds, T* packed_dy, T* packed_x, T* to) const {
    const int64_t units = units_of(count), row = part.rows + kGap;
    pack_gradient(first, count, group * outputs_ + part.row, part.rows, packed_dy, row);
    for (int64_t some = 0; some < part.columns; some += kPatchColumns) {
      const int64_t width = smaller(kPatchColumns, part.columns - some);
      const int64_t b_step = round_up(width, 16) + kGap;
      pack_patches(first, count, part.column + some, width, group * channels_, packed_x, b_step);
      Tile<T, MultiplyOf<S>> tile{
          .inner = units, .a_row = kPerUnit<S>, .a_step = row * kPerUnit<S>, .b_step = b_step};
      tile.padded = true;
      tile.c_row = columns_;
      tile.start_row = adds ? columns_ : 0;
      tile.is_far = true;
      for (int64_t column = 0; column < width; column += kTileColumns<T>) {
        tile.b = packed_x + column;
        tile.width = smaller(kTileColumns<T>, width - column);
        T* const c = to + part.row * columns_ + part.column + some + column;
        for_tiles(part, [&](int64_t begin, int64_t height) {
          tile.a = reinterpret_cast<const S*>(packed_dy + begin);
          tile.c = c + begin * columns_;
          tile.start = adds ? tile.c : nullptr;
          multiply_tile(height, tile);
        });
      }
    }
  }

  // The other way round, for few columns: outputs fill vectors, and lie side by side in memory.
  WICK_INLINE void add_turned_block(const Part& part, int64_t group, int64_t first, int64_t count,
                                    bool adds, T* packed_x, T* packed_dy, T* to) const {
    const int64_t pixel = groups_ * outputs_, row = part.rows + kGap;
    pack_patches(first, count, part.row, part.rows, group * channels_, packed_x, row);
    const S* const dy = dy_ + first * pixel + group * outputs_ + part.column;
    Tile<T, MultiplyOf<S>> tile{
        .inner = units_of(count), .a_row = kPerUnit<S>, .a_step = row * kPerUnit<S>};
    const T* b = packed_dy;
    if constexpr (kPerUnit<S> == 1) {
      b = dy;
      tile.b_step = pixel;
    } else {
      tile.b_step = part.columns;
      pack_gradient(first, count, group * outputs_ + part.column, part.columns, packed_dy,
                    part.columns);
    }
    tile.c_row = outputs_;
    tile.start_row = adds ? outputs_ : 0;
    for_tiles(part, [&](int64_t begin, int64_t height) {
      tile.a = reinterpret_cast<const S*>(packed_x + begin);
      for (int64_t column = 0; column < part.columns; column += kTileColumns<T>) {
        tile.width = smaller(kTileColumns<T>, part.columns - column);
        tile.b = b + column;
        tile.c = to + (part.row + begin) * outputs_ + part.column + column;
        tile.start = adds ? tile.c : nullptr;
        multiply_tile(height, tile);
      }
    });
  }

  // The first row of each tile of `rows`, and its height: `body(begin, height)`.
  template <class Body>
  static WICK_INLINE void for_tiles(const Part& part, const Body& body) {
    for (int64_t begin = 0, height; begin < part.rows; begin += height) {
      height = tile_rows<T>(part.rows - begin, part.columns);
      body(begin, height);
    }
  }
  // `width` channels of y's gradient from `channel` on, in rows `row` units apart.
  WICK_INLINE void pack_gradient(int64_t first, int64_t count, int64_t channel, int64_t width,
                                 T* to, int64_t row) const {
    const int64_t step = groups_ * outputs_ * kPerUnit<S>;
    const S* from = dy_ + first * groups_ * outputs_ + channel;
    for (int64_t left = count; left > 0; left -= kPerUnit<S>, from += step, to += row) {
      pack_units(from, left >= kPerUnit<S> ? from + step / kPerUnit<S> : nullptr, width, to);
    }
  }

  // Units of one result, or of two results; a second one that is not there is 0.
  static WICK_INLINE void pack_units(const S* first, [[maybe_unused]] const S* second,
                                     int64_t count, T* to) {
#ifdef __AVX512F__
    if constexpr (kPerUnit<S> == 2) return interleave_pairs(first, second, count, to);
#endif
    if constexpr (kPerUnit<S> == 1) copy_run(first, count, to);
  }

  // `width` elements from `column` on of the patches of `count` results, in rows `row` units apart.
  WICK_INLINE void pack_patches(int64_t first, int64_t count, int64_t column, int64_t width,
                                int64_t channel, T* to, int64_t row) const {
    const int64_t line = patches_.line_size();
    if constexpr (kPerUnit<S> == 1) {
      patches_.gather({patches_.rows, patches_.columns, first}, count, line, column, column + width,
                      channel, to, row);
    } else {
#ifdef __AVX512F__
      constexpr int64_t kSome = 16, kLine = kFewColumns + 2 * kGap;
      alignas(64) float buffers[kSome * kLine / 2];  // elements would be set to 0
      S* const rows = reinterpret_cast<S*>(buffers);
      for (int64_t i = 0; i < count; i += kSome) {
        const int64_t some = smaller(kSome, count - i);
        patches_.gather({patches_.rows, patches_.columns, first + i}, some, line, column,
                        column + width, channel, rows, kLine);
        for (int64_t j = 0; j < some; j += 2, to += row) {
          interleave_pairs(rows + j * kLine, j + 1 < some ? rows + (j + 1) * kLine : nullptr, width,
                           to);
        }
      }
#endif
    }
  }

  WICK_INLINE void add_turned(const T* sums, int64_t all) const {
    parallel_for(groups_ * outputs_, 16384 / columns_ + 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T* const from = sums + i / outputs_ * columns_ * outputs_ + i % outputs_;
        for (int64_t column = 0; column < columns_; ++column) {
          T sum = from[column * outputs_];
          for (int64_t s = 1; s < shares_; ++s) sum += from[s * all + column * outputs_];
          dw_[i * columns_ + column] = static_cast<S>(sum);
        }
      }
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
  bool is_turned_;      // whether outputs are columns of the tiles
  bool is_in_place_;    // whether patches are multiplied where they lie in a padded image
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
