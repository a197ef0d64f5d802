#include "wick/kernels/loss.h"

#include "wick/kernels/cuda/common/exp_sum.h"

namespace wick::cuda {

namespace {

/// The views of CrossEntropyRows of T, as the kernels take them.
template <class T>
struct CrossEntropy {
  using L = Accumulator<T>;
  const T* x;
  const int64_t* target;
  const L* weight;  // or null
  L* loss;
  double* lse;
  const L* dy;
  T* dx;
  int64_t rows, classes, ignore_index;
  double smoothing;
  bool is_log, one_dy;

  explicit CrossEntropy(const CrossEntropyRows& v)
      : x(v.x.as<const T>()),
        target(v.target.as<const int64_t>()),
        weight(v.weight.as<const L>()),
        loss(v.loss.as<L>()),
        lse(v.lse.as<double>()),
        dy(v.dy.as<const L>()),
        dx(v.dx.as<T>()),
        rows(v.x.shape[0]),
        classes(v.x.shape[1]),
        ignore_index(v.ignore_index),
        smoothing(v.smoothing),
        is_log(v.is_log),
        one_dy(v.dy.numel() == 1) {}

  __device__ double weight_of(int64_t c) const {
    return weight == nullptr ? 1.0 : static_cast<double>(weight[c]);
  }
  __device__ double share_of_class() const { return smoothing / static_cast<double>(classes); }
};

/// A slice of a row whose elements are read only if more than the one at the target counts.
template <class T, int kPacks>
__device__ RowSlice<T, kPacks> read_slice(const RowSlice<T, kPacks>& slice,
                                          const CrossEntropy<T>& c) {
  RowSlice<T, kPacks> read = slice;
  if (c.is_log) read.size = 0;
  return read;
}

/// What a thread adds up for the sum over all classes of weight * (lse - x). Each pack is counted
/// from its largest element: lse is no smaller, so what is rounded is no more than what remains of
/// large logits once lse is subtracted.
template <class T>
struct ClassSums {
  using L = Accumulator<T>;
  double weights = 0, weighted = 0;  // of weight, of weight * x

  template <class Index>
  __device__ void add(const CrossEntropy<T>& c, const RowPack<T>& v, Index at, Index size) {
    L origin = kLowest<L>, w_sum = 0, x_sum = 0;
    for (int j = 0; j < kPackSize<T>; ++j) origin = LargerNumber{}(convert<L>(v[j]), origin);
    if (!(origin > kLowest<L> && origin < -kLowest<L>)) origin = 0;
    if (c.weight == nullptr && at >= 0 && at + kPackSize<T> <= size) {
      w_sum = kPackSize<T>;
      for (int j = 0; j < kPackSize<T>; ++j) x_sum += convert<L>(v[j]) - origin;
    } else {
      for (int j = 0; j < kPackSize<T>; ++j) {
        if (at + j < 0 || at + j >= size) continue;
        const L w = c.weight == nullptr ? L{1} : c.weight[at + j];
        w_sum += w;
        x_sum += w * (convert<L>(v[j]) - origin);
      }
    }
    weights += static_cast<double>(w_sum);
    weighted += static_cast<double>(w_sum) * static_cast<double>(origin);
    weighted += static_cast<double>(x_sum);
  }
};

template <class T, int kPacks>
__global__ void __launch_bounds__(kRowThreads, kRowBlocks<T, kPacks>)
    cross_entropy_rows_kernel(CrossEntropy<T> c, RowTiling tiling, Packs<kPacks>) {
  using L = Accumulator<T>;
  for (RowLoop loop(tiling); loop.any(); loop.next()) {
    const auto slice = read_slice(RowSlice<T, kPacks>(loop, tiling, c.x), c);
    const RowFragment<T, kPacks> data(c.x, slice, convert<T>(kLowest<L>));
    ClassSums<T> classes;
    const auto add_classes = [&](const RowPack<T>& v, auto at) {
      if (c.smoothing > 0) classes.add(c, v, at, slice.size);
    };
    double lse = 0, all_classes = 0;
    if (!c.is_log) {
      const ExpSum<L> all = exp_sum_of_row<L>(data, slice, tiling.lanes, add_classes);
      lse = static_cast<double>(all.max) + log(static_cast<double>(all.sum));
    }
    if (c.smoothing > 0) {
      all_classes =
          lse * row_sum(classes.weights, tiling.lanes) - row_sum(classes.weighted, tiling.lanes);
    }
    if (!loop.leads()) continue;
    const int64_t r = loop.row(), target = c.target[r];
    c.lse[r] = lse;
    double loss = 0;
    if (target != c.ignore_index) {
      WICK_DEVICE_CHECK(target >= 0 && target < c.classes, "cross_entropy: target out of range");
      const double nll = lse - static_cast<double>(convert<L>(c.x[slice.begin + target]));
      loss = (1 - c.smoothing) * c.weight_of(target) * nll;
      if (c.smoothing > 0) loss += c.share_of_class() * all_classes;
    }
    c.loss[r] = static_cast<L>(loss);
  }
}

__device__ void write_totals(double* totals, double sum, double weights) {
  totals[0] = sum;
  totals[1] = weights;
  totals[2] = sum / weights;
  totals[3] = -1;
}

/// Sums of losses and weights: of all rows to `totals`, or each block's to `parts`.
template <class T>
__global__ void cross_entropy_totals_kernel(CrossEntropy<T> c, double* totals, double* parts) {
  double sum = 0, weights = 0;
  for (int64_t r = global_thread(); r < c.rows; r += global_threads()) {
    sum += static_cast<double>(c.loss[r]);
    const int64_t target = c.target[r];
    if (target != c.ignore_index) weights += c.weight_of(target);
  }
  sum = block_sum(sum);
  weights = block_sum(weights);
  if (threadIdx.x != 0) return;
  if (gridDim.x == 1) {
    write_totals(totals, sum, weights);
  } else {
    parts[2 * blockIdx.x] = sum;
    parts[2 * blockIdx.x + 1] = weights;
  }
}

__global__ void join_totals_kernel(const double* parts, int count, double* totals) {
  double sum = 0, weights = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    sum += parts[2 * i];
    weights += parts[2 * i + 1];
  }
  sum = block_sum(sum);
  weights = block_sum(weights);
  if (threadIdx.x == 0) write_totals(totals, sum, weights);
}

template <class L>
__global__ void sum_of_weights_kernel(const L* weight, int64_t classes, double* total) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < classes; i += blockDim.x) sum += static_cast<double>(weight[i]);
  sum = block_sum(sum);
  if (threadIdx.x == 0) *total = sum;
}

