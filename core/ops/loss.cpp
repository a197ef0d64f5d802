#include "wick/core/ops/loss.h"

#include <limits>

#include "wick/core/apply.h"
#include "wick/core/ops/activation.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/detail/wide.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/reduce.h"

// Losses of single elements: ops made of elementwise ones, so that autocast and the profiler see
// them by name and only their inputs are kept.
namespace wick {

namespace {

constexpr AutocastPolicy kLossAutocast{.cuda = Autocast::kToFloat32, .cpu = Autocast::kToFloat32};

// Gradients for a loss of x - target.
Gradients of_difference(const Saved& saved, const Tensor& dx) {
  Gradients grads(2);
  if (saved.needs(0)) grads[0] = dx;
  if (saved.needs(1)) grads[1] = -dx;
  return grads;
}

struct MseLoss {
  static constexpr OpInfo info{.name = "mse_loss", .autocast = kLossAutocast, .broadcasts = true};

  Tensor forward(Saved& saved, const Tensor& x, const Tensor& target) const {
    saved.save(x, target);
    return square(x - target);
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    return of_difference(saved, (saved[0] - saved[1]) * (dy * 2));
  }
};

struct L1Loss {
  static constexpr OpInfo info{.name = "l1_loss", .autocast = kLossAutocast, .broadcasts = true};

  Tensor forward(Saved& saved, const Tensor& x, const Tensor& target) const {
    saved.save(x, target);
    return abs(x - target);
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    return of_difference(saved, sign(saved[0] - saved[1]) * dy);
  }
};

// scale * (d^2 / (2 bound) below bound, else d - bound / 2): smooth L1 with scale 1, Huber with
// scale = bound.
struct HuberLoss {
  static constexpr OpInfo info{.name = "huber_loss", .autocast = kLossAutocast, .broadcasts = true};
  double bound, scale;
  static constexpr auto fields =
      std::tuple{field("bound", &HuberLoss::bound), field("scale", &HuberLoss::scale)};

  Tensor forward(Saved& saved, const Tensor& x, const Tensor& target) const {
    saved.save(x, target);
    const Tensor d = abs(x - target);
    return where(lt(d, bound), square(d) * (scale / (2 * bound)), (d - bound / 2) * scale);
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    const Tensor slope = clamp((saved[0] - saved[1]) * (1 / bound), -1, 1);
    return of_difference(saved, slope * (dy * scale));
  }
};

struct BinaryCrossEntropy {
  static constexpr OpInfo info{
      .name = "binary_cross_entropy",
      .autocast = {.cuda = Autocast::kBanned,
                   .cpu = Autocast::kToFloat32,
                   .alternative = "binary_cross_entropy_with_logits, which includes the sigmoid"}};

  Tensor forward(Saved& saved, const Tensor& x, const Tensor& target) const {
    saved.save(x, target);
    return -(target * log_of(x) + (1 - target) * log_of_rest(x));
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    const Tensor x = saved[0], target = saved[1];
    Gradients grads(2);
    if (saved.needs(0)) grads[0] = dy * (x - target) / clamp((1 - x) * x, 1e-12);
    if (saved.needs(1)) grads[1] = dy * (log_of_rest(x) - log_of(x));
    return grads;
  }

 private:
  static Tensor log_of(const Tensor& x) { return clamp(log(x), -100); }
  static Tensor log_of_rest(const Tensor& x) { return clamp(log1p(-x), -100); }
};

// (1 - target) x + (1 + (pos_weight - 1) target) log(1 + exp(-x)); pos_weight may be undefined.
struct BinaryCrossEntropyWithLogits {
  static constexpr OpInfo info{
      .name = "binary_cross_entropy_with_logits", .autocast = kLossAutocast, .broadcasts = true};

  Tensor forward(Saved& saved, const Tensor& x, const Tensor& target,
                 const Tensor& pos_weight) const {
    saved.save(x, target, pos_weight);
    return (1 - target) * x + positive(target, pos_weight) * log_rest(x);
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    const Tensor x = saved[0], target = saved[1], pos_weight = saved[2];
    Gradients grads(3);
    if (saved.needs(0)) {
      grads[0] = dy * ((1 - target) - positive(target, pos_weight) * sigmoid(-x));
    }
    if (saved.needs(1)) {
      grads[1] = dy * ((pos_weight.defined() ? (pos_weight - 1) * log_rest(x) - x : -x));
    }
    if (saved.needs(2)) grads[2] = dy * target * log_rest(x);
    return grads;
  }

 private:
  // log(1 + exp(-x)), which never overflows.
  static Tensor log_rest(const Tensor& x) { return softplus(-x, 1, 40); }
  static Tensor positive(const Tensor& target, const Tensor& pos_weight) {
    return pos_weight.defined() ? (pos_weight - 1) * target + 1 : ones_like(target);
  }
};

struct KlDiv {
  static constexpr OpInfo info{.name = "kl_div", .autocast = kLossAutocast};
  bool log_target;
  static constexpr auto fields = std::tuple{field("log_target", &KlDiv::log_target)};

