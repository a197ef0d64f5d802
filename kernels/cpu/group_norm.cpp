#include "wick/kernels/cpu/channel_affine.h"
#include "wick/kernels/cpu/moments.h"
#include "wick/kernels/norm.h"

namespace wick::WICK_ISA {

namespace {

// Group norm of elements of T: one image at a time, whose channels are normalised like a batch of
// one, with statistics shared by the channels of a group.
template <class T>
struct GroupNorm {
  using L = Accumulator<T>;

  const ChannelNorm& n;
  int64_t images, channels, positions;
  bool channels_last;
  int64_t per_group;  // channels
  double* scratch;    // of an image: two sums per channel, then the coefficients

  explicit GroupNorm(const ChannelNorm& norm)
      : n(norm),
        images(norm.x.shape[0]),
        channels(norm.x.shape[1]),
        positions(norm.x.numel() / (images * channels)),
        channels_last(group_norm_by_position(norm.x)),
        per_group(channels / norm.groups),
        scratch(static_cast<double*>(norm.workspace->allocate(
            static_cast<size_t>(images * 6 * channels) * sizeof(double)))) {}

  double* sums(int64_t image) const { return scratch + image * 6 * channels; }
  L* coefficients(int64_t image) const { return reinterpret_cast<L*>(sums(image) + 2 * channels); }
  double weight(int64_t c) const {
    return n.weight.defined() ? static_cast<double>(n.weight.as<L>()[c]) : 1;
  }

  template <class Body>
  void each_image(const Body& body) const {
    parallel_for(images, row_grain(channels * positions), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) body(i, i * channels * positions);
      stream_fence();
    });
  }

  // The first row of an image.
  int64_t row_of(int64_t image) const { return image * (channels_last ? positions : channels); }
  const uint8_t* mask(int64_t row) const {
    return n.mask.defined() ? n.mask.as<uint8_t>() + row * n.mask.shape[1] : nullptr;
  }
  MaskRow<L> mask_row(int64_t row) const { return {const_cast<uint8_t*>(mask(row))}; }

  // `body(offset, coefficients, mask)` for the rows of an image.
  template <class Body>
  void each_row(int64_t image, const L* k, const Body& body) const {
    const Coefficients<L> all{k, k + channels, k + 2 * channels, k + 3 * channels};
    const int64_t first = row_of(image);
    if (channels_last) {
      for (int64_t i = 0; i < positions; ++i) body(i * channels, all, mask_row(first + i));
      return;
    }
    for (int64_t c = 0; c < channels; ++c) {
      body(c * positions, {all.center + c, all.a + c, all.b + c, all.c + c}, mask_row(first + c));
    }
  }

  void statistics(int64_t image, const T* x) const {
    double* parts = sums(image);
    const bool columns = channels_last && positions > 1;
    if (columns) column_moments<L>(x, positions, channels, parts, parts + channels);
    for (int64_t g = 0; g < n.groups; ++g) {
      Moments m;
      if (columns) {
        for (int64_t c = g * per_group; c < (g + 1) * per_group; ++c) {
          m.join(static_cast<double>(positions), parts[c], parts[channels + c]);
        }
      } else {
        add_row<L>(x + g * per_group * positions, per_group * positions, m);
      }
      const int64_t at = image * n.groups + g;
      n.mean.as<double>()[at] = m.mean;
      n.invstd.as<double>()[at] = 1 / __builtin_sqrt(m.m2 / m.count + n.eps);
    }
  }

