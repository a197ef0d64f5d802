#include "wick/kernels/copy.h"

#include "wick/core/base/parallel.h"
#include "wick/kernels/cpu/convert.h"
#include "wick/kernels/cpu/transpose_square.h"
#include "wick/kernels/loop_nest.h"
#include "wick/kernels/progression.h"

namespace wick::WICK_ISA {

namespace {

using CopyNest = LoopNest<2>;  // view 0 is the destination
using CopyCursor = LoopCursor<2>;

constexpr int64_t kTile = 64;       // a transposed tile of 64 x 64 stays in the nearest cache
constexpr int64_t kPitch = 65;      // elements between the rows of a tile's buffer
constexpr int64_t kNarrowTile = 8;  // a narrower tile needs no buffer
// Bytes converted before they are streamed. A page at a time is slower where its addresses end in
// the same 12 bits as the source's: loads wait for such stores.
constexpr int64_t kStreamBlock = 1024;

/// Writes the first `columns` columns of a tile as rows that are `to_row` elements apart, by
/// squares of kSize elements, which `rows` and `columns` are multiples of.
template <class E, int kSize>
void turn_squares(const void* tile, void* to, int64_t to_row, int64_t rows, int64_t columns) {
  const E* const from = static_cast<const E*>(tile);
  for (int64_t r = 0; r < rows; r += kSize) {
    for (int64_t c = 0; c < columns; c += kSize) {
      copy_transposed<E, kSize>(from + c * kPitch + r, kPitch, static_cast<E*>(to) + r * to_row + c,
                                to_row);
    }
  }
}

struct Turning {
  int64_t size = 0;
  void (*run)(const void* tile, void* to, int64_t to_row, int64_t rows, int64_t columns) = nullptr;
};

Turning turning_of(int64_t bytes) {
  if (bytes == 1) return {16, turn_squares<uint8_t, 16>};
  if (bytes == 2) return {WICK_WIDE(16, 8), turn_squares<uint16_t, WICK_WIDE(16, 8)>};
  if (bytes == 4) return {WICK_WIDE(16, 8), turn_squares<uint32_t, WICK_WIDE(16, 8)>};
  return {WICK_WIDE(8, 4), turn_squares<uint64_t, WICK_WIDE(8, 4)>};
}

class Copy {
 public:
  Copy(const View& x, const View& y, const View* const* views)
      : x_(x), y_(y), nest_(views, 2), convert_(row_converter(y.dtype, x.dtype)) {
    stream_ = nest_.is_dense(0) && nest_.numel * size_of(y.dtype) >= kStreamBytes;
    // The axis along which the source's elements are neighbours, where that is not the innermost.
    for (int axis = 1; axis < nest_.rank; ++axis) {
      if (nest_.strides[1][axis] == 1 && nest_.strides[1][0] > 1) across_ = axis;
    }
    if (x.dtype == y.dtype && nest_.strides[0][0] == 1) turning_ = turning_of(size_of(x.dtype));
  }

  void run() const {
    if (across_ > 0 && nest_.sizes[0] > 1) {
      run_transposed();
    } else {
      parallel_for(nest_.numel, kParallelGrain,
                   [this](int64_t begin, int64_t end) { run_rows(begin, end); });
    }
  }

 private:
  char* to(int64_t offset) const { return y_.as<char>() + offset * size_of(y_.dtype); }
  const char* from(int64_t offset) const {
    return x_.as<const char>() + offset * size_of(x_.dtype);
  }

  void run_rows(int64_t begin, int64_t end) const {
    CopyCursor cursor(nest_, begin);
    for (int64_t position = begin; position < end;) {
      int64_t n = nest_.row() - cursor.index[0];
      if (n > end - position) n = end - position;
      copy_row(cursor, n);
      position += n;
      cursor.advance(nest_, n);
    }
    if (stream_) stream_fence();
  }

  void copy_row(const CopyCursor& cursor, int64_t n) const {
    const int64_t bytes = size_of(y_.dtype), stride = nest_.strides[1][0];
    char* out = to(cursor.offset[0]);
    const char* in = from(cursor.offset[1]);
    if (!stream_ || n * bytes < 1024) return convert_(out, nest_.strides[0][0], in, stride, n);
    if (y_.dtype == x_.dtype && stride == 1) return stream_bytes(out, in, n * bytes);
    alignas(64) char block[kStreamBlock];
    const int64_t most = kStreamBlock / bytes;
    for (int64_t i = 0; i < n; i += most) {
      const int64_t count = n - i < most ? n - i : most;
      if (i == 0 || stride != 0) {  // else the block is full of the one value
        convert_(block, 1, in + i * stride * size_of(x_.dtype), stride, count);
      }
      stream_bytes(out + i * bytes, block, count * bytes);
    }
  }

