#include "wick/core/apply.h"
#include "wick/core/memory/detail/workspace.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/detail/composed_gradient.h"
#include "wick/core/ops/detail/norm_views.h"
#include "wick/core/ops/detail/wide.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/index.h"
#include "wick/core/ops/loss.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/softmax.h"
#include "wick/kernels/loss.h"

namespace wick {

namespace {

constexpr AutocastPolicy kLossAutocast{.cuda = Autocast::kToFloat32, .cpu = Autocast::kToFloat32};

// What cross entropy and nll_loss of rows have in common.
struct RowLoss {
  int64_t ignore_index;
  double smoothing;
  bool is_log;
  LossReduction reduction;
};

CrossEntropyRows views_of(const RowLoss& loss, const Tensor& x, const Tensor& target,
                          const Tensor& weight, const Tensor& lse) {
  WICK_CHECK(!loss.is_log || loss.smoothing == 0, "nll_loss: has no label smoothing: got ",
             loss.smoothing);
  constexpr const char* op = "cross_entropy";
  WICK_CHECK(x.rank(op) == 2 && is_floating(x.dtype()), op, ": wrong rows: got ", x.dtype(),
             x.shape(), ", expected floating [rows, classes]");
  WICK_CHECK(
      target.dtype(op) == kInt64 && target.shape() == Shape{x.size(0)} && target.is_contiguous(),
      op, ": wrong targets: got ", target.dtype(), target.shape(), ", expected contiguous int64 [",
      x.size(0), "]");
  check_parameter(op, "weight", {x.size(1)}, weight);
  check_statistic(op, "lse", {x.size(0)}, lse);
  CrossEntropyRows rows;
  rows.x = view_of(x);
  rows.target = view_of(target);
  rows.weight = view_of(weight);
  rows.lse = view_of(lse);
  rows.ignore_index = loss.ignore_index;
  rows.smoothing = loss.smoothing;
  rows.is_log = loss.is_log;
  return rows;
}

// The same losses made of other ops, for second derivatives.
Tensor composed(const RowLoss& loss, const Tensor& x, const Tensor& target, const Tensor& weight) {
  const int64_t classes = x.size(1);
  const Tensor log_p = loss.is_log ? x : log_softmax(x, 1);
  const Tensor counts = ne(target, loss.ignore_index);
  const Tensor index = target.masked_fill(logical_not(counts), 0);
  Tensor row_weight = counts.to(x.dtype());
  if (weight.defined()) row_weight = row_weight * index_select(weight.to(x.dtype()), 0, index);
  Tensor result = -(gather(log_p, 1, index.unsqueeze(1)).squeeze(1) * row_weight);
  if (loss.smoothing > 0) {
    const Tensor weighted = weight.defined() ? log_p * weight.to(x.dtype()) : log_p;
    const double share = loss.smoothing / static_cast<double>(classes);
    result = result * (1 - loss.smoothing) - sum(weighted, {1}) * counts.to(x.dtype()) * share;
  }
  if (loss.reduction == LossReduction::kNone) return result;
  if (loss.reduction == LossReduction::kSum) return sum(result);
  // Where no row counts, gradients are 0, as those of the kernel: not 0 / 0.
  return sum(result) / sum(row_weight).masked_fill(logical_not(any(counts)), 1);
}

[[noreturn]] void refuse_target(const char* op, const Tensor& target, int64_t row,
                                int64_t classes) {
  detail::fail(op, ": target out of range: got class ", target.data<int64_t>()[row],
               " at position ", row, ", expected 0 to ", classes - 1);
}

// In place: dx takes the memory of x, unless that is not row-major.
template <bool kInPlace>
struct CrossEntropyBackward {
  static constexpr OpInfo info{.name = "cross_entropy_backward",
                               .mutates = kInPlace ? 1u << 1 : 0,
                               .differentiable = false,
                               .is_gradient = true};
  int64_t ignore_index;
  double smoothing;
  bool is_log;
  static constexpr auto fields =
      std::tuple{field("ignore_index", &CrossEntropyBackward::ignore_index),
                 field("smoothing", &CrossEntropyBackward::smoothing),
                 field("is_log", &CrossEntropyBackward::is_log)};

  // dy: one per row, or one for all.
  Tensor forward(Saved&, const Tensor& dy, const Tensor& x, const Tensor& target,
                 const Tensor& weight, const Tensor& lse) const {
    const Tensor in = x.contiguous(), scale = as_parameter(x, weight);
    const Tensor gradient = dy.to(accumulator_dtype(x.dtype())).contiguous();
    const Tensor dx = kInPlace ? in.detach() : empty(x.shape(), x.dtype(), x.device());
    if (dx.numel() == 0) return dx;
    CrossEntropyRows rows = views_of({ignore_index, smoothing, is_log, {}}, in, target, scale, lse);
    WICK_CHECK(gradient.numel() == 1 || gradient.shape() == Shape{x.size(0)}, info.name,
               ": dy has the wrong shape: got ", dy.shape(), ", expected one number or one a row");
    if (x.device().is_cpu()) check_targets(target, x.size(1));
    rows.dy = view_of(gradient);
    rows.dx = view_of(dx);
    AllocatorWorkspace workspace(x.device());
    WICK_DISPATCH(x.device(), cross_entropy_backward(rows, workspace));
    return dx;
  }

