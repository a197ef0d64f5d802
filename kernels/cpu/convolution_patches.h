#pragma once

#include "wick/kernels/conv.h"
#include "wick/kernels/cpu/product_pack.h"

// Which elements of an image a convolution multiplies, and how they are copied side by side.
namespace wick::WICK_ISA {

/// Products along k take float32 and float64 one by one, bfloat16 as pairs in 32 bits.
template <class S>
inline constexpr int64_t kPerUnit = sizeof(S) == 2 ? 2 : 1;
/// What such a unit is stored as.
template <class S>
using UnitOf = std::conditional_t<sizeof(S) == 8, double, float>;

/// How they join a sum.
#ifdef __AVX512F__
template <class S>
using MultiplyOf = std::conditional_t<kPerUnit<S> == 2, MultiplyPairs, MultiplyLines>;
#else
template <class S>
using MultiplyOf = MultiplyLines;
#endif

/// One axis of a pass, which computes every `result_step`-th result by the same taps of the kernel.
struct PassAxis {
  int64_t source = 0;                   // size of the image that is read
  int64_t count = 0;                    // results of the pass
  int64_t step = 1;                     // of the source from one result to the next
  int64_t first = 0, spacing = 1;       // what tap 0 reads for result 0; from tap to tap
  int64_t taps = 0;                     // in ascending order of the source
  int64_t kernel = 0, kernel_step = 1;  // which element of the kernel tap 0 is
  int64_t size = 0;                     // of the results of all passes
  int64_t result = 0, result_step = 1;  // where the pass has its own
};

/// y from x.
WICK_INLINE PassAxis forward_axis(const View& x, const View& weight, const View& y,
                                  const Conv2dParams& p, int axis) {
  return {.source = x.shape[2 + axis],
          .count = y.shape[2 + axis],
          .step = p.stride[axis],
          .first = -p.padding[axis],
          .spacing = p.dilation[axis],
          .taps = weight.shape[2 + axis],
          .size = y.shape[2 + axis]};
}

WICK_INLINE int64_t greatest_divisor(int64_t a, int64_t b) {
  while (b != 0) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/// Those of x's gradient at `phase`, phase + stride, ..., from y's.
WICK_INLINE PassAxis backward_axis(const View& dy, const View& weight, const View& dx,
                                   const Conv2dParams& p, int axis, int64_t phase) {
  const int64_t stride = p.stride[axis], dilation = p.dilation[axis];
  const int64_t common = greatest_divisor(stride, dilation);
  PassAxis result{.source = dy.shape[2 + axis],
                  .count = (dx.shape[2 + axis] - phase + stride - 1) / stride,
                  .spacing = dilation / common,
                  .kernel_step = -stride / common,
                  .size = dx.shape[2 + axis],
                  .result = phase,
                  .result_step = stride};
  for (int64_t r = 0; r < weight.shape[2 + axis]; ++r) {
    const int64_t at = phase + p.padding[axis] - r * dilation;
    if (at % stride != 0) continue;
    ++result.taps;
    result.kernel = r;  // the last one reads first
    result.first = at / stride;
  }
  return result;
}

/// Which of `all` elements at `at`, at + step, ... are inside of a source: from `begin` to `end`.
struct InsideRange {
  int64_t begin, end;
  WICK_INLINE InsideRange(int64_t at, int64_t step, int64_t all, int64_t source)
      : begin(at >= 0 ? 0 : (-at + step - 1) / step),
        end(at >= source ? 0 : smaller(all, (source - 1 - at) / step + 1)) {
    begin = smaller(begin, end);
  }
  WICK_INLINE int64_t count() const { return end - begin; }
};
/// Which results of an axis read inside of its source by `tap`.
struct TapRange : InsideRange {
  WICK_INLINE TapRange(const PassAxis& axis, int64_t tap)
      : InsideRange(axis.first + tap * axis.spacing, axis.step, axis.count, axis.source) {}
};
/// Which taps read inside of the source for one result.
struct ResultTaps : InsideRange {
  WICK_INLINE ResultTaps(const PassAxis& axis, int64_t result)
      : InsideRange(axis.first + result * axis.step, axis.spacing, axis.taps, axis.source) {}
};

/// Which results of an axis have all taps inside: none, or those from `begin` to `end`.
struct WholeRange {
  int64_t begin = 0, end = 0;
  WICK_INLINE explicit WholeRange(const PassAxis& axis) {
    const auto is_whole = [&](int64_t result) {
      return ResultTaps(axis, result).count() == axis.taps;
    };
    while (begin < axis.count && !is_whole(begin)) ++begin;
    end = axis.count;
    while (end > begin && !is_whole(end - 1)) --end;
  }
  WICK_INLINE int64_t count() const { return end - begin; }
};

/// The share of an axis' taps that read inside of the source.
WICK_INLINE double share_inside(const PassAxis& axis) {
  int64_t inside = 0;
  for (int64_t r = 0; r < axis.count; ++r) inside += ResultTaps(axis, r).count();
  return static_cast<double>(inside) / static_cast<double>(axis.count * axis.taps);
}

/// `count` elements, of which whole vectors are written.
template <class S>
WICK_INLINE void copy_run(const S* from, int64_t count, S* to) {
#ifdef __AVX512F__
  if constexpr (sizeof(S) == 2) {
    for (int64_t i = 0; i < count; i += 32) {
      const auto mask = static_cast<__mmask32>(count - i >= 32 ? ~0u : (1u << (count - i)) - 1);
      _mm512_storeu_si512(to + i, _mm512_maskz_loadu_epi16(mask, from + i));
    }
    return;
  }
#endif
  if constexpr (sizeof(S) > 2) {
    constexpr int64_t kLanes = Vec<S>::size;
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) Vec<S>::load(from + i).store(to + i);
    if (i < count) FirstLanes<S>(count - i).load(from + i).store(to + i);
  }
}
template <class S>
WICK_INLINE void zero_run(int64_t count, S* to) {
  for (int64_t i = 0; i < count; i += 64 / static_cast<int64_t>(sizeof(S))) {
    VecF(0).store(reinterpret_cast<float*>(to + i));
    if (VecF::size == 8) VecF(0).store(reinterpret_cast<float*>(to + i) + 8);
  }
}
/// Lines of up to this many bytes are short: first layers' are.
inline constexpr int64_t kShortLine = 128;
/// How far beyond their end copy_run() and zero_run() write at most, in bytes.
inline constexpr int64_t kRunBytes = 64;

/// The number of a pass's result among those of all images: its image, row and column.
struct PassPlace {
  int64_t image, row, column;