  // Square tiles of the innermost axis and the one along which the source is dense, so that the
  // cache lines of both are used whole.
  void run_transposed() const {
    CopyNest outer = nest_;
    const int64_t rows = nest_.sizes[across_], columns = nest_.sizes[0];
    outer.sizes[0] = (columns + kTile - 1) / kTile;
    outer.sizes[across_] = (rows + kTile - 1) / kTile;
    int64_t tiles = 1;
    for (int axis = 0; axis < outer.rank; ++axis) tiles *= outer.sizes[axis];
    for (auto& s : outer.strides) {
      s[0] *= kTile;
      s[across_] *= kTile;
    }
    const int64_t grain = (kParallelGrain + kTile * kTile - 1) / (kTile * kTile);
    parallel_for(tiles, grain, [&](int64_t begin, int64_t end) {
      CopyCursor cursor(outer, begin);
      for (int64_t tile = begin; tile < end; ++tile) {
        const int64_t c = columns - cursor.index[0] * kTile;
        const int64_t r = rows - cursor.index[across_] * kTile;
        copy_tile(cursor, r < kTile ? r : kTile, c < kTile ? c : kTile);
        cursor.advance(outer, 1);
      }
    });
  }

  void copy_tile(const CopyCursor& cursor, int64_t rows, int64_t columns) const {
    if (rows < kNarrowTile || columns < kNarrowTile) {
      const bool along = columns >= rows;  // the longer side is the inner loop
      copy_lines(cursor, along ? across_ : 0, along ? rows : columns, along ? 0 : across_,
                 along ? columns : rows);
      return;
    }
    // Read and write runs of neighbours, and turn them in between: the places that a walk over the
    // other axis touches may all compete for the same few lines of the cache.
    alignas(64) char tile[kTile * kPitch * 8];
    const int64_t bytes = size_of(x_.dtype);
    for (int64_t c = 0; c < columns; ++c) {
      __builtin_memcpy(tile + c * kPitch * bytes, from(cursor.offset[1] + c * nest_.strides[1][0]),
                       static_cast<size_t>(rows * bytes));
    }
    int64_t turned_rows = 0, turned_columns = 0;
    if (turning_.run != nullptr) {
      turned_rows = rows / turning_.size * turning_.size;
      turned_columns = columns / turning_.size * turning_.size;
      turning_.run(tile, to(cursor.offset[0]), nest_.strides[0][across_], turned_rows,
                   turned_columns);
    }
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t first = r < turned_rows ? turned_columns : 0;
      if (first == columns) continue;
      const int64_t at = r * nest_.strides[0][across_] + first * nest_.strides[0][0];
      convert_(to(cursor.offset[0] + at), nest_.strides[0][0], tile + (first * kPitch + r) * bytes,
               kPitch, columns - first);
    }
  }

  // `lines` runs of `length` elements along axis `inner`.
  void copy_lines(const CopyCursor& cursor, int outer, int64_t lines, int inner,
                  int64_t length) const {
    for (int64_t i = 0; i < lines; ++i) {
      convert_(to(cursor.offset[0] + i * nest_.strides[0][outer]), nest_.strides[0][inner],
               from(cursor.offset[1] + i * nest_.strides[1][outer]), nest_.strides[1][inner],
               length);
    }
  }

  const View& x_;
  const View& y_;
  CopyNest nest_;
  RowConverter convert_;
  bool stream_;
  int across_ = 0;
  Turning turning_;  // between equal types
};

}  // namespace

void copy(const View& x, const View& y) {
  if (y.numel() == 0) return;
  const View* views[] = {&y, &x};
  Copy(x, y, views).run();
}

void fill(const View& y, double real, int64_t integer) {
  alignas(8) char value[8];
  const bool floating = is_floating(y.dtype);
  const Dtype given = floating ? Dtype::kFloat64 : Dtype::kInt64;
  const void* source = floating ? static_cast<const void*>(&real) : &integer;
  row_converter(y.dtype, given)(value, 1, source, 0, 1);
  View x = y;
  x.data = value;
  x.shape = Shape();
  x.strides = Strides();
  copy(x, y);
}

void arange(const View& y, double start, double step, int64_t first, int64_t by) {
  visit_dtype(y.dtype, [&]<class T>(Type<T>) {
    T* out = y.as<T>();
    const Progression<T> at(start, step, first, by);
    parallel_for(y.numel(), kParallelGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i] = at(i);
    });
  });
}

}  // namespace wick::WICK_ISA
