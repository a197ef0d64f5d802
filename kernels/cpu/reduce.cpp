#include "wick/kernels/reduce.h"

#include "wick/core/base/parallel.h"
#include "wick/kernels/cpu/computed_reduction.h"
#include "wick/kernels/cpu/reduce_ops.h"
#include "wick/kernels/cpu/rows.h"
#include "wick/kernels/reduce_groups.h"

namespace wick::WICK_ISA {

namespace {

constexpr int64_t kSumBlock = 4096;  // elements summed before a partial result becomes wide
constexpr int64_t kRowBlock = 64;    // the same, in rows, where columns are reduced
constexpr int64_t kTile = 1024;      // columns reduced together
constexpr int64_t kNarrow = 128;     // columns of which all rows of a block are read together
constexpr int64_t kChunks = 128;     // pieces of one large group, for the threads
constexpr int64_t kColumnChunks = 32;
constexpr int64_t kSerial = 1 << 15;  // elements below which threads do not pay

// Writes wide results to any dtype.
template <class W>
[[gnu::noinline]] void write(const View& y, int64_t first, int64_t stride, const W* values,
                             int64_t count, double factor) {
  visit_dtype(y.dtype, [&]<class Y>(Type<Y>) {
    for (int64_t i = 0; i < count; ++i) {
      Y& out = y.as<Y>()[first + i * stride];
      if constexpr (std::is_same_v<Y, Half> || std::is_same_v<Y, BFloat16>) {
        out = Y(static_cast<float>(static_cast<double>(values[i]) * factor));
      } else if constexpr (std::is_floating_point_v<Y>) {
        out = static_cast<Y>(static_cast<double>(values[i]) * factor);
      } else {
        out = static_cast<Y>(values[i]);
      }
    }
  });
}

// One reduction `Op` on lanes of L.
template <class Op, class L>
struct Reducer {
  using P = typename LaneTypes<L>::Pack;
  using W = typename LaneTypes<L>::Wide;

  const char* x;
  int64_t element_size;
  PackFunction<L> pack;  // null where elements are lanes already
  const double* center;
  const View& y;
  const Groups& g;
  double factor;
  const ComputedElements* computed;  // null where x is in memory

  static W identity() { return Op::template identity<W>(); }

  bool is_in_place() const { return computed == nullptr && pack == nullptr; }

  // `n` lanes from offset `at` of the input along the inner axis: in place or in `buffer`.
  WICK_INLINE const L* fetch(int64_t at, int64_t n, L* buffer) const {
    if (computed != nullptr) {
      computed->compute(computed->context, at, n, buffer);
      return buffer;
    }
    const char* p = x + at * element_size;
    if (pack == nullptr) return reinterpret_cast<const L*>(p);
    pack(p, g.inner_x, n, buffer);
    return buffer;
  }

  // --- The inner axis is reduced ----------------------------------------------------------------

  [[gnu::noinline, gnu::flatten]] static W reduce_block(const L* p, int64_t size,
                                                        const Center<P>& c) {
    // As many lanes on every instruction set.
    constexpr int64_t kLanes = std::is_floating_point_v<L> ? kSumLanes<L> : P::size;
    constexpr int64_t kParts = kLanes / P::size;
    P sums[4][kParts];
    for (auto& sum : sums) {
      for (P& part : sum) part = P(Op::template identity<L>());
    }
    int64_t i = 0;
    for (; i + 4 * kLanes <= size; i += 4 * kLanes) {
#pragma GCC unroll 4
      for (int64_t q = 0; q < 4; ++q) {
#pragma GCC unroll 2
        for (int64_t part = 0; part < kParts; ++part) {
          const P v = P::load(p + i + q * kLanes + part * P::size);
          sums[q][part] = Op::join(sums[q][part], Op::map(v, c));
        }
      }
    }
    for (; i + kLanes <= size; i += kLanes) {
#pragma GCC unroll 2
      for (int64_t part = 0; part < kParts; ++part) {
        sums[0][part] = Op::join(sums[0][part], Op::map(P::load(p + i + part * P::size), c));
      }
    }
    P all[kParts];
#pragma GCC unroll 2
    for (int64_t part = 0; part < kParts; ++part) {
      all[part] =
          Op::join(Op::join(sums[0][part], sums[1][part]), Op::join(sums[2][part], sums[3][part]));
    }
    if (i < size) join_tail(p + i, size - i, c, all);
    if constexpr (P::size == 1) {
      return all[0].value;
    } else {
      const P halves = kParts == 2 ? Op::join(all[0], all[kParts - 1]) : all[0];
      return static_cast<W>(reduce_lanes(halves, [](P v, P w) { return Op::join(v, w); }));
    }
  }

