#include "wick/kernels/cpu/channel_affine.h"
#include "wick/kernels/cpu/moments.h"
#include "wick/kernels/norm.h"

namespace wick::WICK_ISA {

namespace {

// Reads or writes element `i` of a floating view of rank 1, of any dtype.
double read(const View& v, int64_t i) {
  double value = 0;
  visit_floating(
      v.dtype, [&]<class T>(Type<T>) { value = static_cast<double>(v.as<T>()[i * v.strides[0]]); });
  return value;
}
void write(const View& v, int64_t i, double value) {
  visit_floating(v.dtype, [&]<class T>(Type<T>) {
    v.as<T>()[i * v.strides[0]] = static_cast<T>(static_cast<Accumulator<T>>(value));
  });
}

double* scratch_of(const ChannelNorm& n, int64_t lines, int64_t channels) {
  const size_t bytes = static_cast<size_t>(lines * channels) * sizeof(double);
  return static_cast<double*>(n.workspace->allocate(bytes));
}

// Batch norm of elements of T. With inner size 1 the channels lie side by side, and rows are cut
// into chunks, whose sums are joined in order; else each channel is a set of runs.
template <class T>
struct BatchNorm {
  using L = Accumulator<T>;

  const ChannelNorm& n;
  AxisSplit s;  // outer x channels x inner
  int64_t count, chunks;
  double* sums;  // [chunks][2][channels]
  Coefficients<L> k;

  explicit BatchNorm(const ChannelNorm& norm)
      : n(norm),
        s(channel_split(norm.x)),
        count(s.outer * s.inner),
        chunks(s.inner == 1 ? norm_chunks(s.outer, s.size) : 1),
        sums(scratch_of(norm, chunks * 2 + 4, s.size)) {
    L* p = reinterpret_cast<L*>(sums + chunks * 2 * s.size);
    k = {p, p + s.size, p + 2 * s.size, p + 3 * s.size};
  }

  L* center() const { return const_cast<L*>(k.center); }
  L* a() const { return const_cast<L*>(k.a); }
  L* b() const { return const_cast<L*>(k.b); }
  L* c() const { return const_cast<L*>(k.c); }
  const double* mean() const { return n.mean.as<double>(); }

  int64_t mask_stride() const { return n.mask.defined() ? n.mask.shape[1] : 0; }
  MaskRow<L> mask_row(int64_t row) const {
    return {n.mask.defined() ? n.mask.as<uint8_t>() + row * mask_stride() : nullptr};
  }
  double weight(int64_t i) const {
    return n.weight.defined() ? static_cast<double>(n.weight.as<L>()[i]) : 1;
  }

