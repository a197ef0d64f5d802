#include "wick/kernels/cuda/common/columns.h"
#include "wick/kernels/cuda/common/quick_math.h"
#include "wick/kernels/cuda/common/rows.h"
#include "wick/kernels/norm.h"

namespace wick::cuda {

namespace {

/// Blocks that add up the gradients of weight and bias, each over its share of the rows: as many as
/// fill the GPU.
constexpr int64_t kRowsEach = 4;
int64_t most_blocks(Device device, int64_t threads) {
  return blocks_to_fill(device, std::max<int64_t>(2, 512 / threads));
}

template <class T>
using ParameterPack = Pack<Accumulator<T>, kPackSize<T>>;

/// Elements [at, at + kPackSize) of a weight or bias of `size` elements, which may be null.
template <class T, class Index>
__device__ ParameterPack<T> load_parameters(const Accumulator<T>* p, Index size, Index at,
                                            Accumulator<T> otherwise) {
  ParameterPack<T> v;
  if (p != nullptr && at >= 0 && at + kPackSize<T> <= size &&
      reinterpret_cast<uintptr_t>(p + at) % 16 == 0) {
    return load_pack<kPackSize<T>>(p + at);
  }
  for (int j = 0; j < kPackSize<T>; ++j) {
    v[j] = p != nullptr && at + j >= 0 && at + j < size ? p[at + j] : otherwise;
  }
  return v;
}

/// Mean and scale of a row of T as they are applied: the mean in two parts, of which 16 bits need
/// one.
template <class T>
struct RowScale {
  using L = Accumulator<T>;
  L high, low, scale;
  __device__ RowScale(double mean, double invstd)
      : high(static_cast<L>(mean)),
        low(static_cast<L>(mean - static_cast<double>(high))),
        scale(static_cast<L>(invstd)) {}
  __device__ L operator()(L x) const {
    if constexpr (sizeof(T) == 2) return (x - high) * scale;
    return ((x - high) - low) * scale;
  }
};

/// 1 / sqrt(x) for rows of T.
template <class T>
__device__ double inverse_root(double x) {
  if constexpr (sizeof(T) == 8) return 1 / sqrt(x);
  return quick_inverse_root(x);
}

/// The mean of a row, and the sum of squared deviations from it.
struct RowMoments {
  double mean = 0, m2 = 0;
};

/// In two passes over the row; from 0 unless `centered`. `per_element`: 1 / its size.
template <class T, int kPacks>
__device__ RowMoments moments_of_row(const RowFragment<T, kPacks>& x,
                                     const RowSlice<T, kPacks>& slice, bool centered, int lanes,
                                     double per_element) {
  using L = Accumulator<T>;
  using S = Sum<L, kPacks>;
  L origin = 0;
  if (centered) {
    S sum = 0;
    x.for_packs(slice, [&](const RowPack<T>& v, auto) {
      L part = 0;
      for (int j = 0; j < kPackSize<T>; ++j) part += convert<L>(v[j]);
      sum += static_cast<S>(part);
    });
    origin = static_cast<L>(static_cast<double>(row_sum(sum, lanes)) * per_element);
  }
  S sum = 0, squares = 0;
  x.for_packs(slice, [&](const RowPack<T>& v, auto at) {
    L s = 0, q = 0;
    const auto add = [&](int j) {
      const L d = convert<L>(v[j]) - origin;
      s += d;
      q += d * d;
    };
    if (slice.holds(at)) {
      for (int j = 0; j < kPackSize<T>; ++j) add(j);
    } else {
      for (int j = 0; j < kPackSize<T>; ++j) {
        if (at + j >= 0 && at + j < slice.size) add(j);
      }
    }
    sum += static_cast<S>(s);
    squares += static_cast<S>(q);
  });
  const double q = static_cast<double>(row_sum(squares, lanes));
  if (!centered) return {0, q};
  // The origin is the mean as rounded, which is enough where T has 16 bits.
  if constexpr (sizeof(T) == 2) return {static_cast<double>(origin), q};
  const double s = static_cast<double>(row_sum(sum, lanes));
  return {static_cast<double>(origin) + s * per_element, q - s * s * per_element};
}

template <class T>
struct LayerNormForward {
  const T *x, *residual;
  const Accumulator<T>*weight, *bias;
  T *y, *sum;
  double *mean, *invstd;    // mean: null for RMS norm
  double eps, per_element;  // 1 / the size of a row
};

/// What is normalised: this thread's part of a row of x, or with kAdd of x + residual, which
/// becomes a row of the sum.
template <bool kAdd, class T, int kPacks>
__device__ RowFragment<T, kPacks> row_to_normalise(const LayerNormForward<T>& f,
                                                   const RowSlice<T, kPacks>& slice) {
  using L = Accumulator<T>;
  const T fill = convert<T>(L{0});
  if constexpr (kAdd) {
    const RowFragment<T, kPacks> x(f.x, slice, fill), residual(f.residual, slice, fill);
    return {f.sum, slice, fill, [&](int k, auto at) {
              RowPack<T> v = x.get(k, at);
              const RowPack<T> r = residual.get(k, at);
              for (int j = 0; j < kPackSize<T>; ++j) {
                v[j] = convert<T>(convert<L>(v[j]) + convert<L>(r[j]));
              }
              store_in_row(f.sum + slice.begin, slice.size, at, v);
              return v;
            }};
  } else {
    return {f.x, slice, fill};
  }
}

template <class T, int kPacks, bool kAdd>
__global__ void __launch_bounds__(kRowThreads, kAdd ? 1 : kRowBlocks<T, kPacks>)
    layer_norm_kernel(LayerNormForward<T> f, RowTiling tiling, Packs<kPacks>) {
  using L = Accumulator<T>;
  for (RowLoop loop(tiling); loop.any(); loop.next()) {
    const RowSlice<T, kPacks> slice(loop, tiling, f.x);
    const RowFragment<T, kPacks> data = row_to_normalise<kAdd>(f, slice);
    const RowMoments m =
        moments_of_row(data, slice, f.mean != nullptr, tiling.lanes, f.per_element);
    const double invstd = inverse_root<T>(m.m2 * f.per_element + f.eps);
    if (loop.leads()) {
      if (f.mean != nullptr) f.mean[loop.row()] = m.mean;
      f.invstd[loop.row()] = invstd;
    }
    const RowScale<T> normalise(m.mean, invstd);
    data.for_packs(slice, [&](const RowPack<T>& v, auto at) {
      L y[kPackSize<T>];
      const auto w = load_parameters<T>(f.weight, slice.size, at, L{1});
      const auto b = load_parameters<T>(f.bias, slice.size, at, L{0});
      for (int j = 0; j < kPackSize<T>; ++j) y[j] = normalise(convert<L>(v[j])) * w[j] + b[j];
      store_in_row(f.y + slice.begin, slice.size, at, convert_pack<T>(y));
    });
  }
}

template <class T>
struct LayerNormBackward {
  const T *dy, *x;
  const Accumulator<T>* weight;
  const double *mean, *invstd;
  const T* dsum;          // or null
  T* dx;                  // or null
  Accumulator<T>* parts;  // [blocks, rows per block, 2, size], or null
};

/// What a thread adds to the gradients of weight and bias in its columns.
template <class T, int kPacks>
struct ParameterSums {
  ParameterPack<T> weight[kPacks] = {}, bias[kPacks] = {};

