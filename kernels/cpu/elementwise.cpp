#include "wick/core/base/parallel.h"
#include "wick/kernels/cpu/convert.h"
#include "wick/kernels/cpu/elementwise_loop.h"
#include "wick/kernels/elementwise_chain.h"
#include "wick/kernels/loop_nest.h"

namespace wick::WICK_ISA {

namespace {

constexpr int kMaxInputs = 3;
constexpr int kViews = 1 + kMaxInputs;  // view 0 is the result
constexpr int64_t kBuffered = 1024;     // elements that pass through a buffer at a time
constexpr int64_t kShortRow = 32;       // where rows are shorter, pieces span several of them

using Nest = LoopNest<kViews>;
using Cursor = LoopCursor<kViews>;

struct alignas(64) Buffer {
  alignas(64) double elements[kBuffered];  // of any computing type
};

// How the loop gets at the elements of a view.
enum class Access : uint8_t {
  kDense,  // where they are: the whole view is one run of elements of the computing type
  kRow,    // where they are, row by row
  kSplat,  // a buffer full of the row's one value
  kBuffer  // a buffer that is gathered from or scattered to the view
};

// One walk over the views, shared by the threads.
class Walk {
 public:
  Walk(ElementLoop loop, const void* functor, Dtype compute, int arity, const View* const* views)
      : loop_(loop), functor_(functor), arity_(arity), views_(views), nest_(views, 1 + arity) {
    computing_ = compute == Dtype::kFloat64 ? Dtype::kFloat64
                 : is_floating(compute)     ? Dtype::kFloat32
                                            : Dtype::kInt64;
    bytes_ = size_of(computing_);
    choose_access();
  }

  void run() const {
    parallel_for(nest_.numel, kParallelGrain,
                 [this](int64_t begin, int64_t end) { run(begin, end); });
  }

 private:
  void choose_access() {
    const View& y = *views_[0];
    stream_ = nest_.is_dense(0) && nest_.numel * size_of(y.dtype) >= kStreamBytes;
    bool direct = true;
    for (int v = 0; v <= arity_; ++v) {
      const bool native = views_[v]->dtype == computing_;
      direct = direct && native && (nest_.is_dense(v) || nest_.strides[v][0] == 1);
      if (v > 0 && views_[v]->data == y.data) stream_ = false;  // y is in the cache already
    }
    across_ = !direct && nest_.row() < kShortRow;
    bool dense = true;
    for (int v = 0; v <= arity_; ++v) {
      access_[v] = access(v);
      dense = dense && access_[v] == Access::kDense;
      buffered_ = buffered_ || access_[v] == Access::kBuffer || access_[v] == Access::kSplat;
      from_view_[v] = row_converter(computing_, views_[v]->dtype);
    }
    to_result_ = row_converter(y.dtype, computing_);
    within_row_ = !dense && !across_;
  }

  Access access(int v) const {
    if (v == 0 && stream_) return Access::kBuffer;
    const bool native = views_[v]->dtype == computing_;
    if (native && nest_.is_dense(v)) return Access::kDense;
    if (across_) return Access::kBuffer;
    if (native && nest_.strides[v][0] == 1) return Access::kRow;
    return v > 0 && nest_.strides[v][0] == 0 ? Access::kSplat : Access::kBuffer;
  }

  char* element(int v, int64_t offset) const {
    return views_[v]->as<char>() + offset * size_of(views_[v]->dtype);
  }