  WICK_INLINE PassPlace(int64_t at_image, int64_t at_row, int64_t at_column)
      : image(at_image), row(at_row), column(at_column) {}
  WICK_INLINE PassPlace(const PassAxis& rows, const PassAxis& columns, int64_t result)
      : image(result / (rows.count * columns.count)),
        row(result / columns.count % rows.count),
        column(result % columns.count) {}
  /// Goes on by `count` results, which are not beyond the row's end.
  WICK_INLINE void advance(const PassAxis& rows, const PassAxis& columns, int64_t count) {
    column += count;
    if (column < columns.count) return;
    column = 0;
    if (++row < rows.count) return;
    row = 0;
    ++image;
  }
};

/// The same where results are numbered so that neighbours have the same taps inside of the image.
/// Many images: by groups of about kGroupImages, in a group by row, column and image. Few: rows of
/// an image but for their ends, then those columns.
struct GroupedPlace : PassPlace {
  static constexpr int64_t kGroupImages = 6;
  int64_t left;  // results from here on of the same taps, which follow one another
  enum { kRow, kColumn, kImage } axis = kImage;  // along this axis

  WICK_INLINE GroupedPlace(const PassAxis& rows, const PassAxis& columns, int64_t images,
                           int64_t result)
      : PassPlace(0, 0, 0) {
    const int64_t places = rows.count * columns.count;
    if (images < kGroupImages) {
      image = result / places;
      place_within(rows, columns, result % places);
      return;
    }
    const int64_t groups = (images + kGroupImages - 1) / kGroupImages;
    const int64_t group = ((result / places + 1) * groups - 1) / images;
    const int64_t first = images * group / groups, size = images * (group + 1) / groups - first;
    const int64_t within = result - first * places;
    image = first + within % size;
    row = within / size / columns.count;
    column = within / size % columns.count;
    left = size - within % size;
  }

 private:
  WICK_INLINE void place_within(const PassAxis& rows, const PassAxis& columns, int64_t within) {
    const WholeRange whole(columns);
    if (within < rows.count * whole.count()) {
      axis = kColumn;
      row = within / whole.count();
      column = whole.begin + within % whole.count();
      left = whole.end - column;
      return;
    }
    const int64_t rest = within - rows.count * whole.count(), end = rest / rows.count;
    const WholeRange down(rows);
    axis = kRow;
    column = end < whole.begin ? end : end + whole.count();
    row = rest % rows.count;
    left = row >= down.begin && row < down.end ? down.end - row : 1;
  }
};

/// The elements that each result of a pass multiplies, as lines: the taps of one row of the kernel
/// where they are neighbours in memory, else one tap. A line is padded to whole units.
template <class S>
class Patches {
 public:
  /// `channels` of the `pixel` channels of each pixel.
  WICK_INLINE Patches(const S* data, const PassAxis& row_axis, const PassAxis& column_axis,
                      int64_t channels, int64_t pixel)
      : rows(row_axis),
        columns(column_axis),
        data_(data),
        channels_(channels),
        pixel_(pixel),
        is_merged_(column_axis.spacing == 1 && channels == pixel) {}