 private:
  // The forward pass did, of a graph that nobody changed.
  void check_targets(const Tensor& target, int64_t classes) const {
    const int64_t* const data = target.data<int64_t>();
    for (int64_t row = 0; row < target.size(0); ++row) {
      const bool is_class = data[row] >= 0 && data[row] < classes;
      if (!is_class && data[row] != ignore_index) refuse_target(info.name, target, row, classes);
    }
  }
};

// x [rows, classes], target int64 [rows], weight [classes] or undefined.
template <bool kIsLog>
struct CrossEntropy {
  static constexpr OpInfo info{.name = kIsLog ? "nll_loss" : "cross_entropy",
                               .autocast = kLossAutocast};
  int64_t ignore_index;
  double smoothing;
  LossReduction reduction;
  bool in_place;
  static constexpr auto fields = std::tuple{field("ignore_index", &CrossEntropy::ignore_index),
                                            field("smoothing", &CrossEntropy::smoothing),
                                            field("reduction", &CrossEntropy::reduction),
                                            field("in_place", &CrossEntropy::in_place)};

  RowLoss row_loss() const { return {ignore_index, smoothing, kIsLog, reduction}; }

  Tensor forward(Saved& saved, const Tensor& x, const Tensor& target, const Tensor& weight) const {
    const Tensor in = x.contiguous(), scale = as_parameter(x, weight);
    const Tensor loss = empty({x.size(0)}, accumulator_dtype(x.dtype()), x.device());
    const Tensor lse = empty({x.size(0)}, kFloat64, x.device());
    const Tensor totals = empty({4}, kFloat64, x.device());
    CrossEntropyRows rows = views_of(row_loss(), in, target, scale, lse);
    rows.loss = view_of(loss);
    rows.totals = view_of(totals);
    AllocatorWorkspace workspace(x.device());
    WICK_DISPATCH(x.device(), cross_entropy_forward(rows, workspace));
    // On a GPU the kernel checks them.
    const double first_bad = x.device().is_cpu() ? totals.data<double>()[3] : -1;
    if (first_bad >= 0) {
      refuse_target(info.name, target, static_cast<int64_t>(first_bad), x.size(1));
    }
    saved.save(x, target, weight, lse, totals);
    if (reduction == LossReduction::kNone) return loss.to(x.dtype());
    return totals.select(0, reduction == LossReduction::kSum ? 0 : 2).to(x.dtype());
  }

  Gradients backward(const Saved& saved, const Tensor& dy) const {
    if (grad_enabled()) {
      Gradients grads = composed_gradients(saved, {saved[0]}, dy, [&](const auto& in) {
        return composed(row_loss(), in[0], saved[1], saved[2]);
      });
      grads.resize(3);
      return grads;
    }
    const Tensor weights = saved[4].select(0, 1);
    const Tensor each = reduction == LossReduction::kMean ? dy.to(kFloat64) / weights : dy;
    const auto gradient = [&](const auto& op) {
      return apply(op, each, saved[0], saved[1], saved[2], saved[3]);
    };
    Gradients grads(3);
    grads[0] = in_place ? gradient(CrossEntropyBackward<true>{ignore_index, smoothing, kIsLog})
                        : gradient(CrossEntropyBackward<false>{ignore_index, smoothing, kIsLog});
    return grads;
  }
};

// x with the classes last, as rows.
Tensor rows_of_classes(const Tensor& x) {
  if (x.rank() == 1) return x.unsqueeze(0);
  if (x.rank() == 2) return x;
  Shape order{0};
  for (int axis = 2; axis < x.rank(); ++axis) order.push_back(axis);
  order.push_back(1);
  return x.permute(order).reshape({-1, x.size(1)});
}

// The shape of x without the classes.
Shape without_classes(const Tensor& x) {
  Shape shape = x.shape();
  shape.erase(x.rank() == 1 ? 0 : 1);
  return shape;
}

void check_inputs(const char* op, const Tensor& x, const Tensor& weight, LossReduction reduction) {
  WICK_CHECK(is_floating(x.dtype(op)), op, ": needs a floating dtype: got ", to_string(x.dtype()));
  WICK_CHECK(x.rank() >= 1, op, ": needs [C], [N, C] or [N, C, ...]: got shape ", x.shape());
  WICK_CHECK(x.rank() == 1 || x.size(1) > 0, op, ": needs at least one class: got shape ",
             x.shape());
  WICK_CHECK(reduction != LossReduction::kBatchMean, op, ": has no reduction batchmean");
  check_parameter(op, "weight", {x.size(x.rank() == 1 ? 0 : 1)}, weight);
}

template <bool kIsLog>
Tensor of_indices(const char* op, const Tensor& x, const Tensor& target,
                  const CrossEntropyOptions& options) {
  const Shape shape = without_classes(x);
  WICK_CHECK(target.shape(op) == shape, op, ": target has the wrong shape: got ", target.shape(),
             " for x of shape ", x.shape(), ", expected ", shape);
  WICK_CHECK(!is_floating(target.dtype()) && target.dtype() != kBool, op,
             ": target needs class indices: got dtype ", to_string(target.dtype()));
  WICK_CHECK(!(grad_enabled() && options.weight.defined() && options.weight.requires_grad()), op,
             ": weight takes no gradient: detach it");
  WICK_CHECK(!(options.in_place && grad_enabled() && x.requires_grad() && x.is_leaf()), op,
             ": in_place would put the gradient into a leaf: give it what an operation made");
  const Tensor rows = rows_of_classes(x);
  const Tensor index = target.to(kInt64).reshape({rows.size(0)}).contiguous();
  const Tensor loss = apply(CrossEntropy<kIsLog>{options.ignore_index, options.label_smoothing,
                                                 options.reduction, options.in_place},
                            rows, index, options.weight);
  return options.reduction == LossReduction::kNone ? loss.reshape(shape) : loss;
}

// The loss of each row, of probabilities p.
struct SoftCrossEntropy {
  static constexpr OpInfo info{.name = "soft_cross_entropy", .autocast = kLossAutocast};