  void run(int64_t begin, int64_t end) const {
    Buffer buffers[kViews];
    const void* splat[kViews] = {};  // whose value a buffer is full of
    Cursor cursor(nest_, begin);
    for (int64_t position = begin; position < end;) {
      int64_t n = end - position;
      if (within_row_) n = smaller(n, nest_.row() - cursor.index[0]);
      if (buffered_) n = smaller(n, kBuffered);
      const void* in[kMaxInputs] = {};
      for (int k = 0; k < arity_; ++k) {
        in[k] = input(k + 1, cursor, position, n, buffers[k + 1], splat[k + 1]);
      }
      switch (access_[0]) {
        case Access::kDense: loop_(functor_, element(0, position), in, n); break;
        case Access::kRow: loop_(functor_, element(0, cursor.offset[0]), in, n); break;
        default:
          loop_(functor_, buffers[0].elements, in, n);
          write(buffers[0], cursor, position, n);
      }
      position += n;
      move(cursor, n);
    }
    if (stream_) stream_fence();
  }

  static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

  void move(Cursor& cursor, int64_t n) const {
    while (n > 0) {
      const int64_t count = smaller(n, nest_.row() - cursor.index[0]);
      cursor.advance(nest_, count);
      n -= count;
    }
  }

  // Where the loop finds `n` elements of input `v`.
  const void* input(int v, const Cursor& cursor, int64_t position, int64_t n, Buffer& buffer,
                    const void*& splat) const {
    if (access_[v] == Access::kDense) return element(v, position);
    const void* first = element(v, cursor.offset[v]);
    if (access_[v] == Access::kRow) return first;
    if (access_[v] == Access::kSplat) {
      if (splat != first) {
        from_view_[v](buffer.elements, 1, first, 0, kBuffered);
        splat = first;
      }
      return buffer.elements;
    }
    char* to = reinterpret_cast<char*>(buffer.elements);
    each_row(v, cursor, n, [&](char* row, int64_t done, int64_t count) {
      from_view_[v](to + done * bytes_, 1, row, nest_.strides[v][0], count);
    });
    return buffer.elements;
  }

  // Puts `n` results from `buffer` where they belong.
  void write(const Buffer& buffer, const Cursor& cursor, int64_t position, int64_t n) const {
    const Dtype dtype = views_[0]->dtype;
    if (stream_) {
      Buffer converted;
      const void* from = buffer.elements;
      if (dtype != computing_) {
        to_result_(converted.elements, 1, from, 1, n);
        from = converted.elements;
      }
      stream_bytes(element(0, position), from, n * size_of(dtype));
      return;
    }
    const char* from = reinterpret_cast<const char*>(buffer.elements);
    each_row(0, cursor, n, [&](char* row, int64_t done, int64_t count) {
      to_result_(row, nest_.strides[0][0], from + done * bytes_, 1, count);
    });
  }

  // Calls `body(first element, elements before it, count)` for the rows that the `n` elements of
  // view `v` from `cursor` on lie in.
  template <class Body>
  void each_row(int v, Cursor cursor, int64_t n, const Body& body) const {
    for (int64_t done = 0; done < n;) {
      const int64_t count = smaller(n - done, nest_.row() - cursor.index[0]);
      body(element(v, cursor.offset[v]), done, count);
      done += count;
      cursor.advance(nest_, count);
    }
  }

  ElementLoop loop_;
  const void* functor_;
  int arity_;
  const View* const* views_;
  Nest nest_;
  Dtype computing_;
  int64_t bytes_;  // of one element of the computing type
  Access access_[kViews];
  RowConverter from_view_[kViews];
  RowConverter to_result_;
  bool stream_;            // the result goes past the caches
  bool across_;            // pieces span rows
  bool within_row_;        // pieces end where rows do
  bool buffered_ = false;  // pieces are at most a block
};

}  // namespace

void run_elementwise(ElementLoop loop, const FunctorLinks* links, const void* f, Dtype compute,
                     int arity, const View& y, const View* x) {
  if (ElementwiseCapture* capture = elementwise_capture()) {
    return capture->note({loop, links, f, compute, arity, y, {}, {}}, x);
  }
  if (y.numel() == 0) return;
  const View* views[kViews] = {&y};
  for (int k = 0; k < arity; ++k) views[k + 1] = &x[k];
  Walk(loop, f, compute, arity, views).run();
}

}  // namespace wick::WICK_ISA
