#include "wick/kernels/elementwise_chain.h"

#include "wick/core/base/parallel.h"
#include "wick/kernels/chain_reduction.h"
#include "wick/kernels/cpu/computed_reduction.h"
#include "wick/kernels/cpu/convert.h"
#include "wick/kernels/cpu/linked_chain.h"
#include "wick/kernels/loop_nest.h"

namespace wick::WICK_ISA {

namespace {

using Chain = ElementwiseChain;
using ChainNest = LoopNest<Chain::kMaxViews>;
using ChainCursor = LoopCursor<Chain::kMaxViews>;

constexpr int64_t kChainTile = 1024;  // elements of a slot
static_assert(kChainTile % kLinkBlock == 0);

// One walk over the views, shared by the threads. Results are dense.
class ChainWalk {
 public:
  ChainWalk(const Chain& chain, const View* const* views)
      : chain_(chain), views_(views), nest_(views, chain.num_views), plan_(chain) {
    bool all_dense = true;
    for (int v = 0; v < chain.num_views; ++v) {
      is_dense_[v] = nest_.is_dense(v);
      all_dense = all_dense && is_dense_[v];
    }
    within_row_ = !all_dense && nest_.row() >= kShortRow;
  }

  void run() const {
    parallel_for(nest_.numel, kParallelGrain,
                 [this](int64_t begin, int64_t end) { run(begin, end); });
  }

  // Elements [begin, end). Results of view 0 go to `lanes`, if that is not null.
  void run(int64_t begin, int64_t end, char* lanes = nullptr) const {
    if (plan_.is_possible()) {
      run_links(begin, end, lanes);
    } else {
      run_loops(begin, end, lanes);
    }
    for (int v = 0; v < chain_.num_results; ++v) {
      if (is_streamed(v)) return stream_fence();
    }
  }

 private:
  // A tile in the cache, of any dtype.
  struct alignas(64) Slot {
    alignas(64) double elements[kChainTile];
  };

  // --- By links, in float32 -------------------------------------------------------------------

  struct LinkWork {
    alignas(64) float slots[Chain::kMaxSlots][kChainTile];
    alignas(64) float inputs[Chain::kMaxViews][kChainTile];   // what is not read in place
    alignas(64) float results[Chain::kMaxViews][kLinkBlock];  // of a part of a block, of any dtype
  };

  void run_links(int64_t begin, int64_t end, char* lanes) const {
    LinkWork work;
    ChainMemory memory;
    for (int slot = 0; slot < Chain::kMaxSlots; ++slot) memory.slots[slot] = work.slots[slot];
    for (int v = 0; v < chain_.num_views; ++v) {
      const bool is_in_place = v < chain_.num_results || is_read_in_place(v);
      memory.views[v].data = is_in_place ? views_[v]->data : work.inputs[v];
      memory.views[v].is_view = is_in_place;
      memory.streams[v] = is_streamed(v);
    }
    memory.lanes = reinterpret_cast<float*>(lanes);
    LinkedChain links(chain_, plan_, memory);
    ChainCursor cursor(nest_, begin);
    for (int64_t position = begin; position < end;) {
      int64_t n = tile_at(position, end, cursor);
      if (position == begin) n = smaller(n, up_to_line(begin));
      const int64_t whole = n - n % kLinkBlock;
      for (int v = chain_.num_results; v < chain_.num_views; ++v) {
        if (!is_read_in_place(v)) gather(v, Dtype::kFloat32, work.inputs[v], whole, cursor);
      }
      links.run(position, whole, position - begin);
      move(cursor, whole);
      if (whole < n) run_part(work, memory, position + whole, n - whole, cursor);
      if (whole < n && lanes != nullptr) {
        put_lanes(work.results[0], result_dtype(), n - whole,
                  lanes + (position + whole - begin) * size_of(Dtype::kFloat32));
      }
      move(cursor, n - whole);
      position += n;
    }
  }

  // How many elements lie before the first line of the first result that goes past the caches, or
  // more than any tile has.
  int64_t up_to_line(int64_t position) const {
    constexpr int64_t kLine = 64;
    for (int v = 0; v < chain_.num_results; ++v) {
      if (!is_streamed(v)) continue;
      const int64_t size = size_of(views_[v]->dtype);
      const auto address =
          reinterpret_cast<uintptr_t>(views_[v]->data) + static_cast<uintptr_t>(position * size);
      const auto before = static_cast<int64_t>(-address % kLine);
      if (before > 0) return before / size;
    }
    return kChainTile;
  }

  // A part of a block: its first `n` elements. The whole block is computed in buffers.
  void run_part(LinkWork& work, ChainMemory memory, int64_t position, int64_t n,
                const ChainCursor& cursor) const {
    for (int v = 0; v < chain_.num_views; ++v) {
      const bool is_result = v < chain_.num_results;
      memory.views[v] = {is_result ? work.results[v] : work.inputs[v], false};
      memory.streams[v] = false;
      if (is_result) continue;
      __builtin_memset(work.inputs[v], 0, kLinkBlock * sizeof(float));
      gather(v, Dtype::kFloat32, work.inputs[v], n, cursor);
    }
    memory.lanes = nullptr;
    LinkedChain(chain_, plan_, memory).run(position, kLinkBlock, 0);
    for (int v = 0; v < chain_.num_results; ++v) put(v, position, n, work.results[v]);
  }

