#include "wick/kernels/cpu/moments.h"
#include "wick/kernels/norm.h"

namespace wick::WICK_ISA {

namespace {

// Sum of squares of a row.
template <class L, class T>
[[gnu::noinline, gnu::flatten]] double sum_of_squares(const T* x, int64_t size) {
  return sum_row<L>(size, [&](int64_t i, int64_t n) {
    const Vec<L> v = load_up_to<L>(x + i, n);
    return v * v;
  });
}

// n lanes of an optional weight.
template <class L>
WICK_INLINE Vec<L> optional_lanes(const L* p, int64_t i, int64_t n, L otherwise) {
  return p == nullptr ? Vec<L>(otherwise) : load_up_to<L>(p + i, n);
}

template <class L, class T>
[[gnu::noinline, gnu::flatten]] void add_rows(const T* a, const T* b, T* sum, int64_t size) {
  for_vectors<L>(size, [&](int64_t i, int64_t n) {
    put(load_up_to<L>(a + i, n) + load_up_to<L>(b + i, n), sum + i, n, false);
  });
}

template <class L, class T>
[[gnu::noinline, gnu::flatten]] void normalise_row(const T* x, const L* weight, const L* bias, T* y,
                                                   int64_t size, double mean, double invstd,
                                                   bool stream) {
  const L high = static_cast<L>(mean);
  const Vec<L> center(high), low(static_cast<L>(mean - static_cast<double>(high)));
  const Vec<L> scale(static_cast<L>(invstd));
  for_vectors<L>(size, [&](int64_t i, int64_t n) {
    const Vec<L> v = ((load_up_to<L>(x + i, n) - center) - low) * scale;
    put(fma(v, optional_lanes<L>(weight, i, n, 1), optional_lanes<L>(bias, i, n, 0)), y + i, n,
        stream);
  });
}

// What the rows of one call share.
template <class T>
struct Backward {
  using L = Accumulator<T>;
  const T *dy, *x;
  const L* weight;
  const T* dsum;
  T* dx;
  int64_t size;
  bool centered, stream;

  // Writes dx of row `r`, and adds its part to dweight and dbias.
  [[gnu::noinline, gnu::flatten]] void row(int64_t r, double mean, double invstd, L* dweight,
                                           L* dbias) const {
    const T *g_row = dy + r * size, *x_row = x + r * size;
    const L high = static_cast<L>(mean);
    const Vec<L> center(high), low(static_cast<L>(mean - static_cast<double>(high)));
    const Vec<L> scale(static_cast<L>(invstd));
    const auto normalised = [&](int64_t i, int64_t n) {
      return ((load_up_to<L>(x_row + i, n) - center) - low) * scale;
    };
    const auto weighted = [&](int64_t i, int64_t n) {
      const Vec<L> g = load_up_to<L>(g_row + i, n);
      return weight == nullptr ? g : g * load_up_to<L>(weight + i, n);
    };
    const double count = static_cast<double>(size);
    double sum = 0, dot = 0;
    for (int64_t block = 0; block < size; block += 4096) {
      const int64_t block_size = size - block < 4096 ? size - block : 4096;
      LaneSums<L> s, d;
      // The lanes of a tail hold (0 - center) * 0.
      for_sum_lanes<L>(block, block + block_size, [&](int64_t i, int64_t n, int64_t part) {
        const Vec<L> g = weighted(i, n);
        s[part] += g;
        d[part] = fma(g, normalised(i, n), d[part]);
      });
      sum += static_cast<double>(s.total());
      dot += static_cast<double>(d.total());
    }
    if (!centered) sum = 0;
    const Vec<L> shift(static_cast<L>(sum / count)), slope(static_cast<L>(dot / count));
    for_vectors<L>(size, [&](int64_t i, int64_t n) {
      const Vec<L> v = normalised(i, n);
      if (dx != nullptr) {
        Vec<L> d = (weighted(i, n) - shift - v * slope) * scale;
        if (dsum != nullptr) d += load_up_to<L>(dsum + r * size + i, n);
        put(d, dx + r * size + i, n, stream);
      }
      if (dweight != nullptr) {
        const Vec<L> g = load_up_to<L>(g_row + i, n);
        store_up_to(fma(g, v, load_up_to<L>(dweight + i, n)), dweight + i, n);
        store_up_to(g + load_up_to<L>(dbias + i, n), dbias + i, n);
      }
    });
  }
};

// Joins the chunks' parts, `part` 0 of dweight or 1 of dbias.
template <class L>
void join_parts(const L* scratch, int64_t chunks, int64_t size, int64_t part, L* out) {
  parallel_for(size, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      double total = 0;
      for (int64_t c = 0; c < chunks; ++c) {
        total += static_cast<double>(scratch[(2 * c + part) * size + i]);
      }
      out[i] = static_cast<L>(total);
    }
  });
}

}  // namespace