  void forward() const {
    const T *in = n.x.as<T>(), *added = n.residual.as<T>();
    T* out = n.y.as<T>();
    each_image([&](int64_t image, int64_t at) {
      const T* x = in + at;
      const T* residual = n.residual.defined() ? added + at : nullptr;
      T* y = out + at;
      statistics(image, x);
      L* k = coefficients(image);
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t group = image * n.groups + c / per_group;
        const double mean = n.mean.as<double>()[group];
        const double scale = weight(c) * n.invstd.as<double>()[group];
        k[c] = static_cast<L>(mean);
        k[channels + c] = static_cast<L>(scale);
        k[2 * channels + c] =
            static_cast<L>((n.bias.defined() ? static_cast<double>(n.bias.as<L>()[c]) : 0) -
                           (mean - static_cast<double>(k[c])) * scale);
      }
      each_row(image, k, [&](int64_t row, const Coefficients<L>& r, const MaskRow<L>& m) {
        const T* added_row = residual == nullptr ? nullptr : residual + row;
        if (channels_last) {
          affine_row<L, true, T>(x + row, added_row, y + row, channels, r, n.relu, m, false);
        } else {
          affine_row<L, false, T>(x + row, added_row, y + row, positions, r, n.relu, m, false);
        }
      });
    });
  }

  void backward_sums(int64_t image, const T* dy, const T* x, const L* center) const {
    double* sum = sums(image);
    const int64_t first = row_of(image);
    if (channels_last) {
      const int64_t stride = n.mask.defined() ? n.mask.shape[1] : 0;
      column_dots<L>(dy, x, positions, channels, mask(first), stride, center, sum, sum + channels);
      return;
    }
    for (int64_t c = 0; c < channels; ++c) {
      sum[c] = sum[channels + c] = 0;
      row_dots<L>(dy + c * positions, x + c * positions, positions, mask_row(first + c), center[c],
                  sum + c, sum + channels + c);
    }
  }

  // Turns an image's sums into those of g and g * normalised x, and sets dx's coefficients.
  void backward_coefficients(int64_t image, L* k) const {
    double *sum = sums(image), *dot = sum + channels;
    for (int64_t g = 0; g < n.groups; ++g) {
      const double mean = n.mean.as<double>()[image * n.groups + g];
      const double invstd = n.invstd.as<double>()[image * n.groups + g];
      const double low = mean - static_cast<double>(static_cast<L>(mean));
      double group_sum = 0, group_dot = 0;
      for (int64_t c = g * per_group; c < (g + 1) * per_group; ++c) {
        dot[c] = (dot[c] - low * sum[c]) * invstd;
        group_sum += weight(c) * sum[c];
        group_dot += weight(c) * dot[c];
      }
      const double inverse = 1 / static_cast<double>(per_group * positions);
      const double slope = -invstd * invstd * group_dot * inverse;
      for (int64_t c = g * per_group; c < (g + 1) * per_group; ++c) {
        k[channels + c] = static_cast<L>(weight(c) * invstd);
        k[2 * channels + c] = static_cast<L>(slope);
        k[3 * channels + c] = static_cast<L>(-invstd * group_sum * inverse - slope * low);
      }
    }
  }

  void backward() const {
    each_image([&](int64_t image, int64_t at) {
      const T *dy = n.dy.as<T>() + at, *x = n.x.as<T>() + at;
      L* k = coefficients(image);
      for (int64_t c = 0; c < channels; ++c) {
        k[c] = static_cast<L>(n.mean.as<double>()[image * n.groups + c / per_group]);
      }
      backward_sums(image, dy, x, k);
      backward_coefficients(image, k);
      if (!n.dx.defined()) return;
      T* dx = n.dx.as<T>() + at;
      T* dresidual = n.dresidual.defined() ? n.dresidual.as<T>() + at : nullptr;
      each_row(image, k, [&](int64_t row, const Coefficients<L>& r, const MaskRow<L>& m) {
        T* dresidual_row = dresidual == nullptr ? nullptr : dresidual + row;
        if (channels_last) {
          affine_row_backward<L, true, T>(dy + row, x + row, dx + row, dresidual_row, channels, r,
                                          m, false);
        } else {
          affine_row_backward<L, false, T>(dy + row, x + row, dx + row, dresidual_row, positions, r,
                                           m, false);
        }
      });
    });
    for (int64_t c = 0; c < channels; ++c) {
      double sum = 0, dot = 0;
      for (int64_t image = 0; image < images; ++image) {
        sum += sums(image)[c];
        dot += sums(image)[channels + c];
      }
      if (n.dweight.defined()) n.dweight.as<L>()[c] = static_cast<L>(dot);
      if (n.dbias.defined()) n.dbias.as<L>()[c] = static_cast<L>(sum);
    }
  }
};

}  // namespace

void group_norm_forward(const ChannelNorm& n) {
  visit_floating(n.x.dtype, [&]<class T>(Type<T>) { GroupNorm<T>(n).forward(); });
}

void group_norm_backward(const ChannelNorm& n) {
  visit_floating(n.x.dtype, [&]<class T>(Type<T>) { GroupNorm<T>(n).backward(); });
}

}  // namespace wick::WICK_ISA
