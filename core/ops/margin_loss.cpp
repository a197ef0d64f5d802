#include "wick/core/ops/margin_loss.h"

#include <cmath>

#include "wick/core/ops/activation.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/detail/wide.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/index.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/sort.h"

namespace wick {

namespace {

constexpr double kPi = 3.14159265358979324;

// Of inputs of a loss: floating, and of shapes that broadcast.
void check_floats(const char* op, const Tensor& x) {
  WICK_CHECK(is_floating(x.dtype(op)), op, ": needs a floating dtype: got ", x.dtype());
}
void check_same(const char* op, const Tensor& x, const Tensor& target) {
  check_floats(op, x);
  WICK_CHECK(x.shape() == target.shape(op), op, ": target has the wrong shape: got ",
             target.shape(), ", expected ", x.shape());
}
// x of [N, C] or [C] as rows, and whether it was one.
std::pair<Tensor, bool> class_rows(const char* op, const Tensor& x) {
  WICK_CHECK(x.rank(op) == 1 || x.rank() == 2, op, ": wrong number of axes: got shape ", x.shape(),
             ", expected [N, C] or [C]");
  return {x.rank() == 1 ? x.unsqueeze(0) : x, x.rank() == 1};
}

Tensor above_zero(const Tensor& x) { return clamp(x, 0); }

}  // namespace

Tensor detail::reduced_loss(const Tensor& loss, LossReduction reduction) {
  if (reduction == LossReduction::kNone) return loss;
  if (reduction == LossReduction::kMean) return mean(loss);
  if (reduction == LossReduction::kSum || loss.rank() == 0) return sum(loss);
  return sum(loss) / static_cast<double>(loss.size(0));
}

Tensor poisson_nll_loss(const Tensor& x, const Tensor& target, bool log_input, bool full,
                        double eps, LossReduction reduction) {
  check_defined("poisson_nll_loss", x, target);
  check_floats("poisson_nll_loss", x);
  return computed_wide({x, target}, [&](const std::vector<Tensor>& in) {
    const Tensor &a = in[0], &t = in[1];
    Tensor loss = log_input ? exp(a) - t * a : a - t * log(a + eps);
    if (full) {
      const Tensor stirling = t * log(t) - t + log(t * (2 * kPi)) * 0.5;
      loss = loss + masked_fill(stirling, le(t, 1), 0);
    }
    return detail::reduced_loss(loss, reduction);
  });
}

Tensor gaussian_nll_loss(const Tensor& x, const Tensor& target, const Tensor& var, bool full,
                         double eps, LossReduction reduction) {
  check_defined("gaussian_nll_loss", x, target, var);
  const char* op = "gaussian_nll_loss";
  check_floats(op, x);
  Tensor v = var;
  if (var.rank(op) + 1 == x.rank()) v = var.unsqueeze(-1);
  broadcast_shapes(op, x.shape(), v.shape());
  WICK_CHECK(v.numel() == 0 || !any(lt(v.detach(), 0)).item<bool>(), op,
             ": var: got a negative number, expected 0 or more");
  return computed_wide({x, target, v}, [&](const std::vector<Tensor>& in) {
    // Kept above eps without a change to its gradient, as PyTorch.
    const Tensor kept = in[2] + (clamp(in[2].detach(), eps) - in[2].detach());
    Tensor loss = (log(kept) + square(in[0] - in[1]) / kept) * 0.5;
    if (full) loss = loss + 0.5 * std::log(2 * kPi);
    return detail::reduced_loss(loss, reduction);
  });
}

Tensor margin_ranking_loss(const Tensor& x1, const Tensor& x2, const Tensor& target, double margin,
                           LossReduction reduction) {
  check_defined("margin_ranking_loss", x1, x2, target);
  check_floats("margin_ranking_loss", x1);
  return computed_wide({x1, x2, target}, [&](const std::vector<Tensor>& in) {
    return detail::reduced_loss(above_zero(margin - in[2] * (in[0] - in[1])), reduction);
  });
}

Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, double margin,
                            LossReduction reduction) {
  check_defined("hinge_embedding_loss", x, target);
  check_floats("hinge_embedding_loss", x);
  return computed_wide({x, target}, [&](const std::vector<Tensor>& in) {
    const Tensor alike = masked_fill(in[0], eq(in[1], -1), 0);
    const Tensor unlike = masked_fill(above_zero(margin - in[0]), eq(in[1], 1), 0);
    return detail::reduced_loss(alike + unlike, reduction);
  });
}

Tensor cosine_embedding_loss(const Tensor& x1, const Tensor& x2, const Tensor& target,
                             double margin, LossReduction reduction) {
  const char* op = "cosine_embedding_loss";
  check_floats(op, x1);
  WICK_CHECK(target.rank(op) + 1 == x1.rank() && x1.rank() == x2.rank(op), op,
             ": wrong number of axes: got ", x1.shape(), ", ", x2.shape(), " and ", target.shape(),
             ", expected [N, D], [N, D] and [N], or vectors and a number");
  Shape rows = broadcast_shapes(op, x1.shape(), x2.shape());
  rows.erase(rows.rank() - 1);
  broadcast_shapes(op, rows, target.shape());
  return computed_wide({x1, x2, target}, [&](const std::vector<Tensor>& in) {
    constexpr double kEps = 1e-12;
    const Tensor lengths = (square(in[0]).sum({-1}) + kEps) * (square(in[1]).sum({-1}) + kEps);
    const Tensor cosine = (in[0] * in[1]).sum({-1}) / sqrt(lengths);
    const Tensor alike = masked_fill(1 - cosine, ne(in[2], 1), 0);
    const Tensor unlike = masked_fill(above_zero(cosine - margin), ne(in[2], -1), 0);
    return detail::reduced_loss(alike + unlike, reduction);
  });
}