  Tensor forward(Saved& saved, const Tensor& x, const Tensor& target) const {
    saved.save(x, target);
    if (log_target) return exp(target) * (target - x);
    return (target * log(target)).masked_fill(eq(target, 0), 0) - target * x;
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    const Tensor x = saved[0], target = saved[1];
    const Tensor p = log_target ? exp(target) : target;
    Gradients grads(2);
    if (saved.needs(0)) grads[0] = -(dy * p);
    if (saved.needs(1)) {
      grads[1] = log_target ? dy * p * (target - x + 1) : dy * (log(target) + 1 - x);
    }
    return grads;
  }
};

void check_dtype(const char* op, const Tensor& x) {
  WICK_CHECK(is_floating(x.dtype(op)), op, ": needs a floating dtype: got ", to_string(x.dtype()));
}

// For losses whose target broadcasts with x.
void check_pair(const char* op, const Tensor& x, const Tensor& target) {
  check_dtype(op, x);
  broadcast_shapes(op, x.shape(op), target.shape(op));
}

// For the others.
void check_inputs(const char* op, const Tensor& x, const Tensor& target) {
  check_dtype(op, x);
  WICK_CHECK(target.shape(op) == x.shape(op), op, ": target has the wrong shape: got ",
             target.shape(), ", expected ", x.shape());
}

Tensor reduce_loss(const Tensor& loss, LossReduction reduction) {
  switch (reduction) {
    case LossReduction::kNone: return loss;
    case LossReduction::kSum: return sum(loss);
    case LossReduction::kBatchMean:
      return loss.rank() == 0 ? loss : sum(loss) / static_cast<double>(loss.size(0));
    case LossReduction::kMean: break;
  }
  return mean(loss);
}

// The losses that `op` gives of `given` (x, target, ...), weighted and reduced: 16-bit ones in
// float32 throughout.
template <class Op>
Tensor loss_of(const Op& op, const std::vector<Tensor>& given, const Tensor& weight,
               LossReduction reduction) {
  std::vector<Tensor> storage;
  const std::span<const Tensor> cast = amp::cast_inputs(Op::info, given, storage);
  const Tensor &x = cast[0], &target = cast[1];
  WICK_CHECK(target.dtype() == x.dtype(), Op::info.name, ": target has the wrong dtype: got ",
             to_string(target.dtype()), ", expected ", to_string(x.dtype()));
  std::vector<Tensor> inputs(cast.begin(), cast.end());
  inputs.push_back(weight);
  return computed_wide(std::move(inputs), [&](const std::vector<Tensor>& in) {
    const Tensor loss = apply(op, std::span(in).first(in.size() - 1));
    return reduce_loss(in.back().defined() ? loss * in.back() : loss, reduction);
  });
}

}  // namespace

Tensor mse_loss(const Tensor& x, const Tensor& target, LossReduction reduction) {
  check_pair("mse_loss", x, target);
  return loss_of(MseLoss{}, {x, target}, {}, reduction);
}

Tensor l1_loss(const Tensor& x, const Tensor& target, LossReduction reduction) {
  check_pair("l1_loss", x, target);
  return loss_of(L1Loss{}, {x, target}, {}, reduction);
}

Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, double beta, LossReduction reduction) {
  check_pair("smooth_l1_loss", x, target);
  WICK_CHECK(beta >= 0, "smooth_l1_loss: beta: got ", beta, ", expected 0 or more");
  if (beta == 0) return loss_of(L1Loss{}, {x, target}, {}, reduction);
  return loss_of(HuberLoss{beta, 1}, {x, target}, {}, reduction);
}

Tensor huber_loss(const Tensor& x, const Tensor& target, double delta, LossReduction reduction) {
  check_pair("huber_loss", x, target);
  WICK_CHECK(delta > 0, "huber_loss: delta: got ", delta, ", expected more than 0");
  return loss_of(HuberLoss{delta, delta}, {x, target}, {}, reduction);
}

Tensor binary_cross_entropy(const Tensor& x, const Tensor& target, const Tensor& weight,
                            LossReduction reduction) {
  check_inputs("binary_cross_entropy", x, target);
  return loss_of(BinaryCrossEntropy{}, {x, target}, weight, reduction);
}

Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target, const Tensor& weight,
                                        const Tensor& pos_weight, LossReduction reduction) {
  check_inputs("binary_cross_entropy_with_logits", x, target);
  return loss_of(BinaryCrossEntropyWithLogits{}, {x, target, pos_weight}, weight, reduction);
}

Tensor kl_div(const Tensor& x, const Tensor& target, bool log_target, LossReduction reduction) {
  check_inputs("kl_div", x, target);
  return loss_of(KlDiv{log_target}, {x, target}, {}, reduction);
}

}  // namespace wick
