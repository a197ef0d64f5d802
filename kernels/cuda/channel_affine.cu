#include "wick/kernels/cuda/channel_norm.h"

// The passes that compute every element from the coefficients of its channel.
namespace wick::cuda {

namespace {

// The coefficients of a unit: those of kUnit channels, or of one.
template <class L, bool kRuns>
struct Coefficients {
  static constexpr int kCount = kRuns ? 1 : kUnit;
  L center[kCount] = {}, a[kCount] = {}, b[kCount] = {}, c[kCount] = {};

  // `channel`: the first; `count` of them are there.
  template <bool kBackward>
  __device__ void load(const L* k, int64_t image, int64_t channels, int64_t channel, int count) {
    const L* p = k + image * 4 * channels + channel;
    WICK_UNROLL
    for (int j = 0; j < kCount; ++j) {
      if (j >= count) continue;
      center[j] = p[j];
      a[j] = p[channels + j];
      b[j] = p[2 * channels + j];
      if constexpr (kBackward) c[j] = p[3 * channels + j];
    }
  }
  __device__ L forward(L x, int j) const {
    const int i = kRuns ? 0 : j;
    return fma(x - center[i], a[i], b[i]);
  }
  __device__ L backward(L g, L x, int j) const {
    const int i = kRuns ? 0 : j;
    return fma(g, a[i], fma(x - center[i], b[i], c[i]));
  }
};

// Rows of a thread that are loaded before the first is stored.
template <class T>
inline constexpr int kAtOnce = sizeof(T) < 8 ? static_cast<int>(8 / sizeof(T)) : 1;

template <class T>
struct ForwardOperands {
  const T *x, *residual;
  T* y;
  uint8_t* mask;
  int64_t mask_stride;
  bool relu;
};

template <class T, bool kRuns, bool kPacked>
__global__ void __launch_bounds__(kUnitThreads, kPacked ? 2 : 1)
    channel_forward_kernel(ForwardOperands<T> o, UnitTiling tiling, int64_t channels,
                           const Accumulator<T>* coefficients) {
  using L = Accumulator<T>;
  const UnitSlice slice(tiling);
  if (slice.count == 0) return;
  const int64_t first = slice.unit * kUnit;
  Coefficients<L, kRuns> k;
  if (!kRuns) k.template load<false>(coefficients, slice.image, channels, first, slice.count);
  for (int64_t row = slice.begin; row < slice.end; row += kAtOnce<T> * tiling.lanes) {
    Pack<T, kUnit> x[kAtOnce<T>], residual[kAtOnce<T>] = {};
    WICK_UNROLL
    for (int i = 0; i < kAtOnce<T>; ++i) {
      const int64_t r = slice.nearest(row, i * tiling.lanes);
      x[i] = load_unit<T, kPacked>(o.x + r * tiling.row_size + first, slice.count);
      if (o.residual == nullptr) continue;
      residual[i] = load_unit<T, kPacked>(o.residual + r * tiling.row_size + first, slice.count);
    }
    WICK_UNROLL
    for (int i = 0; i < kAtOnce<T>; ++i) {
      const int64_t r = row + i * tiling.lanes;
      if (r >= slice.end) continue;
      if (kRuns) k.template load<false>(coefficients, slice.image, channels, r % channels, 1);
      unsigned pass = 0;
      WICK_UNROLL
      for (int j = 0; j < kUnit; ++j) {
        L v = k.forward(convert<L>(x[i][j]), j);
        if (o.residual != nullptr) v += convert<L>(residual[i][j]);
        const bool passes = !(v <= 0) || !o.relu;
        pass |= (passes ? 1u : 0u) << j;
        x[i][j] = convert<T>(passes ? v : L{0});
      }
      store_unit<T, kPacked>(o.y + r * tiling.row_size + first, x[i], slice.count);
      if (o.mask != nullptr) o.mask[r * o.mask_stride + slice.unit] = static_cast<uint8_t>(pass);
    }
  }
}

template <class T>
struct BackwardOperands {
  const T *x, *dy;
  T *dx, *dresidual;
  const uint8_t* mask;
  int64_t mask_stride;
};

template <class T, bool kRuns, bool kPacked>
__global__ void __launch_bounds__(kUnitThreads, kPacked ? 2 : 1)
    channel_backward_kernel(BackwardOperands<T> o, UnitTiling tiling, int64_t channels,
                            const Accumulator<T>* coefficients) {
  using L = Accumulator<T>;
  const UnitSlice slice(tiling);
  if (slice.count == 0) return;
  const int64_t first = slice.unit * kUnit;
  Coefficients<L, kRuns> k;
  if (!kRuns) k.template load<true>(coefficients, slice.image, channels, first, slice.count);
  for (int64_t row = slice.begin; row < slice.end; row += kAtOnce<T> * tiling.lanes) {
    Pack<T, kUnit> x[kAtOnce<T>], g[kAtOnce<T>];
    unsigned pass[kAtOnce<T>];
    WICK_UNROLL
    for (int i = 0; i < kAtOnce<T>; ++i) {
      const int64_t r = slice.nearest(row, i * tiling.lanes);
      x[i] = load_unit<T, kPacked>(o.x + r * tiling.row_size + first, slice.count);
      g[i] = load_unit<T, kPacked>(o.dy + r * tiling.row_size + first, slice.count);
      pass[i] = o.mask == nullptr ? 0xff : o.mask[r * o.mask_stride + slice.unit];
    }
    WICK_UNROLL
    for (int i = 0; i < kAtOnce<T>; ++i) {
      const int64_t r = row + i * tiling.lanes;
      if (r >= slice.end) continue;
      if (kRuns) k.template load<true>(coefficients, slice.image, channels, r % channels, 1);
      WICK_UNROLL
      for (int j = 0; j < kUnit; ++j) {
        if ((pass[i] >> j & 1u) == 0) g[i][j] = convert<T>(0.0f);
        x[i][j] = convert<T>(k.backward(convert<L>(g[i][j]), convert<L>(x[i][j]), j));
      }
      store_unit<T, kPacked>(o.dx + r * tiling.row_size + first, x[i], slice.count);
      if (o.dresidual == nullptr) continue;
      store_unit<T, kPacked>(o.dresidual + r * tiling.row_size + first, g[i], slice.count);
    }
  }
}

template <class T>
__global__ void relu_mask_kernel(const uint8_t* mask, int64_t stride, T* y, int64_t rows,
                                 int64_t size) {
  const int64_t units = (size + kUnit - 1) / kUnit;
  for (int64_t i = global_thread(); i < rows * units; i += global_threads()) {
    const int64_t row = i / units, unit = i % units;
    const unsigned pass = mask[row * stride + unit];
    for (int j = 0; j < kUnit; ++j) {
      const int64_t at = unit * kUnit + j;
      if (at < size) y[row * size + at] = convert<T>((pass >> j & 1u) != 0 ? 1.0f : 0.0f);
    }
  }
}

// Rows of all images, or of one, where each has its own coefficients per unit.
UnitTiling tiling_of(Device device, const ChannelLayout& layout, Dtype dtype) {
  const int64_t least = std::max<int64_t>(1, 8 / size_of(dtype));
  return UnitTiling(device, layout.images, layout.rows(), layout.row_size(), least, 16 * least);
}

// Calls `run(Type<T>, runs, packed)`, the latter two as types that hold a bool.
template <class Run>
void visit_variants(Dtype dtype, bool runs, bool packed, const Run& run) {
  visit_floating(dtype, [&]<class T>(Type<T>) {
    if (runs) {
      return packed ? run.template operator()<T, true, true>()
                    : run.template operator()<T, true, false>();
    }
    return packed ? run.template operator()<T, false, true>()
                  : run.template operator()<T, false, false>();
  });
}

}  // namespace

void channel_forward(const char* name, const ChannelNorm& n, const ChannelLayout& layout,
                     const void* coefficients) {
  const UnitTiling tiling = tiling_of(n.x.device, layout, n.x.dtype);
  const bool packed = rows_can_be_packed(tiling.row_size, {&n.x, &n.residual, &n.y});
  visit_variants(n.x.dtype, layout.inner > 1, packed, [&]<class T, bool kRuns, bool kPacked>() {
    const ForwardOperands<T> o{n.x.as<T>(),
                               n.residual.as<T>(),
                               n.y.as<T>(),
                               n.mask.as<uint8_t>(),
                               n.mask.defined() ? n.mask.shape[1] : 0,
                               n.relu};
    launch(name, n.x.device, tiling.grid(), channel_forward_kernel<T, kRuns, kPacked>, o, tiling,
           layout.channels, static_cast<const Accumulator<T>*>(coefficients));
  });
}

void channel_backward(const char* name, const ChannelNorm& n, const ChannelLayout& layout,
                      const void* coefficients) {
  const UnitTiling tiling = tiling_of(n.x.device, layout, n.x.dtype);
  const bool packed = rows_can_be_packed(tiling.row_size, {&n.x, &n.dy, &n.dx, &n.dresidual});
  visit_variants(n.x.dtype, layout.inner > 1, packed, [&]<class T, bool kRuns, bool kPacked>() {
    const BackwardOperands<T> o{n.x.as<T>(),          n.dy.as<T>(),
                                n.dx.as<T>(),         n.dresidual.as<T>(),
                                n.mask.as<uint8_t>(), n.mask.defined() ? n.mask.shape[1] : 0};
    launch(name, n.x.device, tiling.grid(), channel_backward_kernel<T, kRuns, kPacked>, o, tiling,
           layout.channels, static_cast<const Accumulator<T>*>(coefficients));
  });
}

void relu_mask(const View& mask, const View& y) {
  const int64_t rows = mask.shape[0], size = y.numel() / rows;
  visit_floating(y.dtype, [&]<class T>(Type<T>) {
    launch("relu_mask", y.device, grid_for(y.device, rows * ((size + kUnit - 1) / kUnit)),
           relu_mask_kernel<T>, mask.as<uint8_t>(), mask.shape[1], y.as<T>(), rows, size);
  });
}

}  // namespace wick::cuda
