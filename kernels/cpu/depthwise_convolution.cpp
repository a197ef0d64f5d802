#include "wick/kernels/cpu/convolution_patches.h"
#include "wick/kernels/cpu/direct_convolution.h"

// Convolutions of one channel in and out per group: vectors hold channels, and each tap of the
// kernel is one multiply-add.
namespace wick::WICK_ISA {

namespace depthwise {
namespace {

constexpr int64_t kBlock = 8;        // results of a row that are summed together
constexpr int64_t kRowWork = 32768;  // multiplications that are worth a piece of work
constexpr int64_t kMostShares = 16;  // of the images, each with sums of its own
constexpr int64_t kChains = 4;       // of results that one sum runs along

// y = x convolved with the kernels, or x's gradient from y's: one pass.
template <class S>
class Depthwise {
 public:
  using T = UnitOf<S>;

  WICK_INLINE Depthwise(const View& x, const View& weight, const View& bias, const View& y,
                        const PassAxis& rows, const PassAxis& columns, Workspace& workspace)
      : x_(x.as<S>()),
        w_(weight.as<S>()),
        bias_(bias.as<S>()),
        y_(y.as<S>()),
        images_(x.shape[0]),
        channels_(x.shape[1]),
        kernel_(weight.shape[2] * weight.shape[3]),
        kernel_columns_(weight.shape[3]),
        rows_(rows),
        columns_(columns),
        weights_(static_cast<T*>(
            workspace.allocate(static_cast<size_t>(kernel_ * channels_) * sizeof(T)))) {}

  WICK_INLINE void run() const {
    for (int64_t c = 0; c < channels_; ++c) {
      for (int64_t e = 0; e < kernel_; ++e) {
        weights_[e * channels_ + c] = static_cast<T>(w_[c * kernel_ + e]);
      }
    }
    const int64_t work = columns_.count * channels_ * rows_.taps * columns_.taps;
    parallel_for(images_ * rows_.count, kRowWork / (work + 1) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) compute_row(i / rows_.count, i % rows_.count);
    });
  }

 private:
  void compute_row(int64_t image, int64_t row) const {
    S* const to =
        y_ + ((image * rows_.size + rows_.result + row * rows_.result_step) * columns_.size +
              columns_.result) *
                 channels_;
    for (int64_t c = 0; c < channels_; c += Vec<T>::size) {
      for (int64_t column = 0; column < columns_.count; column += kBlock) {
        const int64_t first = column * columns_.step + columns_.first;
        const int64_t reach = (columns_.taps - 1) * columns_.spacing;
        const bool is_inside = column + kBlock <= columns_.count && channels_ - c >= Vec<T>::size &&
                               first >= 0 &&
                               first + (kBlock - 1) * columns_.step + reach < columns_.source;
        if (is_inside) {
          compute<true>(image, row, column, c, to);
        } else {
          compute<false>(image, row, column, c, to);
        }
      }
    }
  }

  template <bool kInside>
  WICK_INLINE void compute(int64_t image, int64_t row, int64_t column, int64_t c, S* to) const {
    const int64_t lanes = channels_ - c;
    Vec<T> sums[kBlock];
    const Vec<T> bias = bias_ != nullptr ? load_up_to<T>(bias_ + c, lanes) : Vec<T>(T(0));
#pragma GCC unroll 8
    for (int64_t j = 0; j < kBlock; ++j) sums[j] = Vec<T>(T(0));
    for (int64_t r = 0; r < rows_.taps; ++r) {
      const int64_t at_row = row * rows_.step + rows_.first + r * rows_.spacing;
      if (at_row < 0 || at_row >= rows_.source) continue;
      const S* const line = x_ + (image * rows_.source + at_row) * columns_.source * channels_ + c;
      const int64_t kernel_row = (rows_.kernel + r * rows_.kernel_step) * kernel_columns_;
      for (int64_t s = 0; s < columns_.taps; ++s) {
        const int64_t element = kernel_row + columns_.kernel + s * columns_.kernel_step;
        const Vec<T> w = load_up_to<T>(weights_ + element * channels_ + c, lanes);
        const int64_t at = column * columns_.step + columns_.first + s * columns_.spacing;
#pragma GCC unroll 8
        for (int64_t j = 0; j < kBlock; ++j) {
          const int64_t at_column = at + j * columns_.step;
          if (kInside) {
            sums[j] = fma(Vec<T>::load(line + at_column * channels_), w, sums[j]);
          } else if (at_column >= 0 && at_column < columns_.source) {
            sums[j] = fma(load_up_to<T>(line + at_column * channels_, lanes), w, sums[j]);
          }
        }
      }
    }
#pragma GCC unroll 8
    for (int64_t j = 0; j < kBlock; ++j) {
      if (!kInside && column + j >= columns_.count) break;
      store_up_to(sums[j] + bias, to + (column + j) * columns_.result_step * channels_ + c, lanes);
    }
  }

