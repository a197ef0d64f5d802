#include "wick/kernels/elementwise_chain.h"

#include "wick/core/base/parallel.h"
#include "wick/kernels/cpu/convert.h"
#include "wick/kernels/loop_nest.h"

namespace wick::WICK_ISA {

namespace {

using Chain = ElementwiseChain;
using ChainNest = LoopNest<Chain::kMaxViews>;
using ChainCursor = LoopCursor<Chain::kMaxViews>;

constexpr int64_t kChainTile = 1024;  // elements of a slot

struct alignas(64) ChainSlot {
  alignas(64) double elements[kChainTile];  // of any dtype
};

// One walk over the views, shared by the threads. Results are dense.
class ChainWalk {
 public:
  ChainWalk(const Chain& chain, const View* const* views)
      : chain_(chain), views_(views), nest_(views, chain.num_views) {
    bool all_dense = true;
    for (int v = 0; v < chain.num_views; ++v) {
      is_dense_[v] = nest_.is_dense(v);
      all_dense = all_dense && is_dense_[v];
    }
    within_row_ = !all_dense && nest_.row() >= kShortRow;
    for (int v = 0; v < chain.num_results; ++v) {
      streams_[v] = nest_.numel * size_of(views[v]->dtype) >= kStreamBytes;
    }
  }

  void run() const {
    parallel_for(nest_.numel, kParallelGrain,
                 [this](int64_t begin, int64_t end) { run(begin, end); });
  }

 private:
  void run(int64_t begin, int64_t end) const {
    ChainSlot slots[Chain::kMaxSlots];
    ChainCursor cursor(nest_, begin);
    for (int64_t position = begin; position < end;) {
      int64_t n = smaller(end - position, kChainTile);
      if (within_row_) n = smaller(n, nest_.row() - cursor.index[0]);
      for (int s = 0; s < chain_.num_steps; ++s) {
        run_step(chain_.steps[s], slots, cursor, position, n);
      }
      position += n;
      move(cursor, n);
    }
    stream_fence();
  }

  void run_step(const Chain::Step& step, ChainSlot* slots, const ChainCursor& cursor,
                int64_t position, int64_t n) const {
    const void* x[ElementwiseCall::kMaxInputs] = {};
    for (int k = 0; k < step.arity; ++k) {
      x[k] = source(step.x[k], step.compute, slots, cursor, position, n);
    }
    void* result = slots[step.slot].elements;
    if (step.computed >= 0) {
      void* computed = slots[step.computed].elements;
      step.loop(step.functor, computed, x, n);
      row_converter(step.dtype, step.compute)(result, 1, computed, 1, n);
    } else {
      step.loop(step.functor, result, x, n);
    }
    if (step.view < 0) return;
    char* to = views_[step.view]->as<char>() + position * size_of(step.dtype);
    if (streams_[step.view]) {
      stream_bytes(to, result, n * size_of(step.dtype));
    } else {
      __builtin_memcpy(to, result, static_cast<size_t>(n * size_of(step.dtype)));
    }
  }

  // Where a step finds `n` elements of an input, of its computing type.
  const void* source(const Chain::Source& from, Dtype compute, ChainSlot* slots,
                     const ChainCursor& cursor, int64_t position, int64_t n) const {
    if (from.view < 0) {
      const void* kept = slots[from.slot].elements;
      return from.dtype == compute ? kept : converted(from, compute, slots, kept, n);
    }
    const char* data = views_[from.view]->as<char>();
    const int64_t size = size_of(from.dtype);
    if (is_dense_[from.view]) {
      const void* first = data + position * size;
      return from.dtype == compute ? first : converted(from, compute, slots, first, n);
    }
    return gathered(from, compute, slots, cursor, n);
  }

  static const void* converted(const Chain::Source& from, Dtype compute, ChainSlot* slots,
                               const void* first, int64_t n) {
    void* to = slots[from.converted].elements;
    row_converter(compute, from.dtype)(to, 1, first, 1, n);
    return to;
  }

  const void* gathered(const Chain::Source& from, Dtype compute, ChainSlot* slots,
                       ChainCursor cursor, int64_t n) const {
    const int64_t stride = nest_.strides[from.view][0], size = size_of(from.dtype);
    const char* data = views_[from.view]->as<char>();
    if (within_row_ && stride == 1 && from.dtype == compute) {
      return data + cursor.offset[from.view] * size;
    }
    const RowConverter convert = row_converter(compute, from.dtype);
    char* to = reinterpret_cast<char*>(slots[from.converted].elements);
    for (int64_t done = 0; done < n;) {
      const int64_t count = smaller(n - done, nest_.row() - cursor.index[0]);
      convert(to + done * size_of(compute), 1, data + cursor.offset[from.view] * size, stride,
              count);
      done += count;
      cursor.advance(nest_, count);
    }
    return to;
  }

  static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

  void move(ChainCursor& cursor, int64_t n) const {
    while (n > 0) {
      const int64_t count = smaller(n, nest_.row() - cursor.index[0]);
      cursor.advance(nest_, count);
      n -= count;
    }
  }

  static constexpr int64_t kShortRow = 256;  // where rows are shorter, tiles span several of them
  const Chain& chain_;
  const View* const* views_;
  ChainNest nest_;
  bool is_dense_[Chain::kMaxViews] = {};
  bool streams_[Chain::kMaxViews] = {};
  bool within_row_;  // tiles end where rows do
};

}  // namespace

void elementwise_chain(const ElementwiseChain& chain, const View* views) {
  if (views[0].numel() == 0) return;
  const View* pointers[Chain::kMaxViews];
  for (int v = 0; v < chain.num_views; ++v) pointers[v] = &views[v];
  ChainWalk(chain, pointers).run();
}

}  // namespace wick::WICK_ISA
