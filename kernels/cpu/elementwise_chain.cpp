#include "wick/kernels/elementwise_chain.h"

#include "wick/core/base/parallel.h"
#include "wick/kernels/chain_reduction.h"
#include "wick/kernels/cpu/computed_reduction.h"
#include "wick/kernels/cpu/convert.h"
#include "wick/kernels/loop_nest.h"

namespace wick::WICK_ISA {

namespace {

using Chain = ElementwiseChain;
using ChainNest = LoopNest<Chain::kMaxViews>;
using ChainCursor = LoopCursor<Chain::kMaxViews>;

constexpr int64_t kChainTile = 1024;  // elements of a slot
constexpr int kMaxStreams = 4;        // results that may go past the caches
constexpr int64_t kTilesAhead = 2;    // of the prefetch
constexpr int64_t kLine = 64;         // bytes

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
      stream_[v] = -1;
      is_dense_[v] = nest_.is_dense(v);
      all_dense = all_dense && is_dense_[v];
    }
    share_ = (kChainTile / kLine + chain.num_steps - 1) / chain.num_steps * kLine;
    within_row_ = !all_dense && nest_.row() >= kShortRow;
    for (int v = 0; v < chain.num_results && num_streams_ < kMaxStreams; ++v) {
      if (views[v]->data == nullptr) continue;
      if (nest_.numel * size_of(views[v]->dtype) >= kStreamBytes) stream_[v] = num_streams_++;
    }
  }

  void run() const {
    parallel_for(nest_.numel, kParallelGrain,
                 [this](int64_t begin, int64_t end) { run(begin, end); });
  }

  // Elements [begin, end). Results of view 0 go to `lanes`, if that is not null.
  void run(int64_t begin, int64_t end, char* lanes = nullptr) const {
    Work work;
    ChainCursor cursor(nest_, begin);
    for (work.position = begin; work.position < end;) {
      work.n = smaller(end - work.position, kChainTile);
      if (within_row_) work.n = smaller(work.n, nest_.row() - cursor.index[0]);
      for (int s = 0; s < chain_.num_steps; ++s) {
        prefetch(work, end, s);
        store_share(work, s);
        run_step(s, work, cursor);
        if (lanes != nullptr && chain_.steps[s].view == 0) {
          lanes = put_lanes(result_of(s, work), chain_.steps[s].dtype, work.n, lanes);
        }
      }
      work.stored_position = work.position;
      work.stored_n = work.n;
      work.parity = 1 - work.parity;
      work.position += work.n;
      move(cursor, work.n);
    }
    if (num_streams_ == 0) return;
    for (int s = 0; s < chain_.num_steps; ++s) store_share(work, s);
    stream_fence();
  }

 private:
  // What a thread computes with. Results that go past the caches are stored while the next tile is
  // computed, a share with each step, so that the memory never waits.
  struct Work {
    ChainSlot slots[Chain::kMaxSlots];
    ChainSlot streamed[2][kMaxStreams];  // of this tile and of the one before
    int parity = 0;
    int64_t position = 0, n = 0;                // of this tile
    int64_t stored_position = 0, stored_n = 0;  // of the one before
  };

  // Returns where the next lanes go.
  static char* put_lanes(const char* result, Dtype dtype, int64_t n, char* lanes) {
    const Dtype lane = dtype == Dtype::kFloat64 ? Dtype::kFloat64 : Dtype::kFloat32;
    row_converter(lane, dtype)(lanes, 1, result, 1, n);
    return lanes + n * size_of(lane);
  }

  // Asks for a step's share of a tile to come. Inline: else g++ 12 drops the call as one without
  // effect.
  WICK_INLINE void prefetch(const Work& work, int64_t end, int s) const {
    const int64_t position = work.position + kTilesAhead * kChainTile;
    const int64_t n = smaller(end - position, kChainTile);
    const int64_t first = s * share_, last = smaller(first + share_, n);
    for (int v = chain_.num_results; v < chain_.num_views; ++v) {
      if (!is_dense_[v]) continue;
      const int64_t size = size_of(views_[v]->dtype);
      const char* tile = views_[v]->as<char>() + position * size;
      for (int64_t i = first * size; i < last * size; i += kLine) __builtin_prefetch(tile + i);
    }
  }

  // Stores a step's share of the tile before.
  void store_share(const Work& work, int s) const {
    const int64_t first = s * share_, n = smaller(share_, work.stored_n - first);
    if (n <= 0) return;
    for (int v = 0; v < chain_.num_results; ++v) {
      if (stream_[v] < 0) continue;
      const int64_t size = size_of(views_[v]->dtype);
      const ChainSlot& from = work.streamed[1 - work.parity][stream_[v]];
      stream_bytes(views_[v]->as<char>() + (work.stored_position + first) * size,
                   reinterpret_cast<const char*>(from.elements) + first * size, n * size);
    }
  }

  // Where the result of a step is.
  char* result_of(int s, Work& work) const {
    const Chain::Step& step = chain_.steps[s];
    ChainSlot& slot = step.view >= 0 && stream_[step.view] >= 0
                          ? work.streamed[work.parity][stream_[step.view]]
                          : work.slots[step.slot];
    return reinterpret_cast<char*>(slot.elements);
  }

  void run_step(int s, Work& work, const ChainCursor& cursor) const {
    const Chain::Step& step = chain_.steps[s];
    const void* x[ElementwiseCall::kMaxInputs] = {};
    for (int k = 0; k < step.arity; ++k) x[k] = source(step.x[k], step.compute, work, cursor);
    char* result = result_of(s, work);
    if (step.computed >= 0) {
      void* computed = work.slots[step.computed].elements;
      step.loop(step.functor, computed, x, work.n);
      row_converter(step.dtype, step.compute)(result, 1, computed, 1, work.n);
    } else {
      step.loop(step.functor, result, x, work.n);
    }
    if (step.view < 0 || stream_[step.view] >= 0 || views_[step.view]->data == nullptr) return;
    const int64_t size = size_of(step.dtype);
    __builtin_memcpy(views_[step.view]->as<char>() + work.position * size, result,
                     static_cast<size_t>(work.n * size));
  }

  // Where a step finds the tile's elements of an input, of its computing type.
  const void* source(const Chain::Source& from, Dtype compute, Work& work,
                     const ChainCursor& cursor) const {
    if (from.view >= 0 && !is_dense_[from.view]) return gathered(from, compute, work, cursor);
    const char* first = from.view < 0
                            ? result_of(from.step, work)
                            : views_[from.view]->as<char>() + work.position * size_of(from.dtype);
    if (from.dtype == compute) return first;
    void* to = work.slots[from.converted].elements;
    row_converter(compute, from.dtype)(to, 1, first, 1, work.n);
    return to;
  }

  const void* gathered(const Chain::Source& from, Dtype compute, Work& work,
                       ChainCursor cursor) const {
    const int64_t stride = nest_.strides[from.view][0], size = size_of(from.dtype);
    const char* data = views_[from.view]->as<char>();
    if (within_row_ && stride == 1 && from.dtype == compute) {
      return data + cursor.offset[from.view] * size;
    }
    const RowConverter convert = row_converter(compute, from.dtype);
    char* to = reinterpret_cast<char*>(work.slots[from.converted].elements);
    for (int64_t done = 0; done < work.n;) {
      const int64_t count = smaller(work.n - done, nest_.row() - cursor.index[0]);
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
  int stream_[Chain::kMaxViews];  // the place in Work::streamed; -1: not past the caches
  int num_streams_ = 0;
  int64_t share_;    // of a tile's elements, in whole lines
  bool within_row_;  // tiles end where rows do
};

}  // namespace

void elementwise_chain(const ElementwiseChain& chain, const View* views) {
  if (views[0].numel() == 0) return;
  const View* pointers[Chain::kMaxViews];
  for (int v = 0; v < chain.num_views; ++v) pointers[v] = &views[v];
  ChainWalk(chain, pointers).run();
}

void reduce_chain(const ElementwiseChain& chain, const View* views, Reduction kind, const View& y,
                  double factor) {
  const View* pointers[Chain::kMaxViews];
  for (int v = 0; v < chain.num_views; ++v) pointers[v] = &views[v];
  const ChainWalk walk(chain, pointers);
  const auto compute = [](const void* of, int64_t begin, int64_t n, void* lanes) {
    static_cast<const ChainWalk*>(of)->run(begin, begin + n, static_cast<char*>(lanes));
  };
  reduce_computed(kind, views[0], y, factor, {&walk, compute});
}

}  // namespace wick::WICK_ISA