  bool is_read_in_place(int v) const { return is_dense_[v] && views_[v]->dtype == Dtype::kFloat32; }

  // --- By the functors' loops, in any type ----------------------------------------------------

  struct LoopWork {
    Slot slots[Chain::kMaxSlots];
    int64_t position = 0, n = 0;  // of this tile
  };

  void run_loops(int64_t begin, int64_t end, char* lanes) const {
    LoopWork work;
    ChainCursor cursor(nest_, begin);
    for (work.position = begin; work.position < end; work.position += work.n) {
      work.n = tile_at(work.position, end, cursor);
      for (int s = 0; s < chain_.num_steps; ++s) {
        run_step(s, work, cursor);
        if (lanes == nullptr || chain_.steps[s].view != 0) continue;
        const Dtype lane = result_dtype() == Dtype::kFloat64 ? Dtype::kFloat64 : Dtype::kFloat32;
        put_lanes(result_of(s, work), result_dtype(), work.n,
                  lanes + (work.position - begin) * size_of(lane));
      }
      move(cursor, work.n);
    }
  }

  void run_step(int s, LoopWork& work, const ChainCursor& cursor) const {
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
    if (step.view >= 0) put(step.view, work.position, work.n, result);
  }

  // Where the result of a step is.
  char* result_of(int s, LoopWork& work) const {
    return reinterpret_cast<char*>(work.slots[chain_.steps[s].slot].elements);
  }

  // Where a step finds the tile's elements of an input, of its computing type.
  const void* source(const Chain::Source& from, Dtype compute, LoopWork& work,
                     const ChainCursor& cursor) const {
    if (from.view >= 0) {
      const View& view = *views_[from.view];
      if (is_dense_[from.view] && from.dtype == compute) {
        return view.as<char>() + work.position * size_of(from.dtype);
      }
      void* const to = work.slots[from.converted].elements;
      gather(from.view, compute, to, work.n, cursor);
      return to;
    }
    const char* const result = result_of(from.step, work);
    if (from.dtype == compute) return result;
    void* const to = work.slots[from.converted].elements;
    row_converter(compute, from.dtype)(to, 1, result, 1, work.n);
    return to;
  }

  // --- Tiles and views ------------------------------------------------------------------------

  int64_t tile_at(int64_t position, int64_t end, const ChainCursor& cursor) const {
    const int64_t n = smaller(end - position, kChainTile);
    return within_row_ ? smaller(n, nest_.row() - cursor.index[0]) : n;
  }

  // Puts the next `n` elements of an input side by side, as `dtype`.
  void gather(int v, Dtype dtype, void* to, int64_t n, ChainCursor cursor) const {
    const int64_t stride = nest_.strides[v][0], size = size_of(views_[v]->dtype);
    const RowConverter convert = row_converter(dtype, views_[v]->dtype);
    for (int64_t done = 0; done < n;) {
      const int64_t count = smaller(n - done, nest_.row() - cursor.index[0]);
      convert(static_cast<char*>(to) + done * size_of(dtype), 1,
              views_[v]->as<char>() + cursor.offset[v] * size, stride, count);
      done += count;
      cursor.advance(nest_, count);
    }
  }

  void move(ChainCursor& cursor, int64_t n) const {
    while (n > 0) {
      const int64_t count = smaller(n, nest_.row() - cursor.index[0]);
      cursor.advance(nest_, count);
      n -= count;
    }
  }

  // Stores elements of a result.
  void put(int v, int64_t position, int64_t n, const void* from) const {
    if (views_[v]->data == nullptr) return;
    const int64_t size = size_of(views_[v]->dtype);
    char* const to = views_[v]->as<char>() + position * size;
    if (is_streamed(v)) return stream_bytes(to, from, n * size);
    __builtin_memcpy(to, from, static_cast<size_t>(n * size));
  }

  bool is_streamed(int v) const {
    return v < chain_.num_results && views_[v]->data != nullptr &&
           nest_.numel * size_of(views_[v]->dtype) >= kStreamBytes;
  }

  Dtype result_dtype() const { return views_[0]->dtype; }

  static void put_lanes(const void* result, Dtype dtype, int64_t n, char* lanes) {
    const Dtype lane = dtype == Dtype::kFloat64 ? Dtype::kFloat64 : Dtype::kFloat32;
    row_converter(lane, dtype)(lanes, 1, result, 1, n);
  }

  static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

  static constexpr int64_t kShortRow = 256;  // where rows are shorter, tiles span several of them
  const Chain& chain_;
  const View* const* views_;
  ChainNest nest_;
  LinkPlan plan_;
  bool is_dense_[Chain::kMaxViews] = {};
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