  // Joins fewer elements than there are lanes in `all` to the first of these.
  static WICK_INLINE void join_tail(const L* p, int64_t size, const Center<P>& c, P* all) {
    constexpr int64_t kLanes = kSumLanes<L>;
    alignas(64) L lanes[kLanes], tail[kLanes] = {}, mapped[kLanes];
    for (int64_t k = 0; k < size; ++k) tail[k] = p[k];
    for (int64_t at = 0; at < kLanes; at += P::size) {
      all[at / P::size].store(lanes + at);
      Op::map(P::load(static_cast<const L*>(tail) + at), c).store(mapped + at);
    }
    for (int64_t k = 0; k < size; ++k) lanes[k] = Op::join(lanes[k], mapped[k]);
    for (int64_t at = 0; at < kLanes; at += P::size) {
      all[at / P::size] = P::load(static_cast<const L*>(lanes) + at);
    }
  }

  // Elements [begin, end) of the inner axis in rows [first, last) of group `o`.
  W reduce_rows(int64_t o, int64_t first, int64_t last, int64_t begin, int64_t end) const {
    alignas(64) L buffer[kSumBlock];
    Center<P> c{};
    if constexpr (Op::kUsesCenter) {
      const double value = center[g.kept.y(o)];
      const L high = static_cast<L>(value);
      c = {P(high), P(static_cast<L>(value - static_cast<double>(high)))};
    }
    const int64_t base = g.kept.x(o);
    W total = identity();
    for (int64_t r = first; r < last; ++r) {
      const int64_t row = base + g.reduced.x(r);
      for (int64_t i = begin; i < end; i += kSumBlock) {
        const int64_t n = end - i < kSumBlock ? end - i : kSumBlock;
        total = Op::join(total, reduce_block(fetch(row + i * g.inner_x, n, buffer), n, c));
      }
    }
    return total;
  }

  void rows() const {
    const int64_t outputs = g.kept.count, each = g.reduced.count * g.inner_size;
    const bool by_output = outputs >= 64 || outputs * each <= kSerial;
    const int64_t grain = by_output ? (each >= kSerial ? 1 : kSerial / each) : outputs;
    parallel_for(outputs, grain, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        const W total =
            by_output ? reduce_rows(o, 0, g.reduced.count, 0, g.inner_size) : reduce_in_chunks(o);
        write(y, g.kept.y(o), 0, &total, 1, factor);
      }
    });
  }

