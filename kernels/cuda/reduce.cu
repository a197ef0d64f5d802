#include "wick/kernels/reduce.h"

#include "wick/kernels/cuda/common/rows.h"
#include "wick/kernels/cuda/reduce_job.h"

namespace wick::cuda {

namespace {

/// Joins the results of the pieces of each group.
template <class Op, class W>
__global__ void join_pieces_kernel(Op op, Type<W>, ReduceJob job, RowTiling tiling) {
  for (RowLoop loop(tiling); loop.any(); loop.next()) {
    W total = Op::template identity<W>();
    if (loop.valid()) {
      const W* pieces = static_cast<const W*>(job.partial) + loop.row() * job.splits;
      for (int64_t i = loop.lane(); i < job.splits; i += tiling.lanes) total = op(total, pieces[i]);
    }
    total = row_reduce(total, tiling.lanes, op, Op::template identity<W>());
    if (loop.leads()) {
      ReduceJob::store_result(job.y, job.y_dtype, job.y_offset(loop.row()), total, job.factor);
    }
  }
}

}  // namespace

void reduce(Reduction kind, const View& x, const View& center, const View& y, double factor,
            Workspace& workspace) {
  ReduceJob job;
  job.g = group_axes(x, y);
  job.x = x.data;
  job.center = center.as<const double>();
  job.y = y.data;
  job.y_dtype = y.dtype;
  job.factor = factor;
  if (job.g.inner_reduced) {
    reduce_runs(kind, x.dtype, job, y.device, workspace);
  } else {
    reduce_columns(kind, x.dtype, job, y.device, workspace);
  }
  if (job.splits == 1) return;
  const RowTiling tiling{job.groups(), job.splits, kWarp};
  const auto join = [&]<class W>(Type<W> type) {
    visit_reduction<false>(joins_like(kind), [&]<class Op>(Op op) {
      launch("reduce", y.device, grid_of(tiling, 128), join_pieces_kernel<Op, W>, op, type, job,
             tiling);
    });
  };
  if (is_floating(x.dtype)) {
    join(Type<double>{});
  } else {
    join(Type<int64_t>{});
  }
}

}  // namespace wick::cuda