Tensor pairwise_distance(const Tensor& x, const Tensor& y, double p, double eps, bool keepdim) {
  check_defined("pairwise_distance", x, y);
  check_floats("pairwise_distance", x);
  return computed_wide({x, y}, [&](const std::vector<Tensor>& in) {
    return norm(in[0] - in[1] + eps, p, {-1}, keepdim);
  });
}

namespace {
template <class Distance>
Tensor triplet_loss(const char* op, const Tensor& anchor, const Tensor& positive,
                    const Tensor& negative, const Distance& distance, double margin, bool swap,
                    LossReduction reduction) {
  check_floats(op, anchor);
  WICK_CHECK(margin > 0, op, ": margin: got ", margin, ", expected more than 0");
  WICK_CHECK(anchor.rank() == positive.rank(op) && anchor.rank() == negative.rank(op), op,
             ": numbers of axes differ: got ", anchor.shape(), ", ", positive.shape(), " and ",
             negative.shape());
  return computed_wide({anchor, positive, negative}, [&](const std::vector<Tensor>& in) {
    const Tensor near = distance(in[0], in[1]);
    Tensor far = distance(in[0], in[2]);
    if (swap) far = minimum(far, distance(in[1], in[2]));
    return detail::reduced_loss(above_zero(near - far + margin), reduction);
  });
}
}  // namespace

Tensor triplet_margin_with_distance_loss(
    const Tensor& anchor, const Tensor& positive, const Tensor& negative,
    const std::function<Tensor(const Tensor&, const Tensor&)>& distance, double margin, bool swap,
    LossReduction reduction) {
  return triplet_loss("triplet_margin_with_distance_loss", anchor, positive, negative, distance,
                      margin, swap, reduction);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           double margin, double p, double eps, bool swap,
                           LossReduction reduction) {
  const auto distance = [&](const Tensor& a, const Tensor& b) {
    return pairwise_distance(a, b, p, eps);
  };
  return triplet_loss("triplet_margin_loss", anchor, positive, negative, distance, margin, swap,
                      reduction);
}

Tensor soft_margin_loss(const Tensor& x, const Tensor& target, LossReduction reduction) {
  check_same("soft_margin_loss", x, target);
  return computed_wide({x, target}, [&](const std::vector<Tensor>& in) {
    return detail::reduced_loss(-logsigmoid(in[0] * in[1]), reduction);
  });
}

Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& target, const Tensor& weight,
                                   LossReduction reduction) {
  check_same("multilabel_soft_margin_loss", x, target);
  return computed_wide({x, target, weight}, [&](const std::vector<Tensor>& in) {
    const Tensor &a = in[0], &t = in[1];
    Tensor loss = -(t * logsigmoid(a) + (1 - t) * logsigmoid(-a));
    if (in[2].defined()) loss = loss * in[2];
    return detail::reduced_loss(mean(loss, {-1}), reduction);
  });
}

Tensor multi_margin_loss(const Tensor& x, const Tensor& target, int64_t p, double margin,
                         const Tensor& weight, LossReduction reduction) {
  const char* op = "multi_margin_loss";
  check_floats(op, x);
  WICK_CHECK(p == 1 || p == 2, op, ": p: got ", p, ", expected 1 or 2");
  const auto [given, single] = class_rows(op, x);
  const Tensor rows = given;
  const bool is_one = single;
  WICK_CHECK(target.numel() == rows.size(0) && target.rank() <= 1, op,
             ": target has the wrong shape: got ", target.shape(), ", expected [", rows.size(0),
             "]");
  const Tensor classes = target.reshape({rows.size(0), 1});
  return computed_wide({rows, weight}, [&](const std::vector<Tensor>& in) {
    Tensor terms = above_zero(margin - gather(in[0], 1, classes) + in[0]);
    if (p == 2) terms = square(terms);
    if (in[1].defined()) terms = terms * index_select(in[1], 0, classes.squeeze(1)).unsqueeze(1);
    const Tensor own = one_hot(classes.squeeze(1), rows.size(1)).to(kBool);
    const Tensor loss = mean(masked_fill(terms, own, 0), {1});
    return detail::reduced_loss(is_one ? loss.squeeze(0) : loss, reduction);
  });
}

Tensor multilabel_margin_loss(const Tensor& x, const Tensor& target, LossReduction reduction) {
  const char* op = "multilabel_margin_loss";
  check_same(op, x, target);
  const auto [given, single] = class_rows(op, x);
  const Tensor rows = given;
  const bool is_one = single;
  const Tensor t = target.reshape(rows.shape()).to(kInt64);
  // Targets behind the first -1 count for nothing: they are pointed at class 0, and left out.
  const Tensor ended = gt(cumsum(lt(t, 0).to(kInt64), 1), 0);
  const Tensor classes = masked_fill(t, ended, 0);
  const Tensor counts = logical_not(ended).to(kInt64);
  const Tensor is_target = gt(scatter_add(zeros_like(t), 1, classes, counts), 0);
  const Tensor unwanted = ended.unsqueeze(2) | is_target.unsqueeze(1);  // [N, target, class]
  return computed_wide({rows}, [&](const std::vector<Tensor>& in) {
    const Tensor own = gather(in[0], 1, classes).unsqueeze(2);
    const Tensor terms = above_zero(1 - (own - in[0].unsqueeze(1)));
    const Tensor loss =
        sum(masked_fill(terms, unwanted, 0), {1, 2}) / static_cast<double>(rows.size(1));
    return detail::reduced_loss(is_one ? loss.squeeze(0) : loss, reduction);
  });
}

}  // namespace wick