  __device__ void store(Accumulator<T>* part, const RowSlice<T, kPacks>& columns, int64_t size) {
    WICK_UNROLL
    for (int k = 0; k < kPacks; ++k) {
      const int at = columns.first + k * columns.step;
      for (int j = 0; j < kPackSize<T>; ++j) {
        if (at + j >= size) continue;
        part[at + j] = weight[k][j];
        part[size + at + j] = bias[k][j];
      }
    }
  }
};
template <class T>
struct ParameterSums<T, 0> {};

/// With kParameters a thread has the same columns in all rows; with kAdd there is a dsum.
template <class T, int kPacks, bool kParameters, bool kAdd>
__global__ void __launch_bounds__(kRowThreads, 1)
    layer_norm_backward_kernel(LayerNormBackward<T> b, RowTiling tiling, Packs<kPacks>) {
  using L = Accumulator<T>;
  using S = Sum<L, kPacks>;
  ParameterSums<T, kParameters ? kPacks : 0> sums;
  const S per_element = S{1} / static_cast<S>(tiling.size);
  for (RowLoop loop(tiling); loop.any(); loop.next()) {
    RowSlice<T, kPacks> slice(loop, tiling, b.x);
    if (kParameters) slice.first = loop.lane() * kPackSize<T>;
    const T zero = convert<T>(L{0});
    const RowFragment<T, kPacks> inputs(b.x, slice, zero), gradients(b.dy, slice, zero);
    const int64_t row = loop.valid() ? loop.row() : 0;
    const RowScale<T> normalise(b.mean == nullptr ? 0.0 : b.mean[row], b.invstd[row]);
    S sum = 0, dot = 0;
    slice.for_packs([&](int k, auto at) {
      const RowPack<T> v = inputs.get(k, at), g = gradients.get(k, at);
      const auto w = load_parameters<T>(b.weight, slice.size, at, L{1});
      L s = 0, d = 0;
      WICK_UNROLL
      for (int j = 0; j < kPackSize<T>; ++j) {  // outside the row the gradient is 0
        const L own = convert<L>(g[j]), normal = normalise(convert<L>(v[j]));
        s += own * w[j];
        d += own * w[j] * normal;
        if constexpr (kParameters) {
          sums.weight[k][j] += own * normal;
          sums.bias[k][j] += own;
        }
      }
      sum += static_cast<S>(s);
      dot += static_cast<S>(d);
    });
    if (b.dx == nullptr) continue;
    if (b.mean != nullptr) sum = row_sum(sum, tiling.lanes);
    const L shift = b.mean == nullptr ? L{0} : static_cast<L>(sum * per_element);
    const L slope = static_cast<L>(row_sum(dot, tiling.lanes) * per_element);
    slice.for_packs([&](int k, auto at) {
      const RowPack<T> v = inputs.get(k, at), g = gradients.get(k, at);
      L dx[kPackSize<T>];
      const auto w = load_parameters<T>(b.weight, slice.size, at, L{1});
      RowPack<T> more = {};
      if (kAdd) more = load_in_row(b.dsum + slice.begin, slice.size, at, zero).unpack();
      for (int j = 0; j < kPackSize<T>; ++j) {
        const L own = convert<L>(g[j]) * w[j];
        L d = (own - shift - normalise(convert<L>(v[j])) * slope) * normalise.scale;
        if (kAdd) d += convert<L>(more[j]);
        dx[j] = d;
      }
      store_in_row(b.dx + slice.begin, slice.size, at, convert_pack<T>(dx));
    });
  }
  if constexpr (kParameters) {
    const RowLoop loop(tiling);
    RowSlice<T, kPacks> columns(loop, tiling, b.x);
    columns.first = loop.lane() * kPackSize<T>;
    const int64_t groups = loop.rows_per_block();
    const int64_t part = blockIdx.x * groups + threadIdx.x / static_cast<unsigned>(tiling.lanes);
    sums.store(b.parts + part * 2 * tiling.size, columns, tiling.size);
  }
}

/// The gradients of weight and bias alone, for rows that are too long for registers: part r is what
/// the rows r, r + parts, r + 2 parts, ... add.
template <class T>
__global__ void __launch_bounds__(kColumnThreads)
    layer_norm_parameters_kernel(LayerNormBackward<T> b, int64_t rows, ColumnTiling tiling) {
  using L = Accumulator<T>;
  for (ColumnLoop loop(tiling); loop.any(); loop.next()) {
    if (!loop.valid()) continue;
    const int64_t column = loop.column(), size = tiling.inner;
    L weight = 0, bias = 0;
    for (int64_t r = loop.outer(); r < rows; r += tiling.outer) {
      const RowScale<T> normalise(b.mean == nullptr ? 0.0 : b.mean[r], b.invstd[r]);
      const L g = convert<L>(b.dy[r * size + column]);
      weight += g * normalise(convert<L>(b.x[r * size + column]));
      bias += g;
    }
    b.parts[loop.outer() * 2 * size + column] = weight;
    b.parts[loop.outer() * 2 * size + size + column] = bias;
  }
}

/// Adds up the parts: columns of [parts, 2 * size].
template <class L>
__global__ void __launch_bounds__(kColumnThreads)
    join_parts_kernel(const L* parts, L* dweight, L* dbias, ColumnTiling tiling) {
  const int64_t size = tiling.inner / 2;
  for (ColumnLoop loop(tiling); loop.any(); loop.next()) {
    double sum = 0;
    loop.for_rows([&](int64_t at, int64_t) { sum += static_cast<double>(parts[at]); });
    sum = column_reduce(sum, tiling.width, Add{});
    if (static_cast<int>(threadIdx.x) >= tiling.width || !loop.valid()) continue;
    const int64_t column = loop.column();
    L* const to = column < size ? dweight : dbias;
    if (to != nullptr) to[column % size] = static_cast<L>(sum);
  }
}

/// Memory for `count` parts.
template <class L>
L* allocate_parts(Workspace& workspace, int64_t count, int64_t size) {
  return static_cast<L*>(workspace.allocate(static_cast<size_t>(count * 2 * size) * sizeof(L)));
}

/// dx, and parts of the gradients of weight and bias in one pass over memory. Returns how many.
template <int kPacks, bool kAdd, class T>
int64_t run_with_parameters(LayerNormBackward<T>& b, Device device, const RowTiling& tiling,
                            Workspace& workspace) {
  const int64_t threads = tiling.lanes > kWarp ? tiling.lanes : 128;
  const int64_t per_block = threads / tiling.lanes;
  Grid grid = grid_of(tiling, threads);
  const int64_t blocks =
      std::min((tiling.rows + per_block * kRowsEach - 1) / (per_block * kRowsEach),
               most_blocks(device, threads));
  grid.blocks = dim3(static_cast<unsigned>(blocks));
  b.parts = allocate_parts<Accumulator<T>>(workspace, blocks * per_block, tiling.size);
  launch("layer_norm_backward", device, grid, layer_norm_backward_kernel<T, kPacks, true, kAdd>, b,
         tiling, Packs<kPacks>{});
  return blocks * per_block;
}

template <class T, bool kAdd>
void forward(const RowNorm& n) {
  using L = Accumulator<T>;
  const LayerNormForward<T> f{n.x.as<const T>(),
                              n.residual.as<const T>(),
                              n.weight.as<const L>(),
                              n.bias.as<const L>(),
                              n.y.as<T>(),
                              n.sum.as<T>(),
                              n.mean.as<double>(),
                              n.invstd.as<double>(),
                              n.eps,
                              1 / static_cast<double>(std::max<int64_t>(n.x.shape[1], 1))};
  tile_rows<kAdd ? 3 : 1>(
      f.x, n.x.shape[0], n.x.shape[1],
      [&]<int kPacks>(Packs<kPacks> packs, const Grid& grid, const RowTiling& s) {
        launch("layer_norm_forward", n.x.device, grid, layer_norm_kernel<T, kPacks, kAdd>, f, s,
               packs);
      });
}

template <class T, bool kAdd>
void backward(const RowNorm& n) {
  using L = Accumulator<T>;
  const int64_t rows = n.x.shape[0], size = n.x.shape[1];
  const Device device = n.x.device;
  const bool parameters = n.dweight.defined() || n.dbias.defined();
  LayerNormBackward<T> b{n.dy.as<const T>(),
                         n.x.as<const T>(),
                         n.weight.as<const L>(),
                         n.mean.as<const double>(),
                         n.invstd.as<const double>(),
                         n.dsum.as<const T>(),
                         n.dx.as<T>(),
                         nullptr};
  // Packs, so that the sums fit registers too.
  constexpr int kMost = sizeof(T) == 2 || kAdd ? 2 : 4;
  const int64_t packs = (size + kPackSize<T> - 1) / kPackSize<T>;
  int64_t parts = 0;
  if (parameters && packs <= kMost * kRowThreads) {
    RowTiling s{rows, size, 1};
    while (s.lanes < packs && s.lanes < kWarp) s.lanes *= 2;
    if (packs > s.lanes) {
      s.lanes = static_cast<int>((packs + kMost * kWarp - 1) / (kMost * kWarp)) * kWarp;
      parts = run_with_parameters<kMost, kAdd>(b, device, s, *n.workspace);
    } else {
      parts = run_with_parameters<1, kAdd>(b, device, s, *n.workspace);
    }
  } else {
    if (b.dx != nullptr) {
      tile_rows<3>(b.x, rows, size,
                   [&]<int kPacks>(Packs<kPacks> p, const Grid& grid, const RowTiling& s) {
                     launch("layer_norm_backward", device, grid,
                            layer_norm_backward_kernel<T, kPacks, false, kAdd>, b, s, p);
                   });
    }
    if (!parameters) return;
    parts = std::clamp<int64_t>(rows / kRowsEach, 1, 64);
    b.parts = allocate_parts<L>(*n.workspace, parts, size);
    const ColumnTiling s = tile_columns(parts, 1, size, kColumnThreads);
    launch("layer_norm_backward", device, grid_of(s), layer_norm_parameters_kernel<T>, b, rows, s);
  }
  // Few columns each, a sector of memory, so that there are enough blocks.
  const ColumnTiling s = tile_columns(1, parts, 2 * size, 8);
  launch("layer_norm_backward", device, grid_of(s), join_parts_kernel<L>,
         static_cast<const L*>(b.parts), n.dweight.as<L>(), n.dbias.as<L>(), s);
}

}  // namespace

void layer_norm_forward(const RowNorm& n) {
  visit_floating(n.x.dtype, [&]<class T>(Type<T>) {
    n.residual.defined() ? forward<T, true>(n) : forward<T, false>(n);
  });
}

void layer_norm_backward(const RowNorm& n) {
  visit_floating(n.x.dtype, [&]<class T>(Type<T>) {
    n.dsum.defined() ? backward<T, true>(n) : backward<T, false>(n);
  });
}

}  // namespace wick::cuda