  // Chunks are whole rows, or parts of one row where there are few; at most 2 * kChunks.
  W reduce_in_chunks(int64_t o) const {
    const int64_t row_count = g.reduced.count, size = g.inner_size;
    const int64_t rows_each = (row_count + kChunks - 1) / kChunks;
    int64_t parts = kChunks / row_count;
    const int64_t most = (size + kSumBlock - 1) / kSumBlock;
    parts = parts < 1 ? 1 : (parts < most ? parts : most);
    const int64_t part = (size + parts - 1) / parts;
    const int64_t count = (row_count + rows_each - 1) / rows_each * parts;
    W partial[2 * kChunks];
    parallel_for(count, kSerial / (rows_each * part) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i / parts * rows_each, from = i % parts * part;
        const int64_t last = first + rows_each, to = from + part;
        partial[i] =
            reduce_rows(o, first, last < row_count ? last : row_count, from, to < size ? to : size);
      }
    });
    W total = identity();
    for (int64_t i = 0; i < count; ++i) total = Op::join(total, partial[i]);
    return total;
  }

  // --- The inner axis is kept -------------------------------------------------------------------

  // Rows [first, last) of columns [k, k + width) of group `o`, joined into `out`.
  void reduce_columns(int64_t o, int64_t k, int64_t width, int64_t first, int64_t last,
                      W* out) const {
    const int64_t base = g.kept.x(o) + k * g.inner_x;
    alignas(64) L high[kTile] = {}, low[kTile] = {};
    if constexpr (Op::kUsesCenter) {
      for (int64_t i = 0; i < width; ++i) {
        const double c = center[g.kept.y(o) + (k + i) * g.inner_y];
        high[i] = static_cast<L>(c);
        low[i] = static_cast<L>(c - static_cast<double>(high[i]));
      }
    }
    for (int64_t i = 0; i < width; ++i) out[i] = identity();
    alignas(64) L buffers[4][kTile], sums[kTile];
    for (int64_t block = first; block < last; block += kRowBlock) {
      const int64_t end = block + kRowBlock < last ? block + kRowBlock : last;
      const P start(Op::template identity<L>());
      for (int64_t i = 0; i < width; i += P::size) start.store(sums + i);
      const int64_t most = is_in_place() && width <= kNarrow ? kRowBlock : 4;
      for (int64_t r = block; r < end; r += most) {
        const int64_t count = end - r < most ? end - r : most;
        const L* rows[kRowBlock];
        for (int64_t q = 0; q < count; ++q) {
          rows[q] = fetch(base + g.reduced.x(r + q), width, buffers[q % 4]);
        }
        join_rows(rows, count, width, high, low, sums);
      }
      for (int64_t i = 0; i < width; ++i) out[i] = Op::join(out[i], static_cast<W>(sums[i]));
    }
  }

  // Joins up to kRowBlock rows into `sums`, four by four.
  [[gnu::noinline, gnu::flatten]] static void join_rows(const L* const* rows, int64_t count,
                                                        int64_t width, const L* high, const L* low,
                                                        L* sums) {
    constexpr int64_t kLanes = P::size;
    const int64_t whole = width / kLanes * kLanes;
    int64_t i = 0;
    for (; count > 4 && i + 4 * kLanes <= whole; i += 4 * kLanes) {
      join_vectors<4>(rows, i, count, high + i, low + i, sums + i);
    }
    for (; i < whole; i += kLanes) {
      join_vectors<1>(rows, i, count, high + i, low + i, sums + i);
    }
    if (whole == width) return;
    alignas(64) L tails[4][kLanes] = {};
    const L* const tail_rows[4] = {tails[0], tails[1], tails[2], tails[3]};
    for (int64_t first = 0; first < count; first += 4) {
      const int64_t some = count - first < 4 ? count - first : 4;
      for (int64_t q = 0; q < some; ++q) {
        for (int64_t at = whole; at < width; ++at) tails[q][at - whole] = rows[first + q][at];
      }
      join_vectors<1>(tail_rows, 0, some, high + whole, low + whole, sums + whole);
    }
  }

  // The same of kCount vectors of each row, from element `at` on.
  template <int kCount>
  static WICK_INLINE_ALL void join_vectors(const L* const* rows, int64_t at, int64_t count,
                                           const L* high, const L* low, L* sums) {
    constexpr int64_t kLanes = P::size;
    Center<P> c[kCount];
    P v[kCount];
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) {
      c[i] = {P::load(high + i * kLanes), P::load(low + i * kLanes)};
      v[i] = P::load(static_cast<const L*>(sums) + i * kLanes);
    }
    const auto mapped = [&](int64_t row, int i) {
      return Op::map(P::load(rows[row] + at + i * kLanes), c[i]);
    };
    int64_t q = 0;
    for (; q + 4 <= count; q += 4) {
      P pairs[2][kCount];
#pragma GCC unroll 4
      for (int row = 0; row < 4; ++row) {
#pragma GCC unroll 4
        for (int i = 0; i < kCount; ++i) {
          const P x = mapped(q + row, i);
          pairs[row / 2][i] = row % 2 == 0 ? x : Op::join(pairs[row / 2][i], x);
        }
        // Memory is twice as fast where short rows are read in the order of their addresses, which
        // the compiler must keep.
        if (kCount > 1) asm volatile("" ::: "memory");
      }
#pragma GCC unroll 4
      for (int i = 0; i < kCount; ++i) v[i] = Op::join(v[i], Op::join(pairs[0][i], pairs[1][i]));
    }
    for (; q < count; ++q) {
#pragma GCC unroll 4
      for (int i = 0; i < kCount; ++i) v[i] = Op::join(v[i], mapped(q, i));
    }
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) v[i].store(sums + i * kLanes);
  }

  int64_t width_at(int64_t k) const { return g.inner_size - k < kTile ? g.inner_size - k : kTile; }

  void columns() const {
    const int64_t tiles = (g.inner_size + kTile - 1) / kTile, items = g.kept.count * tiles;
    const int64_t each = g.reduced.count * (tiles > 1 ? kTile : g.inner_size);
    const bool by_item = items >= 32 || items * each <= kSerial;
    const int64_t grain = by_item ? (each >= kSerial ? 1 : kSerial / each) : items;
    parallel_for(items, grain, [&](int64_t begin, int64_t end) {
      alignas(64) W partial[kColumnChunks][kTile];
      for (int64_t i = begin; i < end; ++i) {
        const int64_t o = i / tiles, k = i % tiles * kTile;
        if (by_item) {
          reduce_columns(o, k, width_at(k), 0, g.reduced.count, partial[0]);
        } else {
          reduce_columns_in_chunks(o, k, width_at(k), partial);
        }
        write(y, g.kept.y(o) + k * g.inner_y, g.inner_y, partial[0], width_at(k), factor);
      }
    });
  }

  // Leaves the result in partial[0].
  void reduce_columns_in_chunks(int64_t o, int64_t k, int64_t width, W (*partial)[kTile]) const {
    const int64_t row_count = g.reduced.count;
    const int64_t even = (row_count + kColumnChunks - 1) / kColumnChunks;
    const int64_t rows_each = even > kRowBlock ? even : kRowBlock;
    parallel_chunks(row_count, rows_each, [&](int64_t chunk, int64_t begin, int64_t end) {
      reduce_columns(o, k, width, begin, end, partial[chunk]);
    });
    const int64_t count = (row_count + rows_each - 1) / rows_each;
    for (int64_t chunk = 1; chunk < count; ++chunk) {
      for (int64_t i = 0; i < width; ++i) {
        partial[0][i] = Op::join(partial[0][i], partial[chunk][i]);
      }
    }
  }
};

