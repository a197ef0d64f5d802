#include "wick/kernels/softmax.h"

#include "wick/kernels/axis_split.h"
#include "wick/kernels/cuda/common/columns.h"
#include "wick/kernels/cuda/common/exp_sum.h"

namespace wick::cuda {

namespace {

/// What a row or column of results is made from its ExpSum: exp(x - max) / sum or its logarithm.
template <class T, bool kLog>
struct Normalise {
  using A = Accumulator<T>;
  A max, factor, log_sum;

  __device__ Normalise(A max_in, A sum)
      : max(max_in), factor(kLog ? A{0} : A{1} / sum), log_sum(kLog ? log(sum) : A{0}) {}
  __device__ A operator()(A x) const {
    if constexpr (kLog) return (x - max) - log_sum;
    return exp_for<T>(x - max) * factor;
  }
};

/// The gradient of an element, and its part in the sum that all elements' gradients share.
template <bool kLog, class A>
struct GradientOf {
  __device__ static A term(A dy, A y) { return kLog ? dy : dy * y; }
  __device__ static A apply(A dy, A y, A sum) {
    if constexpr (kLog) return dy - exp(y) * sum;
    return (dy - sum) * y;
  }
};

template <class T, bool kLog, int kPacks>
__global__ void __launch_bounds__(kRowThreads, kRowBlocks<T, kPacks>)
    softmax_rows_kernel(const T* x, T* y, RowTiling tiling, Packs<kPacks>) {
  using A = Accumulator<T>;
  for (RowLoop loop(tiling); loop.any(); loop.next()) {
    const RowSlice<T, kPacks> slice(loop, tiling, x);
    const RowFragment<T, kPacks> data(x, slice, convert<T>(kLowest<A>));
    const ExpSum<A> all = exp_sum_of_row<A>(data, slice, tiling.lanes);
    const Normalise<T, kLog> normalise(all.max, all.sum);
    data.for_packs(slice, [&](const RowPack<T>& v, auto at) {
      A result[kPackSize<T>];
      for (int j = 0; j < kPackSize<T>; ++j) result[j] = normalise(convert<A>(v[j]));
      store_in_row(y + slice.begin, slice.size, at, convert_pack<T>(result));
    });
  }
}

template <class T, bool kLog, int kPacks>
__global__ void __launch_bounds__(kRowThreads, kRowBlocks<T, kPacks>)
    softmax_rows_backward_kernel(const T* dy, const T* y, T* dx, RowTiling tiling, Packs<kPacks>) {
  using A = Accumulator<T>;
  using S = Sum<A, kPacks>;
  for (RowLoop loop(tiling); loop.any(); loop.next()) {
    const RowSlice<T, kPacks> slice(loop, tiling, y);
    const RowFragment<T, kPacks> gradients(dy, slice, convert<T>(A{0}));
    const RowFragment<T, kPacks> results(y, slice, convert<T>(A{0}));
    S own = 0;
    slice.for_packs([&](int k, auto at) {
      const RowPack<T> g = gradients.get(k, at), v = results.get(k, at);
      A part = 0;
      for (int j = 0; j < kPackSize<T>; ++j) {
        part += GradientOf<kLog, A>::term(convert<A>(g[j]), convert<A>(v[j]));
      }
      own += static_cast<S>(part);
    });
    const A sum = static_cast<A>(row_sum(own, tiling.lanes));
    slice.for_packs([&](int k, auto at) {
      const RowPack<T> g = gradients.get(k, at), v = results.get(k, at);
      A result[kPackSize<T>];
      for (int j = 0; j < kPackSize<T>; ++j) {
        result[j] = GradientOf<kLog, A>::apply(convert<A>(g[j]), convert<A>(v[j]), sum);
      }
      store_in_row(dx + slice.begin, slice.size, at, convert_pack<T>(result));
    });
  }
}

template <class T, bool kLog>
__global__ void softmax_columns_kernel(const T* x, T* y, ColumnTiling tiling) {
  using A = Accumulator<T>;
  for (ColumnLoop loop(tiling); loop.any(); loop.next()) {
    ExpSum<A, double> own;
    loop.for_rows([&](int64_t at, int64_t) { own.add(convert<A>(x[at])); });
    const A max = column_reduce(own.max, tiling.width, LargerNumber{});
    const double sum = column_reduce(own.sum_from(max), tiling.width, Add{});
    const Normalise<T, kLog> normalise(max, static_cast<A>(sum));
    loop.for_rows([&](int64_t at, int64_t) { y[at] = convert<T>(normalise(convert<A>(x[at]))); });
  }
}

template <class T, bool kLog>
__global__ void softmax_columns_backward_kernel(const T* dy, const T* y, T* dx,
                                                ColumnTiling tiling) {
  using A = Accumulator<T>;
  for (ColumnLoop loop(tiling); loop.any(); loop.next()) {
    double own = 0;
    loop.for_rows([&](int64_t at, int64_t) {
      own += static_cast<double>(GradientOf<kLog, A>::term(convert<A>(dy[at]), convert<A>(y[at])));
    });
    const A sum = static_cast<A>(column_reduce(own, tiling.width, Add{}));
    loop.for_rows([&](int64_t at, int64_t) {
      dx[at] = convert<T>(GradientOf<kLog, A>::apply(convert<A>(dy[at]), convert<A>(y[at]), sum));
    });
  }
}

template <bool kLog>
void run_forward(const View& x, const View& y, int axis) {
  constexpr const char* kName = kLog ? "log_softmax_forward" : "softmax_forward";
  const AxisSplit s = split_at(x, axis);
  visit_floating(x.dtype, [&]<class T>(Type<T>) {
    if (s.inner > 1) {
      const ColumnTiling tiling = tile_columns(s.outer, s.size, s.inner);
      launch(kName, y.device, grid_of(tiling), softmax_columns_kernel<T, kLog>, x.as<T>(),
             y.as<T>(), tiling);
      return;
    }
    tile_rows<1>(x.as<T>(), s.outer, s.size,
                 [&]<int kPacks>(Packs<kPacks> packs, const Grid& grid, const RowTiling& tiling) {
                   launch(kName, y.device, grid, softmax_rows_kernel<T, kLog, kPacks>, x.as<T>(),
                          y.as<T>(), tiling, packs);
                 });
  });
}

template <bool kLog>
void run_backward(const View& dy, const View& y, const View& dx, int axis) {
  constexpr const char* kName = kLog ? "log_softmax_backward" : "softmax_backward";
  const AxisSplit s = split_at(y, axis);
  visit_floating(y.dtype, [&]<class T>(Type<T>) {
    if (s.inner > 1) {
      const ColumnTiling tiling = tile_columns(s.outer, s.size, s.inner);
      launch(kName, dx.device, grid_of(tiling), softmax_columns_backward_kernel<T, kLog>,
             dy.as<T>(), y.as<T>(), dx.as<T>(), tiling);
      return;
    }
    tile_rows<2>(y.as<T>(), s.outer, s.size,
                 [&]<int kPacks>(Packs<kPacks> packs, const Grid& grid, const RowTiling& tiling) {
                   launch(kName, dx.device, grid, softmax_rows_backward_kernel<T, kLog, kPacks>,
                          dy.as<T>(), y.as<T>(), dx.as<T>(), tiling, packs);
                 });
  });
}

}  // namespace

void softmax_forward(const View& x, const View& y, int axis, bool log) {
  log ? run_forward<true>(x, y, axis) : run_forward<false>(x, y, axis);
}

void softmax_backward(const View& dy, const View& y, const View& dx, int axis, bool log) {
  log ? run_backward<true>(dy, y, dx, axis) : run_backward<false>(dy, y, dx, axis);
}

}  // namespace wick::cuda