  Tensor forward(Saved& saved, const Tensor& x, const Tensor& p) const {
    saved.save(x, p);
    return -sum(p * log_softmax(x, 1), {1});
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    const Tensor x = saved[0], p = saved[1], each = dy.unsqueeze(1);
    Gradients grads(2);
    if (saved.needs(0)) {
      grads[0] = (each * (softmax(x, 1) * sum(p, {1}, true) - p)).to(x.dtype());
    }
    if (saved.needs(1)) grads[1] = (-(each * log_softmax(x, 1))).to(p.dtype());
    return grads;
  }
};

Tensor of_probabilities(const Tensor& x, const Tensor& target, const CrossEntropyOptions& options) {
  const std::array<Tensor, 2> given{x, target};
  std::vector<Tensor> cast;
  const std::span<const Tensor> inputs = amp::cast_inputs(SoftCrossEntropy::info, given, cast);
  return computed_wide({inputs[0], inputs[1]}, [&](const std::vector<Tensor>& in) {
    const Tensor rows = rows_of_classes(in[0]);
    Tensor p = rows_of_classes(in[1]);
    const double classes = static_cast<double>(rows.size(1));
    if (options.label_smoothing > 0) {
      p = p * (1 - options.label_smoothing) + options.label_smoothing / classes;
    }
    if (options.weight.defined()) p = p * options.weight.to(p.dtype());
    const Tensor loss = wick::apply(SoftCrossEntropy{}, rows, p);
    if (options.reduction == LossReduction::kNone) return loss.reshape(without_classes(x));
    const Tensor total = sum(loss);
    if (options.reduction == LossReduction::kSum) return total;
    return total / static_cast<double>(rows.size(0));
  });
}

}  // namespace

Tensor cross_entropy(const Tensor& x, const Tensor& target, const CrossEntropyOptions& options) {
  check_inputs("cross_entropy", x, options.weight, options.reduction);
  WICK_CHECK(options.label_smoothing >= 0 && options.label_smoothing <= 1,
             "cross_entropy: label_smoothing: got ", options.label_smoothing, ", expected 0 to 1");
  if (is_floating(target.dtype())) {
    WICK_CHECK(target.shape() == x.shape(),
               "cross_entropy: target has the wrong shape: got probabilities (", target.dtype(),
               ") of shape ", target.shape(), ", expected ", x.shape(),
               ", or class indices of shape ", without_classes(x));
    WICK_CHECK(options.ignore_index < 0, "cross_entropy: ignore_index is for class indices: got ",
               options.ignore_index, " with probabilities");
    return of_probabilities(x, target, options);
  }
  return of_indices<false>("cross_entropy", x, target, options);
}

Tensor nll_loss(const Tensor& x, const Tensor& target, const Tensor& weight, int64_t ignore_index,
                LossReduction reduction) {
  check_inputs("nll_loss", x, weight, reduction);
  return of_indices<true>("nll_loss", x, target,
                          {.weight = weight, .ignore_index = ignore_index, .reduction = reduction});
}

}  // namespace wick
