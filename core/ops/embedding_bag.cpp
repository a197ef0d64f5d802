#include "wick/core/ops/embedding_bag.h"

#include "wick/core/apply.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/count.h"
#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/detail/wide.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/index.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/scatter_reduce.h"

namespace wick {

namespace {

// x itself, whose gradient is multiplied by `factor`, which broadcasts.
struct ScaleGradient {
  static constexpr OpInfo info{.name = "scale_gradient"};
  static constexpr auto fields = std::tuple{};

  Tensor forward(Saved& saved, const Tensor& x, const Tensor& factor) const {
    saved.save(factor);
    return x;
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    return {wide(dy) * saved[0], {}};
  }
};

// On a GPU the kernels find a bag that does not exist.
void check_offsets(const Tensor& offsets, int64_t indices, bool has_last) {
  WICK_CHECK(offsets.rank("embedding_bag") == 1 && offsets.size(0) >= (has_last ? 1 : 0),
             "embedding_bag: offsets need one axis: got shape ", offsets.shape());
  if (!offsets.device().is_cpu()) return;
  int64_t before = 0;
  for (int64_t bag = 0; bag < offsets.size(0); ++bag) {
    const int64_t at = offsets.data<int64_t>()[bag];
    WICK_CHECK(bag > 0 || at == 0, "embedding_bag: offsets begin with 0: got ", at);
    WICK_CHECK(at >= before && at <= indices, "embedding_bag: offset out of range: got ", at,
               ", expected ", before, " to ", indices);
    before = at;
  }
}

// Which bag each of the indices is in.
Tensor bags_of(const Tensor& indices, const Tensor& starts) {
  const Device device = indices.device();
  if (indices.rank() == 2) {
    return arange(0, indices.size(0), 1, kInt64, device)
        .unsqueeze(1)
        .expand(indices.shape())
        .reshape({-1});
  }
  return bucketize(arange(0, indices.numel(), 1, kInt64, device), starts, true) - 1;
}

Tensor reduced_rows(const Tensor& rows, const Tensor& bags, int64_t count, BagMode mode) {
  const Tensor none = zeros({count, rows.size(1)}, rows.dtype(), rows.device());
  if (mode == BagMode::kMax) {
    return scatter_reduce(none, 0, bags.unsqueeze(1).expand(rows.shape()), rows,
                          ScatterReduction::kAmax, false);
  }
  const Tensor sums = index_add(none, 0, bags, rows);
  if (mode == BagMode::kSum) return sums;
  const Tensor ones_of_rows = ones({rows.size(0)}, rows.dtype(), rows.device());
  const Tensor members = index_add(none.select(1, 0), 0, bags, ones_of_rows);
  return sums / clamp(members, 1).unsqueeze(1);
}

}  // namespace

Tensor embedding_bag(const Tensor& weight, const Tensor& indices,
                     const EmbeddingBagOptions& options) {
  const char* op = "embedding_bag";
  WICK_CHECK(weight.rank(op) == 2, op, ": weight needs 2 axes: got shape ", weight.shape());
  WICK_CHECK(indices.rank(op) == 2 || (indices.rank() == 1 && options.offsets.defined()), op,
             ": indices need 2 axes, or one and offsets: got shape ", indices.shape());
  WICK_CHECK(indices.rank() == 1 || !options.offsets.defined(), op,
             ": offsets are for a vector of indices: got shape ", indices.shape());
  const Tensor& counts = options.per_sample_weights;
  WICK_CHECK(!counts.defined() || options.mode == BagMode::kSum, op,
             ": per_sample_weights are for sums");
  WICK_CHECK(!counts.defined() || counts.shape() == indices.shape(), op,
             ": per_sample_weights have the wrong shape: got ", counts.shape(), ", expected ",
             indices.shape());
  Tensor starts;
  int64_t bags = indices.size(0);
  if (indices.rank() == 1) {
    starts = options.offsets.to(kInt64).contiguous();
    check_offsets(starts, indices.numel(), options.include_last_offset);
    bags = starts.size(0) - (options.include_last_offset ? 1 : 0);
    starts = starts.narrow(0, 0, bags);
  }
  const Tensor flat = indices.reshape({-1});
  Tensor of_bag = bags_of(indices, starts);
  if (options.padding_idx) {  // into a bag of their own, which is left out
    const int64_t padding =
        *options.padding_idx < 0 ? *options.padding_idx + weight.size(0) : *options.padding_idx;
    of_bag = masked_fill(of_bag, eq(flat, padding), bags);
  }
  WICK_CHECK(!options.scale_grad_by_freq || options.mode != BagMode::kMax, op,
             ": scale_grad_by_freq is for sums and means: got mode max");
  Tensor rows = embedding(weight, flat, options.padding_idx);
  if (options.scale_grad_by_freq) rows = scale_grad_by_freq(rows, flat, weight.size(0));
  return computed_wide({rows, counts}, [&](const std::vector<Tensor>& in) {
    const Tensor counted =
        in[1].defined() ? in[0] * in[1].reshape({-1, 1}).to(in[0].dtype()) : in[0];
    return reduced_rows(counted, of_bag, bags + 1, options.mode).narrow(0, 0, bags);
  });
}

void embedding_renorm_(const Tensor& weight, const Tensor& index, double max_norm,
                       double norm_type) {
  check_defined("embedding_renorm_", weight, index);
  const NoGrad no_grad;
  const Tensor flat = index.reshape({-1}).to(kInt64);
  const Tensor rows = wide(index_select(weight.detach(), 0, flat));
  const Tensor norms = norm(rows, norm_type, {1}, true);
  const Tensor factor = where(gt(norms, max_norm), max_norm / (norms + 1e-7), ones_like(norms));
  weight.copy_(index_copy(weight.detach(), 0, flat, (rows * factor).to(weight.dtype())));
}

Tensor scale_grad_by_freq(const Tensor& rows, const Tensor& index, int64_t count) {
  check_defined("scale_grad_by_freq", rows, index);
  const Tensor flat = index.reshape({-1}).to(kInt64);
  const Dtype dtype = accumulator_dtype(rows.dtype());
  const Tensor times = index_add(zeros({count}, dtype, rows.device()), 0, flat,
                                 ones({flat.numel()}, dtype, rows.device()));
  const Tensor factor = reciprocal(index_select(times, 0, flat));
  return apply(ScaleGradient{}, rows, factor.reshape(index.shape()).unsqueeze(-1));
}

}  // namespace wick
