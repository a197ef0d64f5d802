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

// Batch and group norm of elements of T. The images of group norm are worked on side by side, each
// by one thread; all threads work on the one image of batch norm. Where the channels lie side by
// side, its rows are cut into chunks, whose sums are joined in order.
template <class T>
struct ChannelNormOf {
  using L = Accumulator<T>;

  const ChannelNorm& n;
  ChannelLayout s;
  int64_t chunks;   // of an image
  double* scratch;  // of each image: [chunks, 2, channels] sums, then four coefficients per channel

  explicit ChannelNormOf(const ChannelNorm& norm)
      : n(norm),
        s(channel_layout(norm.x, norm.groups)),
        chunks(norm.groups == 0 && s.inner == 1 ? norm_chunks(s.outer, s.channels) : 1),
        scratch(static_cast<double*>(norm.workspace->allocate(
            static_cast<size_t>(s.images * (2 * chunks + 4) * s.channels) * sizeof(double)))) {}

  double* sums(int64_t image) const { return scratch + image * (2 * chunks + 4) * s.channels; }
  Coefficients<L> coefficients(int64_t image) const {
    L* p = reinterpret_cast<L*>(sums(image) + 2 * chunks * s.channels);
    return {p, p + s.channels, p + 2 * s.channels, p + 3 * s.channels};
  }
  double mean(int64_t group) const { return n.mean.as<double>()[group]; }
  double invstd(int64_t group) const { return n.invstd.as<double>()[group]; }
  double weight(int64_t c) const {
    return n.weight.defined() ? static_cast<double>(n.weight.as<L>()[c]) : 1;
  }
  double bias(int64_t c) const {
    return n.bias.defined() ? static_cast<double>(n.bias.as<L>()[c]) : 0;
  }
  // Bytes of the ReLU's mask per row.
  int64_t mask_stride() const { return n.mask.defined() ? n.mask.shape[1] : 0; }
  MaskRow<L> mask(int64_t row) const {
    return {n.mask.defined() ? n.mask.as<uint8_t>() + row * mask_stride() : nullptr};
  }