template <class Op, class L>
void run(const Reducer<Op, L>& reducer) {
  if (reducer.g.inner_reduced) {
    reducer.rows();
  } else {
    reducer.columns();
  }
}

void run_kind(Reduction kind, const View& x, const View& center, const View& y, double factor,
              const ComputedElements* computed) {
  const Groups g = group_axes(x, y);
  const auto with_lanes = [&]<class L>(Type<L>, PackFunction<L> pack) {
    const auto with_op = [&]<class Op>(Op) {
      run(Reducer<Op, L>{x.as<const char>(), size_of(x.dtype), pack, center.as<double>(), y, g,
                         factor, computed});
    };
    switch (kind) {
      case Reduction::kSum: return with_op(SumOf{});
      case Reduction::kProd: return with_op(ProdOf{});
      case Reduction::kMax: return with_op(MaxOf{});
      case Reduction::kMin: return with_op(MinOf{});
      default: break;
    }
    if constexpr (!std::is_same_v<L, int64_t>) {
      if (kind == Reduction::kSumSquares) return with_op(SumSquaresOf{});
      if (kind == Reduction::kSumDeviations) return with_op(SumDeviationsOf{});
      if (kind == Reduction::kSumExp) return with_op(SumExpOf{});
      return with_op(SumSquaredDeviationsOf{});
    }
  };
  visit_dtype(x.dtype, [&]<class T>(Type<T>) {
    using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
    using L = Accumulator<Stored>;
    const bool in_place = std::is_same_v<Stored, L> && g.inner_x == 1;
    with_lanes(Type<L>{}, in_place ? nullptr : &pack<Stored, L>);
  });
}

}  // namespace

void reduce(Reduction kind, const View& x, const View& center, const View& y, double factor,
            Workspace&) {
  run_kind(kind, x, center, y, factor, nullptr);
}

void reduce_computed(Reduction kind, const View& x, const View& y, double factor,
                     const ComputedElements& elements) {
  run_kind(kind, x, View{}, y, factor, &elements);
}

}  // namespace wick::WICK_ISA