void layer_norm_forward(const RowNorm& n) {
  const int64_t rows = n.x.shape[0], size = n.x.shape[1];
  visit_floating(n.x.dtype, [&]<class T>(Type<T>) {
    using L = Accumulator<T>;
    const bool stream = should_stream(n.y.as<T>(), rows, size);
    parallel_for(rows, row_grain(size), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* in = n.x.as<T>() + r * size;
        if (n.residual.defined()) {
          T* const sum = n.sum.as<T>() + r * size;
          add_rows<L>(in, n.residual.as<T>() + r * size, sum, size);
          in = sum;
        }
        Moments m;
        if (n.mean.defined()) {
          add_row<L>(in, size, m);
          n.mean.as<double>()[r] = m.mean;
        } else {
          m.m2 = sum_of_squares<L>(in, size);
        }
        const double scale = 1 / __builtin_sqrt(m.m2 / static_cast<double>(size) + n.eps);
        n.invstd.as<double>()[r] = scale;
        normalise_row<L>(in, n.weight.as<const L>(), n.bias.as<const L>(), n.y.as<T>() + r * size,
                         size, m.mean, scale, stream);
      }
      if (stream) stream_fence();
    });
  });
}

void layer_norm_backward(const RowNorm& n) {
  const int64_t rows = n.x.shape[0], size = n.x.shape[1], chunks = norm_chunks(rows, size);
  visit_floating(n.x.dtype, [&]<class T>(Type<T>) {
    using L = Accumulator<T>;
    const Backward<T> b{
        n.dy.as<T>(),           n.x.as<T>(),
        n.weight.as<const L>(), n.dsum.as<const T>(),
        n.dx.as<T>(),           size,
        n.mean.defined(),       n.dx.defined() && should_stream(n.dx.as<T>(), rows, size)};
    const bool parameters = n.dweight.defined() || n.dbias.defined();
    L* parts = nullptr;
    if (parameters) {
      const size_t count = static_cast<size_t>(chunks * 2 * size);
      parts = static_cast<L*>(n.workspace->allocate(count * sizeof(L)));
    }
    parallel_for(chunks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        L* part = parts == nullptr ? nullptr : parts + chunk * 2 * size;
        for (int64_t i = 0; part != nullptr && i < 2 * size; ++i) part[i] = 0;
        for (int64_t r = rows * chunk / chunks; r < rows * (chunk + 1) / chunks; ++r) {
          b.row(r, n.mean.defined() ? n.mean.as<double>()[r] : 0, n.invstd.as<double>()[r], part,
                part == nullptr ? nullptr : part + size);
        }
      }
      if (b.stream) stream_fence();
    });
    if (n.dweight.defined()) join_parts(parts, chunks, size, 0, n.dweight.as<L>());
    if (n.dbias.defined()) join_parts(parts, chunks, size, 1, n.dbias.as<L>());
  });
}

}  // namespace wick::WICK_ISA