  template <class Body>
  void each_image(const Body& body) const {
    parallel_for(s.images, row_grain(s.image_size()), [&](int64_t begin, int64_t end) {
      for (int64_t image = begin; image < end; ++image) body(image);
    });
  }
  // A loop over parts of an image: several threads take part if it is the only one.
  template <class Body>
  void in_parts(int64_t count, int64_t grain, const Body& body) const {
    if (s.images > 1) return body(int64_t{0}, count);
    parallel_for(count, grain, body);
  }
  // `body(chunk, first row, rows)`.
  template <class Body>
  void each_chunk(const Body& body) const {
    in_parts(chunks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) body(i, s.outer * i / chunks, rows_of_chunk(i));
    });
  }
  int64_t rows_of_chunk(int64_t i) const {
    return s.outer * (i + 1) / chunks - s.outer * i / chunks;
  }

  // Leaves means and squared deviations of an image's groups in n.mean and n.invstd.
  void measure(int64_t image) const {
    const T* x = n.x.as<T>() + image * s.image_size();
    double* means = n.mean.as<double>() + image * s.groups;
    double* m2 = n.invstd.as<double>() + image * s.groups;
    const int64_t per_group = s.per_group();
    if (s.inner > 1 || s.outer == 1) {
      const int64_t size = per_group * s.inner, stride = s.channels * s.inner;
      in_parts(s.groups, row_grain(s.outer * size), [&](int64_t begin, int64_t end) {
        for (int64_t g = begin; g < end; ++g) {
          Moments m;
          add_rows<L>(x + g * size, s.outer, size, stride, m);
          means[g] = m.mean;
          m2[g] = m.m2;
        }
      });
      return;
    }
    double* parts = sums(image);
    each_chunk([&](int64_t chunk, int64_t first, int64_t rows) {
      double* out = parts + chunk * 2 * s.channels;
      column_moments<L>(x + first * s.channels, rows, s.channels, out, out + s.channels);
    });
    for (int64_t g = 0; g < s.groups; ++g) {
      Moments m;
      for (int64_t c = g * per_group; c < (g + 1) * per_group; ++c) {
        for (int64_t chunk = 0; chunk < chunks; ++chunk) {
          const double* part = parts + chunk * 2 * s.channels + c;
          m.join(static_cast<double>(rows_of_chunk(chunk)), part[0], part[s.channels]);
        }
      }
      means[g] = m.mean;
      m2[g] = m.m2;
    }
  }

  // Leaves mean and 1 / standard deviation of an image's groups, and updates the running
  // statistics.
  void statistics(int64_t image) const {
    if (n.training) measure(image);
    double *means = n.mean.as<double>(), *invstds = n.invstd.as<double>();
    const double samples = static_cast<double>(s.per_group() * s.samples());
    for (int64_t g = image * s.groups; g < (image + 1) * s.groups; ++g) {
      if (!n.training) {
        means[g] = read(n.running_mean, g);
        invstds[g] = 1 / __builtin_sqrt(read(n.running_var, g) + n.eps);
        continue;
      }
      const double m2 = invstds[g];
      invstds[g] = 1 / __builtin_sqrt(m2 / samples + n.eps);
      if (!n.running_mean.defined()) continue;
      const double old = 1 - n.momentum;
      write(n.running_mean, g, old * read(n.running_mean, g) + n.momentum * means[g]);
      write(n.running_var, g, old * read(n.running_var, g) + n.momentum * (m2 / (samples - 1)));
    }
  }

  // `rows(first, last, stream)` for all rows of an image, which writes to `out` and perhaps
  // `other`.
  template <class Rows>
  void in_rows(const T* out, const T* other, const Rows& rows) const {
    const bool stream = should_stream(out, s.images * s.rows(), s.row_size()) &&
                        reinterpret_cast<uintptr_t>(other) % 64 == 0;
    in_parts(s.rows(), row_grain(s.row_size()), [&](int64_t first, int64_t last) {
      rows(first, last, stream);
      if (stream) stream_fence();
    });
  }
  int64_t row_offset(int64_t image, int64_t row) const {
    return (image * s.rows() + row) * s.row_size();
  }

  [[gnu::flatten]] void forward_rows(int64_t image, int64_t first, int64_t last,
                                     bool stream) const {
    const T *x = n.x.as<T>(), *residual = n.residual.as<T>();
    T* y = n.y.as<T>();
    const Coefficients<L> k = coefficients(image);
    for (int64_t row = first; row < last; ++row) {
      const int64_t at = row_offset(image, row);
      const T* r = residual == nullptr ? nullptr : residual + at;
      const MaskRow<L> m = mask(image * s.rows() + row);
      if (s.inner == 1) {
        affine_row<L, true>(x + at, r, y + at, s.channels, k, n.relu, m, stream);
      } else {
        affine_row<L, false>(x + at, r, y + at, s.inner, k.of_channel(row % s.channels), n.relu, m,
                             stream);
      }
    }
  }

  void forward() const {
    each_image([&](int64_t image) {
      if (!n.has_statistics) statistics(image);
      const Coefficients<L> all = coefficients(image);
      for (int64_t c = 0; c < s.channels; ++c) {
        const int64_t g = s.group(image, c);
        const ForwardCoefficients<L> k(mean(g), invstd(g), weight(c), bias(c));
        all.center[c] = k.center;
        all.a[c] = k.a;
        all.b[c] = k.b;
      }
      in_rows(n.y.as<T>(), n.residual.as<T>(), [&](int64_t first, int64_t last, bool stream) {
        forward_rows(image, first, last, stream);
      });
    });
  }

  // Leaves each channel's sums of g and of g * (x - center) in the first chunk.
  void backward_sums(int64_t image) const {
    const T *dy = n.dy.as<T>(), *x = n.x.as<T>();
    const L* center = coefficients(image).center;
    double* parts = sums(image);
    const int64_t top = image * s.rows();
    if (s.inner > 1) {
      in_parts(s.channels, row_grain(s.samples()), [&](int64_t begin, int64_t end) {
        for (int64_t c = begin; c < end; ++c) {
          double *sum = parts + c, *dot = parts + s.channels + c;
          *sum = *dot = 0;
          for (int64_t row = top + c; row < top + s.rows(); row += s.channels) {
            row_dots<L>(dy + row * s.inner, x + row * s.inner, s.inner, mask(row), center[c], sum,
                        dot);
          }
        }
      });
      return;
    }
    each_chunk([&](int64_t chunk, int64_t first, int64_t rows) {
      double* out = parts + chunk * 2 * s.channels;
      const int64_t at = (top + first) * s.channels;
      column_dots<L>(dy + at, x + at, rows, s.channels, mask(top + first).bytes, mask_stride(),
                     center, out, out + s.channels);
    });
    for (int64_t chunk = 1; chunk < chunks; ++chunk) {
      for (int64_t i = 0; i < 2 * s.channels; ++i) parts[i] += parts[chunk * 2 * s.channels + i];
    }
  }

  // Turns the second sums into those of g * normalised x, and finds the coefficients of dx.
  void backward_coefficients(int64_t image) const {
    double *sum = sums(image), *dot = sum + s.channels;
    const Coefficients<L> all = coefficients(image);
    const int64_t per_group = s.per_group();
    const double inverse = n.training ? 1 / static_cast<double>(per_group * s.samples()) : 0;
    for (int64_t first = 0; first < s.channels; first += per_group) {
      const int64_t g = s.group(image, first);
      double group_sum = 0, group_dot = 0;
      for (int64_t c = first; c < first + per_group; ++c) {
        dot[c] = normalised_dot<L>(sum[c], dot[c], mean(g), invstd(g));
        group_sum += weight(c) * sum[c];
        group_dot += weight(c) * dot[c];
      }
      for (int64_t c = first; c < first + per_group; ++c) {
        const BackwardCoefficients<L> k(mean(g), invstd(g), weight(c), group_sum, group_dot,
                                        inverse);
        all.a[c] = k.a;
        all.b[c] = k.b;
        all.c[c] = k.c;
      }
    }
  }

  void parameter_gradients() const {
    if (!n.dweight.defined() && !n.dbias.defined()) return;
    for (int64_t c = 0; c < s.channels; ++c) {
      double sum = 0, dot = 0;
      for (int64_t image = 0; image < s.images; ++image) {
        sum += sums(image)[c];
        dot += sums(image)[s.channels + c];
      }
      if (n.dweight.defined()) n.dweight.as<L>()[c] = static_cast<L>(dot);
      if (n.dbias.defined()) n.dbias.as<L>()[c] = static_cast<L>(sum);
    }
  }

  [[gnu::flatten]] void backward_rows(int64_t image, int64_t first, int64_t last,
                                      bool stream) const {
    const T *dy = n.dy.as<T>(), *x = n.x.as<T>();
    T *dx = n.dx.as<T>(), *dresidual = n.dresidual.as<T>();
    const Coefficients<L> k = coefficients(image);
    for (int64_t row = first; row < last; ++row) {
      const int64_t at = row_offset(image, row);
      T* r = dresidual == nullptr ? nullptr : dresidual + at;
      const MaskRow<L> m = mask(image * s.rows() + row);
      if (s.inner == 1) {
        affine_row_backward<L, true>(dy + at, x + at, dx + at, r, s.channels, k, m, stream);
      } else {
        affine_row_backward<L, false>(dy + at, x + at, dx + at, r, s.inner,
                                      k.of_channel(row % s.channels), m, stream);
      }
    }
  }

  void backward() const {
    each_image([&](int64_t image) {
      L* center = coefficients(image).center;
      for (int64_t c = 0; c < s.channels; ++c) {
        center[c] = Center<L>(mean(s.group(image, c))).center;
      }
      backward_sums(image);
      backward_coefficients(image);
      if (!n.dx.defined()) return;
      in_rows(n.dx.as<T>(), n.dresidual.as<T>(), [&](int64_t first, int64_t last, bool stream) {
        backward_rows(image, first, last, stream);
      });
    });
    parameter_gradients();
  }
};

}  // namespace

void channel_norm_forward(const ChannelNorm& n) {
  visit_floating(n.x.dtype, [&]<class T>(Type<T>) { ChannelNormOf<T>(n).forward(); });
}

void channel_norm_backward(const ChannelNorm& n) {
  visit_floating(n.x.dtype, [&]<class T>(Type<T>) { ChannelNormOf<T>(n).backward(); });
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