  const S *x_, *w_, *bias_;
  S* y_;
  int64_t images_, channels_, kernel_, kernel_columns_;
  PassAxis rows_, columns_;
  T* weights_;  // element by element, channels side by side
};

template <class S>
void weight_gradient(const View& x, const View& dy, const View& dweight, const Conv2dParams& p,
                     Workspace& workspace) {
  using T = UnitOf<S>;
  const PassAxis rows = forward_axis(x, dweight, dy, p, 0),
                 columns = forward_axis(x, dweight, dy, p, 1);
  const int64_t images = x.shape[0], channels = x.shape[1], kernel = rows.taps * columns.taps;
  const int64_t shares = smaller(images, kMostShares);
  const int64_t vectors = (channels + Vec<T>::size - 1) / Vec<T>::size;
  T* const sums = static_cast<T*>(
      workspace.allocate(static_cast<size_t>(shares * kernel * channels) * sizeof(T)));
  parallel_for(shares * vectors, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t share = i / vectors, c = i % vectors * Vec<T>::size, lanes = channels - c;
      T* const to = sums + share * kernel * channels + c;
      for (int64_t e = 0; e < kernel; ++e) {
        store_up_to(Vec<T>(T(0)), to + e * channels, lanes);
      }
      for (int64_t image = images * share / shares; image < images * (share + 1) / shares;
           ++image) {
        for (int64_t e = 0; e < kernel; ++e) {
          const int64_t r = e / columns.taps, s = e % columns.taps;
          const TapRange y_range(rows, r), x_range(columns, s);
          Vec<T> chains[kChains];
          for (Vec<T>& chain : chains) chain = Vec<T>(T(0));
          for (int64_t row = y_range.begin; row < y_range.end; ++row) {
            const int64_t at = row * rows.step + rows.first + r * rows.spacing;
            const S* const x_line = x.as<S>() +
                                    ((image * rows.source + at) * columns.source + columns.first +
                                     s * columns.spacing) *
                                        channels +
                                    c;
            const S* const dy_line =
                dy.as<S>() + (image * rows.count + row) * columns.count * channels + c;
            const auto add = [&](int64_t column, Vec<T>& sum) {
              const Vec<T> a = load_up_to<T>(x_line + column * columns.step * channels, lanes);
              sum = fma(a, load_up_to<T>(dy_line + column * channels, lanes), sum);
            };
            int64_t column = x_range.begin;
            for (; column + kChains <= x_range.end; column += kChains) {
#pragma GCC unroll 4
              for (int64_t j = 0; j < kChains; ++j) add(column + j, chains[j]);
            }
            for (; column < x_range.end; ++column) add(column, chains[0]);
          }
          Vec<T> sum = (chains[0] + chains[1]) + (chains[2] + chains[3]);
          sum += load_up_to<T>(to + e * channels, lanes);
          store_up_to(sum, to + e * channels, lanes);
        }
      }
    }
  });
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t e = 0; e < kernel; ++e) {
      T sum = 0;
      for (int64_t share = 0; share < shares; ++share) {
        sum += sums[(share * kernel + e) * channels + c];
      }
      dweight.as<S>()[c * kernel + e] = static_cast<S>(sum);
    }
  }
}

// Calls `body(S())` for the type of the elements.
template <class Body>
WICK_INLINE void visit_stored(Dtype dtype, const Body& body) {
  switch (dtype) {
    case Dtype::kFloat64: return body(double());
    case Dtype::kBFloat16: return body(BFloat16());
    default: return body(float());
  }
}

}  // namespace
}  // namespace depthwise

void depthwise_forward(const View& x, const View& weight, const View& bias, const View& y,
                       const Conv2dParams& params, Workspace& workspace) {
  depthwise::visit_stored(x.dtype, [&](auto element) {
    depthwise::Depthwise<decltype(element)>(x, weight, bias, y,
                                            forward_axis(x, weight, y, params, 0),
                                            forward_axis(x, weight, y, params, 1), workspace)
        .run();
  });
}

void depthwise_backward_data(const View& dy, const View& weight, const View& dx,
                             const Conv2dParams& params, Workspace& workspace) {
  depthwise::visit_stored(dy.dtype, [&](auto element) {
    for (int64_t row = 0; row < smaller(params.stride[0], dx.shape[2]); ++row) {
      for (int64_t column = 0; column < smaller(params.stride[1], dx.shape[3]); ++column) {
        depthwise::Depthwise<decltype(element)>(
            dy, weight, View{}, dx, backward_axis(dy, weight, dx, params, 0, row),
            backward_axis(dy, weight, dx, params, 1, column), workspace)
            .run();
      }
    }
  });
}

void depthwise_backward_weights(const View& x, const View& dy, const View& dweight,
                                const Conv2dParams& params, Workspace& workspace) {
  depthwise::visit_stored(x.dtype, [&](auto element) {
    depthwise::weight_gradient<decltype(element)>(x, dy, dweight, params, workspace);
  });
}

}  // namespace wick::WICK_ISA