  const PassAxis rows, columns;

  WICK_INLINE const S* data() const { return data_; }
  WICK_INLINE int64_t pixel() const { return pixel_; }
  /// Whether lines are short, and whole rows of the kernel.
  WICK_INLINE bool are_short() const {
    return is_merged_ && rows.taps > 0 && columns.taps > 1 &&
           line_size() * static_cast<int64_t>(sizeof(S)) <= kShortLine;
  }
  WICK_INLINE int64_t taps_per_line() const { return is_merged_ ? columns.taps : 1; }
  WICK_INLINE int64_t lines() const {
    return columns.taps == 0 ? 0 : rows.taps * columns.taps / taps_per_line();
  }
  WICK_INLINE int64_t line_size() const { return taps_per_line() * channels_; }
  WICK_INLINE int64_t line_units() const { return (line_size() + kPerUnit<S> - 1) / kPerUnit<S>; }
  /// Which element of the kernel, row by row, the `tap`-th tap of a line is.
  WICK_INLINE int64_t kernel_element(int64_t line, int64_t tap, int64_t kernel_columns) const {
    const int64_t all = line * taps_per_line() + tap;
    return (rows.kernel + all / columns.taps * rows.kernel_step) * kernel_columns + columns.kernel +
           all % columns.taps * columns.kernel_step;
  }

  /// Elements `begin` to `end` of the patches, whose lines have `line` elements, of `count` results
  /// from `place` on; rows of `to` are `to_row` elements apart. Elements outside of the image are
  /// 0, and those after a line. Up to kRunBytes are written after the end of each row.
  WICK_INLINE void gather(const PassPlace& place, int64_t count, int64_t line, int64_t begin,
                          int64_t end, int64_t channel, S* to, int64_t to_row) const {
    while (begin < end) {
      const int64_t in_line = begin % line, size = smaller(line - in_line, end - begin);
      PassPlace at = place;
      S* row = to;
      for (int64_t left = count; left > 0;) {
        const int64_t some = smaller(left, columns.count - at.column);
        gather_line(at, some, begin / line, in_line, in_line + size, channel, row, to_row);
        at.advance(rows, columns, some);
        row += some * to_row;
        left -= some;
      }
      begin += size;
      to += size;
    }
  }

  /// Elements `begin` to `end` of one line, which are inside of the image, of `count` results from
  /// a place on.
  WICK_INLINE void gather_inside(const GroupedPlace& place, int64_t count, int64_t line,
                                 int64_t begin, int64_t end, S* to, int64_t to_row) const {
    const int64_t image_row = columns.source * pixel_;
    const int64_t row = place.row * rows.step + rows.first + line * rows.spacing;
    const int64_t column = place.column * columns.step + columns.first;
    const S* from = data_ + (place.image * rows.source + row) * image_row + column * pixel_ + begin;
    const int64_t step = place.axis == GroupedPlace::kImage ? rows.source * image_row
                         : place.axis == GroupedPlace::kRow ? rows.step * image_row
                                                            : columns.step * pixel_;
    for (int64_t i = 0; i < count; ++i, from += step, to += to_row) {
      copy_run(from, end - begin, to);
    }
  }
  /// Whether a line is a whole row of the kernel.
  WICK_INLINE bool are_rows() const { return is_merged_; }

