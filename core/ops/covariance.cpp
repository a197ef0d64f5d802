#include "wick/core/ops/covariance.h"

#include "wick/core/ops/activation.h"
#include "wick/core/ops/detail/reduce_axes.h"
#include "wick/core/ops/detail/wide.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/slice.h"

namespace wick {

namespace {

// Of in[0], rows, with in[1] and in[2] as counts and weights.
Tensor covariances(const std::vector<Tensor>& in, int64_t correction) {
  const Tensor rows = in[0].rank() < 2 ? in[0].reshape({1, in[0].numel()}) : in[0];
  Tensor w = in[1].defined() ? in[1].to(rows.dtype()) : Tensor();
  if (in[2].defined()) w = w.defined() ? w * in[2] : in[2];
  const auto n = static_cast<double>(rows.size(1));
  const Tensor total = w.defined() ? sum(w) : full({}, n, rows.dtype(), rows.device());
  const Tensor mean = w.defined() ? (rows * w).sum({1}, true) / total : wick::mean(rows, {1}, true);
  Tensor divisor = total;
  if (in[2].defined()) {
    if (correction != 0) divisor = total - sum(w * in[2]) / total * correction;
  } else {
    divisor = total - correction;
  }
  const Tensor centered = rows - mean;
  const Tensor weighted = w.defined() ? centered * w : centered;
  return matmul(centered, weighted.transpose(0, 1)) / relu(divisor);
}

void check(const char* op, const Tensor& x) {
  check_floating(op, x);
  WICK_CHECK(x.rank() <= 2, op, ": too many axes: got shape ", x.shape(),
             ", expected [variables, observations]");
}
void check_weights(const Tensor& x, const Tensor& w, const char* what) {
  WICK_CHECK(!w.defined() || (w.rank() == 1 && w.size(0) == x.size(-1)), "cov: ", what,
             ": got shape ", w.shape(), ", expected one for each of ", x.size(-1), " observations");
}

}  // namespace

Tensor cov(const Tensor& x, int64_t correction, const Tensor& counts, const Tensor& weights) {
  check("cov", x);
  check_weights(x, counts, "counts");
  check_weights(x, weights, "weights");
  return computed_wide({x, counts, weights}, [&](const std::vector<Tensor>& in) {
    return covariances(in, correction).squeeze();
  });
}

Tensor corrcoef(const Tensor& x) {
  check("corrcoef", x);
  return computed_wide({x}, [&](const std::vector<Tensor>& in) {
    const Tensor c = covariances({in[0], {}, {}}, 1);
    const Tensor deviation = sqrt(diagonal(c));
    const Tensor r = c / deviation.unsqueeze(1) / deviation.unsqueeze(0);
    return clamp(r, -1, 1).squeeze();
  });
}

}  // namespace wick
