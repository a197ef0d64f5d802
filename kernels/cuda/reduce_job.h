#pragma once

#include "wick/kernels/cuda/common/convert.h"
#include "wick/kernels/cuda/reduce_ops.h"
#include "wick/kernels/reduce_groups.h"

namespace wick::cuda {

/// What the threads of one reduction share. Each of its groups may be cut into `splits` pieces,
/// whose results go to `partial` first.
struct ReduceJob {
  Groups g;
  const void* x = nullptr;
  const double* center = nullptr;
  void* y = nullptr;
  Dtype y_dtype = Dtype::kFloat32;
  double factor = 1;
  void* partial = nullptr;  // [groups, splits]
  int64_t splits = 1;
  int64_t packs = 0;  // pieces of 16 bytes in a run along the inner axis, if that is reduced

  WICK_HOST_DEVICE int64_t groups() const {
    return g.kept.count * (g.inner_reduced ? 1 : g.inner_size);
  }
  /// Where the result of group `i` lies in y.
  WICK_HOST_DEVICE int64_t y_offset(int64_t i) const {
    if (g.inner_reduced) return g.kept.y(i);
    return g.kept.y(i / g.inner_size) + i % g.inner_size * g.inner_y;
  }

  /// Takes the result of piece `split` of group `i`, which lies at `offset` in y.
  template <class W>
  __device__ void put(int64_t i, int64_t offset, int64_t split, W value) const {
    if (splits > 1) {
      static_cast<W*>(partial)[i * splits + split] = value;
    } else {
      store_result(y, y_dtype, offset, value, factor);
    }
  }

  // Called, not inlined: once per result, in some ninety kernels, with a case per dtype.
  __attribute__((noinline)) __device__ static void store_result(void* y, Dtype dtype,
                                                                int64_t offset, double value,
                                                                double factor) {
    store_as(y, dtype, offset, is_floating(dtype) ? value * factor : value);
  }
  __attribute__((noinline)) __device__ static void store_result(void* y, Dtype dtype,
                                                                int64_t offset, int64_t value,
                                                                double factor) {
    if (is_floating(dtype)) {
      store_as(y, dtype, offset, static_cast<double>(value) * factor);
    } else {
      store_as(y, dtype, offset, value);
    }
  }
};

/// What partial results of many elements of T are held in.
template <class T>
struct WideOf {
  using type = double;
};
template <>
struct WideOf<int64_t> {
  using type = int64_t;
};
template <class T>
using Wide = typename WideOf<Accumulator<T>>::type;

/// Reductions whose inner axis is reduced, or is not. They choose how many pieces groups are cut
/// into and get memory for their results.
void reduce_runs(Reduction kind, Dtype dtype, ReduceJob& job, Device device, Workspace& workspace);
void reduce_columns(Reduction kind, Dtype dtype, ReduceJob& job, Device device,
                    Workspace& workspace);

/// Calls `run(Op{}, Type<T>{})`, bool taken as uint8.
template <class Run>
void visit_reduced(Reduction kind, Dtype dtype, const Run& run) {
  visit_dtype(dtype, [&]<class T>(Type<T>) {
    using Stored = std::conditional_t<__is_same(T, bool), uint8_t, T>;
    visit_reduction<is_floating(dtype_of<T>)>(kind,
                                              [&]<class Op>(Op op) { run(op, Type<Stored>{}); });
  });
}

}  // namespace wick::cuda