 private:
  // Of results that are neighbours in a row.
  WICK_INLINE void gather_line(const PassPlace& place, int64_t count, int64_t line, int64_t begin,
                               int64_t end, int64_t channel, S* to, int64_t to_row) const {
    const int64_t tap_row = is_merged_ ? line : line / columns.taps;
    const int64_t tap_column = is_merged_ ? 0 : line % columns.taps;
    const int64_t at_row = place.row * rows.step + rows.first + tap_row * rows.spacing;
    if (at_row < 0 || at_row >= rows.source) {
      for (int64_t i = 0; i < count; ++i, to += to_row) zero_run(end - begin, to);
      return;
    }
    const int64_t high = smaller(end, line_size()), row_size = columns.source * pixel_;
    const S* const from = data_ + (place.image * rows.source + at_row) * row_size + channel;
    // Where in the row of the image a line may start to be wholly inside.
    const int64_t first = is_merged_ ? -begin : 0;
    const int64_t last = row_size - (is_merged_ ? high : pixel_);
    int64_t at =
        (place.column * columns.step + columns.first + tap_column * columns.spacing) * pixel_;
    for (int64_t i = 0; i < count; ++i, to += to_row, at += columns.step * pixel_) {
      if (at >= first && at <= last) {
        copy_run(from + at + begin, high - begin, to);
        if (kPerUnit < S >> 1 && high < end) to[high - begin] = S(0.0f);
        continue;
      }
      const int64_t low = larger(begin, -at), most = smaller(high, row_size - at);
      if (!is_merged_ || low >= most) {
        zero_run(end - begin, to);
        continue;
      }
      zero_run(low - begin, to);
      copy_run(from + at + low, most - low, to + (low - begin));
      zero_run(end - most, to + (most - begin));
    }
  }

  const S* data_;
  int64_t channels_, pixel_;
  bool is_merged_;
};

/// An image whose lines are multiplied where they lie: what patches read of it, and zeros around
/// it. For short lines, of which copies would cost as much as the products.
template <class S>
class PaddedImages {
 public:
  WICK_INLINE PaddedImages(const Patches<S>& patches, int64_t images)
      : patches_(patches),
        images_(images),
        rows_(extent(patches.rows)),
        row_(extent(patches.columns) * patches.pixel()) {}

  WICK_INLINE int64_t rows() const { return rows_; }  // of an image
  WICK_INLINE int64_t row() const { return row_; }    // elements of a row
  /// Elements, of which pairs may be read that reach one beyond.
  WICK_INLINE int64_t size() const { return images_ * rows_ * row_ + 1; }

  WICK_INLINE void fill(S* to) const {
    const PassAxis &rows = patches_.rows, &columns = patches_.columns;
    const int64_t source = columns.source * patches_.pixel(), before = columns.first;
    const int64_t begin = larger(0, -before * patches_.pixel());
    const int64_t skipped = larger(0, before * patches_.pixel());
    const int64_t end = larger(begin, smaller(row_, begin + source - skipped));
    to[size() - 1] = S(0.0f);
    parallel_for(images_ * rows_, 16384 / (row_ + 1) + 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t row = i % rows_ + rows.first;
        S* const line = to + i * row_;
        const auto zero = [&](int64_t from, int64_t to_end) {
          void* const bytes = line + from;
          __builtin_memset(bytes, 0, static_cast<size_t>(to_end - from) * sizeof(S));
        };
        if (row < 0 || row >= rows.source) {
          zero(0, row_);
          continue;
        }
        zero(0, begin);
        __builtin_memcpy(line + begin,
                         patches_.data() + (i / rows_ * rows.source + row) * source + skipped,
                         static_cast<size_t>(end - begin) * sizeof(S));
        zero(end, row_);
      }
    });
  }

  /// Where the first line of a result's patch begins, and how far it is to the next line.
  WICK_INLINE int64_t offset(const PassPlace& at) const {
    return (at.image * rows_ + at.row * patches_.rows.step) * row_ +
           at.column * patches_.columns.step * patches_.pixel();
  }
  WICK_INLINE int64_t line_step() const { return patches_.rows.spacing * row_; }

 private:
  static WICK_INLINE int64_t extent(const PassAxis& axis) {
    return axis.count == 0 ? 0 : (axis.count - 1) * axis.step + (axis.taps - 1) * axis.spacing + 1;
  }

  const Patches<S>& patches_;
  int64_t images_, rows_, row_;  // images, rows of one, elements of a row
};

#ifdef __AVX512F__
/// Pairs of what `even` and `odd` have at the same places; without `odd`, its elements are 0.
/// Whole vectors are written.
WICK_INLINE void interleave_pairs(const BFloat16* even, const BFloat16* odd, int64_t count,
                                  float* to) {
  for (int64_t i = 0; i < count; i += VecF::size) {
    const auto mask = static_cast<__mmask16>(count - i >= 16 ? 0xffff : (1 << (count - i)) - 1);
    const auto load = [&](const BFloat16* from) {
      return _mm512_maskz_cvtepu16_epi32(0xffff, _mm256_maskz_loadu_epi16(mask, from + i));
    };
    const __m512i high =
        odd == nullptr ? _mm512_setzero_si512() : _mm512_maskz_slli_epi32(0xffff, load(odd), 16);
    _mm512_storeu_si512(to + i, _mm512_or_si512(load(even), high));
  }
}
#endif

}  // namespace wick::WICK_ISA
