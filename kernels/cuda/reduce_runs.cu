#include "wick/kernels/cuda/common/rows.h"
#include "wick/kernels/cuda/reduce_job.h"

// Reductions along the innermost axis, and perhaps others: a group is a number of runs of memory.
namespace wick::cuda {

namespace {

constexpr int kUnrolled = 4;  // packs that a thread loads at once

/// The packs of one group, numbered through all its runs.
template <class T>
struct GroupPacks {
  static constexpr int kSize = kPackSize<T>;
  const Groups& g;
  const T* x;
  int64_t packs;

  struct Place {
    const T* run;
    int64_t first;  // element
  };
  __device__ Place at(int64_t item) const {
    int64_t run = item;
    if (g.reduced.count == 1) {
      run = 0;
    } else if (item <= 0x7fffffff) {  // division of 32 bits is several times faster
      run = static_cast<uint32_t>(item) / static_cast<uint32_t>(packs);
    } else {
      run = item / packs;
    }
    const T* p = x + g.reduced.x(run);
    const int64_t shift =
        g.inner_x == 1 ? static_cast<int64_t>(reinterpret_cast<uintptr_t>(p) % 16 / sizeof(T)) : 0;
    return {p, (item - run * packs) * kSize - shift};
  }
  __device__ RawPack<T> load(const Place& at) const {
    if (g.inner_x == 1) return load_in_row(at.run, g.inner_size, at.first, T{});
    RowPack<T> v;
    for (int j = 0; j < kSize; ++j) {
      const int64_t i = at.first + j;
      v[j] = i < g.inner_size ? at.run[i * g.inner_x] : T{};
    }
    return raw_pack<T>(v);
  }
};

template <class Op, class T>
__global__ void __launch_bounds__(kRowThreads, 1)
    reduce_runs_kernel(Op op, Type<T>, ReduceJob job, RowTiling tiling) {
  using L = Accumulator<T>;
  using W = Wide<T>;
  const int64_t items = job.g.reduced.count * job.packs;
  const int64_t each = (items + job.splits - 1) / job.splits;
  for (RowLoop loop(tiling); loop.any(); loop.next()) {
    const int64_t group = loop.row() / job.splits, split = loop.row() % job.splits;
    W total = Op::template identity<W>();
    if (loop.valid()) {
      const GroupPacks<T> packs{job.g, static_cast<const T*>(job.x) + job.g.kept.x(group),
                                job.packs};
      Center<L> center;
      if constexpr (Op::kUsesCenter) {
        center = Center<L>(job.center[job.g.kept.y(group)]);
      }
      const int64_t end = split * each + each < items ? split * each + each : items;
      const int64_t step = tiling.lanes;
      for (int64_t i = split * each + loop.lane(); i < end; i += kUnrolled * step) {
        RawPack<T> v[kUnrolled] = {};
        int64_t first[kUnrolled];
        for (int u = 0; u < kUnrolled; ++u) {
          first[u] = job.g.inner_size;  // nothing
          if (i + u * step >= end) continue;
          const auto place = packs.at(i + u * step);
          first[u] = place.first;
          v[u] = packs.load(place);
        }
        L part = Op::template identity<L>();
        for (int u = 0; u < kUnrolled; ++u) {
          const bool whole = first[u] >= 0 && first[u] + kPackSize<T> <= job.g.inner_size;
          const RowPack<T> pack = v[u].unpack();
          for (int j = 0; j < kPackSize<T>; ++j) {
            if (!whole && (first[u] + j < 0 || first[u] + j >= job.g.inner_size)) continue;
            part = op(part, Op::map(convert<L>(pack[j]), center));
          }
        }
        total = op(total, static_cast<W>(part));
      }
    }
    total = row_reduce(total, tiling.lanes, op, Op::template identity<W>());
    if (loop.leads()) job.put(group, job.g.kept.y(group), split, total);
  }
}

/// Whether all runs begin and end at 16-byte boundaries.
bool runs_are_aligned(const ReduceJob& job, int size) {
  const Groups& g = job.g;
  bool aligned = reinterpret_cast<uintptr_t>(job.x) % 16 == 0 && g.inner_size % size == 0;
  for (int i = 0; i < g.kept.rank; ++i) aligned = aligned && g.kept.x_strides[i] % size == 0;
  for (int i = 0; i < g.reduced.rank; ++i) aligned = aligned && g.reduced.x_strides[i] % size == 0;
  return aligned;
}

}  // namespace

void reduce_runs(Reduction kind, Dtype dtype, ReduceJob& job, Device device, Workspace& workspace) {
  const int size = static_cast<int>(16 / size_of(dtype));
  const bool extra = job.g.inner_x == 1 && !runs_are_aligned(job, size);
  job.packs = (job.g.inner_size + size - 1) / size + (extra ? 1 : 0);
  const int64_t items = job.g.reduced.count * job.packs;
  int64_t lanes = 1, threads = 128;
  if (items <= kUnrolled * kWarp) {
    while (lanes < items && lanes < kWarp) lanes *= 2;
  } else {
    lanes = std::min((items / kUnrolled + kWarp - 1) / kWarp * kWarp, int64_t{kRowThreads});
    threads = lanes;
    const int64_t most = (items + kUnrolled * lanes - 1) / (kUnrolled * lanes);
    job.splits = std::min(most, (blocks_to_fill(device, 4) + job.groups() - 1) / job.groups());
  }
  if (job.splits > 1) {
    job.partial = workspace.allocate(static_cast<size_t>(job.groups() * job.splits) * 8);
  }
  const RowTiling tiling{job.groups() * job.splits, 0, static_cast<int>(lanes)};
  visit_reduced(kind, dtype, [&]<class Op, class T>(Op op, Type<T> type) {
    launch("reduce", device, grid_of(tiling, threads), reduce_runs_kernel<Op, T>, op, type, job,
           tiling);
  });
}

}  // namespace wick::cuda