/// dx = all * exp(x - lse) - each * weight - (at the target) hit; dx may be x.
template <class T, int kPacks>
__global__ void __launch_bounds__(kRowThreads, kRowBlocks<T, kPacks>)
    cross_entropy_backward_kernel(CrossEntropy<T> c, const double* sum_of_weights, RowTiling tiling,
                                  Packs<kPacks>) {
  using L = Accumulator<T>;
  for (RowLoop loop(tiling); loop.any(); loop.next()) {
    const RowSlice<T, kPacks> slice(loop, tiling, c.x);
    const RowFragment<T, kPacks> data(c.x, read_slice(slice, c), convert<T>(L{0}));
    const int64_t r = loop.valid() ? loop.row() : 0, target = c.target[r];
    const bool counts = target != c.ignore_index;
    const double g = counts ? static_cast<double>(c.dy[c.one_dy ? 0 : r]) : 0;
    const double own = counts ? (1 - c.smoothing) * c.weight_of(target) : 0;
    const double sum = sum_of_weights == nullptr ? static_cast<double>(c.classes) : *sum_of_weights;
    const double lse = c.lse[r];
    const L high = static_cast<L>(lse), low = static_cast<L>(lse - static_cast<double>(high));
    const L hit = static_cast<L>(g * own), each = static_cast<L>(g * c.share_of_class());
    const L all = static_cast<L>(g * (own + c.share_of_class() * sum));
    data.for_packs(slice, [&](const RowPack<T>& v, auto at) {
      L d[kPackSize<T>] = {};
      if (counts) {
        if (!c.is_log) {
          WICK_UNROLL
          for (int j = 0; j < kPackSize<T>; ++j) {
            d[j] = all * exp_for<T>((convert<L>(v[j]) - high) - low);
          }
        }
        if (c.smoothing > 0) {
          WICK_UNROLL
          for (int j = 0; j < kPackSize<T>; ++j) {
            if (c.weight == nullptr) {
              d[j] -= each;
            } else if (at + j >= 0 && at + j < slice.size) {
              d[j] -= each * c.weight[at + j];
            }
          }
        }
        if (at <= target && target < at + kPackSize<T>) {
          WICK_UNROLL
          for (int j = 0; j < kPackSize<T>; ++j) {
            if (at + j == target) d[j] -= hit;
          }
        }
      }
      store_in_row(c.dx + slice.begin, slice.size, at, convert_pack<T>(d));
    });
  }
}

}  // namespace

void cross_entropy_forward(const CrossEntropyRows& rows, Workspace& workspace) {
  const Device device = rows.x.device;
  visit_floating(rows.x.dtype, [&]<class T>(Type<T>) {
    const CrossEntropy<T> c(rows);
    tile_rows<1>(c.x, c.rows, c.classes,
                 [&]<int kPacks>(Packs<kPacks> packs, const Grid& grid, const RowTiling& s) {
                   launch("cross_entropy_forward", device, grid,
                          cross_entropy_rows_kernel<T, kPacks>, c, s, packs);
                 });
    const unsigned blocks = static_cast<unsigned>(
        std::min<int64_t>((c.rows + 4095) / 4096 + (c.rows == 0), blocks_to_fill(device, 1)));
    double* parts = static_cast<double*>(workspace.allocate(2 * sizeof(double) * blocks));
    double* totals = rows.totals.as<double>();
    launch("cross_entropy_totals", device, Grid{dim3(blocks), dim3(512)},
           cross_entropy_totals_kernel<T>, c, totals, parts);
    if (blocks == 1) return;
    launch("cross_entropy_totals", device, Grid{dim3(1), dim3(128)}, join_totals_kernel, parts,
           static_cast<int>(blocks), totals);
  });
}

void cross_entropy_backward(const CrossEntropyRows& rows, Workspace& workspace) {
  const Device device = rows.x.device;
  visit_floating(rows.x.dtype, [&]<class T>(Type<T>) {
    const CrossEntropy<T> c(rows);
    double* sum_of_weights = nullptr;
    if (c.weight != nullptr && c.smoothing > 0) {
      sum_of_weights = static_cast<double*>(workspace.allocate(sizeof(double)));
      launch("cross_entropy_weights", device, Grid{dim3(1), dim3(512)},
             sum_of_weights_kernel<Accumulator<T>>, c.weight, c.classes, sum_of_weights);
    }
    tile_rows<1>(c.x, c.rows, c.classes,
                 [&]<int kPacks>(Packs<kPacks> packs, const Grid& grid, const RowTiling& s) {
                   launch("cross_entropy_backward", device, grid,
                          cross_entropy_backward_kernel<T, kPacks>, c, sum_of_weights, s, packs);
                 });
  });
}

}  // namespace wick::cuda