  // `body(chunk, first row, last row)`, or `body(channel, ...)`.
  template <class Body>
  void each_chunk(const Body& body) const {
    parallel_for(chunks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        body(i, s.outer * i / chunks, s.outer * (i + 1) / chunks);
      }
    });
  }
  template <class Body>
  void each_channel(const Body& body) const {
    parallel_for(s.size, row_grain(count), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) body(i);
    });
  }

  // Leaves mean and squared deviations in n.mean and n.invstd.
  void statistics() const {
    double *means = n.mean.as<double>(), *m2 = n.invstd.as<double>();
    const T* x = n.x.as<T>();
    if (s.inner > 1) {
      each_channel([&](int64_t i) {
        Moments m;
        add_rows<L>(x + i * s.inner, s.outer, s.inner, s.size * s.inner, m);
        means[i] = m.mean;
        m2[i] = m.m2;
      });
      return;
    }
    each_chunk([&](int64_t chunk, int64_t first, int64_t last) {
      double* out = sums + chunk * 2 * s.size;
      column_moments<L>(x + first * s.size, last - first, s.size, out, out + s.size);
    });
    for (int64_t i = 0; i < s.size; ++i) {
      Moments m;
      for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        const double* part = sums + chunk * 2 * s.size + i;
        const int64_t rows = s.outer * (chunk + 1) / chunks - s.outer * chunk / chunks;
        m.join(static_cast<double>(rows), part[0], part[s.size]);
      }
      means[i] = m.mean;
      m2[i] = m.m2;
    }
  }

  // Turns squared deviations into 1 / standard deviation, and updates the running statistics.
  void finish_statistics() const {
    double *means = n.mean.as<double>(), *invstd = n.invstd.as<double>();
    const double samples = static_cast<double>(count);
    for (int64_t i = 0; i < s.size; ++i) {
      if (!n.training) {
        means[i] = read(n.running_mean, i);
        invstd[i] = 1 / __builtin_sqrt(read(n.running_var, i) + n.eps);
        continue;
      }
      const double m2 = invstd[i];
      invstd[i] = 1 / __builtin_sqrt(m2 / samples + n.eps);
      if (!n.running_mean.defined()) continue;
      const double old = 1 - n.momentum;
      write(n.running_mean, i, old * read(n.running_mean, i) + n.momentum * means[i]);
      write(n.running_var, i, old * read(n.running_var, i) + n.momentum * (m2 / (samples - 1)));
    }
  }

  void forward() const {
    if (!n.has_statistics) {
      if (n.training) statistics();
      finish_statistics();
    }
    for (int64_t i = 0; i < s.size; ++i) {
      const double scale = weight(i) * n.invstd.as<double>()[i];
      center()[i] = static_cast<L>(mean()[i]);
      a()[i] = static_cast<L>(scale);
      b()[i] = static_cast<L>((n.bias.defined() ? static_cast<double>(n.bias.as<L>()[i]) : 0) -
                              (mean()[i] - static_cast<double>(center()[i])) * scale);
    }
    const T *x = n.x.as<T>(), *residual = n.residual.as<T>();
    T* y = n.y.as<T>();
    each_row(
        [&](int64_t row, int64_t at, bool stream) {
          const T* r = residual == nullptr ? nullptr : residual + at;
          if (s.inner == 1) {
            affine_row<L, true>(x + at, r, y + at, s.size, k, n.relu, mask_row(row), stream);
          } else {
            affine_row<L, false>(x + at, r, y + at, s.inner, of_channel(row % s.size), n.relu,
                                 mask_row(row), stream);
          }
        },
        y, residual);
  }

  Coefficients<L> of_channel(int64_t i) const { return {k.center + i, k.a + i, k.b + i, k.c + i}; }

  // `body(row, offset, stream)` for all rows (of channels, or of one channel); `other` must be
  // aligned for streaming as well as `out`.
  template <class Body>
  void each_row(const Body& body, const T* out, const T* other) const {
    const int64_t rows = s.inner == 1 ? s.outer : s.outer * s.size;
    const int64_t size = s.inner == 1 ? s.size : s.inner;
    const bool stream =
        should_stream(out, rows, size) && reinterpret_cast<uintptr_t>(other) % 64 == 0;
    parallel_for(rows, row_grain(size), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) body(row, row * size, stream);
      if (stream) stream_fence();
    });
  }

  // Leaves the sums of g and of g * (x - center) in the first chunk.
  void backward_sums() const {
    const T *dy = n.dy.as<T>(), *x = n.x.as<T>();
    if (s.inner > 1) {
      each_channel([&](int64_t i) {
        double *sum = sums + i, *dot = sums + s.size + i;
        *sum = *dot = 0;
        for (int64_t o = 0; o < s.outer; ++o) {
          const int64_t row = o * s.size + i;
          row_dots<L>(dy + row * s.inner, x + row * s.inner, s.inner, mask_row(row), k.center[i],
                      sum, dot);
        }
      });
      return;
    }
    each_chunk([&](int64_t chunk, int64_t first, int64_t last) {
      double* out = sums + chunk * 2 * s.size;
      column_dots<L>(dy + first * s.size, x + first * s.size, last - first, s.size,
                     mask_row(first).bytes, mask_stride(), k.center, out, out + s.size);
    });
    for (int64_t chunk = 1; chunk < chunks; ++chunk) {
      for (int64_t i = 0; i < 2 * s.size; ++i) sums[i] += sums[chunk * 2 * s.size + i];
    }
  }

  void backward() const {
    for (int64_t i = 0; i < s.size; ++i) center()[i] = static_cast<L>(mean()[i]);
    backward_sums();
    const double inverse = n.training ? 1 / static_cast<double>(count) : 0;
    for (int64_t i = 0; i < s.size; ++i) {
      const double invstd = n.invstd.as<double>()[i];
      const double low = mean()[i] - static_cast<double>(center()[i]);
      const double sum = sums[i], dot = (sums[s.size + i] - low * sum) * invstd;
      const double scale = weight(i) * invstd;
      const double slope = -scale * invstd * dot * inverse;
      a()[i] = static_cast<L>(scale);
      b()[i] = static_cast<L>(slope);
      c()[i] = static_cast<L>(-scale * sum * inverse - slope * low);
      if (n.dweight.defined()) n.dweight.as<L>()[i] = static_cast<L>(dot);
      if (n.dbias.defined()) n.dbias.as<L>()[i] = static_cast<L>(sum);
    }
    const T *dy = n.dy.as<T>(), *x = n.x.as<T>();
    T *dx = n.dx.as<T>(), *dresidual = n.dresidual.as<T>();
    if (dx == nullptr) return;
    each_row(
        [&](int64_t row, int64_t at, bool stream) {
          T* r = dresidual == nullptr ? nullptr : dresidual + at;
          if (s.inner == 1) {
            affine_row_backward<L, true>(dy + at, x + at, dx + at, r, s.size, k, mask_row(row),
                                         stream);
          } else {
            affine_row_backward<L, false>(dy + at, x + at, dx + at, r, s.inner,
                                          of_channel(row % s.size), mask_row(row), stream);
          }
        },
        dx, dresidual);
  }
};

}  // namespace

void batch_norm_forward(const ChannelNorm& n) {
  visit_floating(n.x.dtype, [&]<class T>(Type<T>) { BatchNorm<T>(n).forward(); });
}

void batch_norm_backward(const ChannelNorm& n) {
  visit_floating(n.x.dtype, [&]<class T>(Type<T>) { BatchNorm<T>(n).backward(); });
}

void relu_mask(const View& mask, const View& y) {
  visit_floating(y.dtype, [&]<class T>(Type<T>) {
    using L = Accumulator<T>;
    const int64_t rows = mask.shape[0], size = y.numel() / rows;
    for (int64_t row = 0; row < rows; ++row) {
      const MaskRow<L> m{mask.as<uint8_t>() + row * mask.shape[1]};
      T* out = y.as<T>() + row * size;
      for_vectors<L>(size, [&](int64_t i, int64_t n) {
        store_up_to(select(m.get(i), Vec<L>(1), Vec<L>(0)), out + i, n);
      });
    }
  });
}

}  // namespace wick::WICK_ISA
