#include <algorithm>
#include <array>
#include <numeric>

#include "wick/core/apply.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/detail/wide.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/loss.h"
#include "wick/core/ops/reduce.h"
#include "wick/kernels/ctc.h"

namespace wick {

namespace {

struct CtcSettings {
  int64_t blank = 0;
  int64_t longest = 0;  // labels of a target
  bool zero_infinity = false;

  CtcPaths paths(const Tensor& log_probs, const Tensor& targets, const Tensor& lengths,
                 const Tensor& losses, const Tensor& alphas) const {
    return {log_probs.view_for_kernel(), targets.view_for_kernel(), lengths.view_for_kernel(),
            losses.view_for_kernel(),    alphas.view_for_kernel(),  blank};
  }
  // [N, 2 + T, states], as the kernels want them.
  Tensor empty_states(const Tensor& log_probs) const {
    return empty({log_probs.size(1), 2 + log_probs.size(0), 2 * longest + 1}, log_probs.dtype(),
                 log_probs.device());
  }
};

constexpr auto kCtcFields =
    std::tuple{field("blank", &CtcSettings::blank), field("longest", &CtcSettings::longest),
               field("zero_infinity", &CtcSettings::zero_infinity)};

// Error unless the settings, and lengths on the CPU, fit what the kernels read and write.
void check_settings(const CtcSettings& settings, const Tensor& log_probs, const Tensor& targets,
                    const Tensor& lengths) {
  WICK_CHECK(settings.blank >= 0 && settings.blank < log_probs.size(2), "ctc_loss: blank: got ",
             settings.blank, ", expected one of ", log_probs.size(2), " classes");
  WICK_CHECK(settings.longest >= 0 && settings.longest <= targets.numel(),
             "ctc_loss: longest target: got ", settings.longest, " labels, expected at most ",
             targets.numel());
  if (!lengths.device().is_cpu()) return;
  const int64_t samples = log_probs.size(1), steps = log_probs.size(0);
  const int64_t* const numbers = lengths.data<int64_t>();
  for (int64_t n = 0; n < samples; ++n) {
    const int64_t used = numbers[n], labels = numbers[samples + n],
                  first = numbers[2 * samples + n];
    WICK_CHECK(used >= 0 && used <= steps && labels >= 0 && labels <= settings.longest &&
                   first >= 0 && first <= targets.numel() - labels,
               "ctc_loss: lengths out of range: got ", used, " steps and ", labels, " labels from ",
               first, " on, expected at most ", steps, " and ", settings.longest);
  }
}

struct CtcLossBackward : CtcSettings {
  static constexpr OpInfo info{
      .name = "ctc_loss_backward", .differentiable = false, .is_gradient = true};
  static constexpr auto fields = kCtcFields;

  Tensor forward(Saved&, const Tensor& dy, const Tensor& log_probs, const Tensor& targets,
                 const Tensor& lengths, const Tensor& losses, const Tensor& alphas) const {
    check_settings(*this, log_probs, targets, lengths);
    const Tensor dx = empty(log_probs.shape(), log_probs.dtype(), log_probs.device());
    if (dx.numel() == 0) return dx;
    const Tensor dense_dy = dy.contiguous(), betas = empty_states(log_probs);
    WICK_DISPATCH(dx.device(), ctc_backward(paths(log_probs, targets, lengths, losses, alphas),
                                            dense_dy.view_for_kernel(), betas.view_for_kernel(),
                                            dx.view_for_kernel(), zero_infinity));
    return dx;
  }
};

// log_probs [T, N, C]; targets and lengths as in CtcPaths.
struct CtcLoss : CtcSettings {
  static constexpr OpInfo info{
      .name = "ctc_loss", .autocast = {.cuda = Autocast::kToFloat32, .cpu = Autocast::kToFloat32}};
  static constexpr auto fields = kCtcFields;

  Tensor forward(Saved& saved, const Tensor& log_probs, const Tensor& targets,
                 const Tensor& lengths) const {
    check_settings(*this, log_probs, targets, lengths);
    const Tensor x = log_probs.contiguous(), alphas = empty_states(x);
    const Tensor losses = empty({x.size(1)}, x.dtype(), x.device());
    if (x.size(1) > 0) {
      WICK_DISPATCH(x.device(), ctc_forward(paths(x, targets, lengths, losses, alphas)));
    }
    saved.save(x, targets, lengths, losses, alphas);
    if (!zero_infinity) return losses;
    return masked_fill(losses, isinf(losses), 0);
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    return {apply(CtcLossBackward{*this}, dy, saved[0], saved[1], saved[2], saved[3], saved[4]),
            {},
            {}};
  }
};

// Checks lengths and returns how long the longest is.
int64_t checked_lengths(const char* what, const std::vector<int64_t>& lengths, int64_t samples,
                        int64_t most) {
  WICK_CHECK(static_cast<int64_t>(lengths.size()) == samples, "ctc_loss: ", what, ": got ",
             lengths.size(), " of them, expected ", samples);
  int64_t longest = 0;
  for (const int64_t length : lengths) {
    WICK_CHECK(length >= 0 && length <= most, "ctc_loss: ", what, " out of range: got ", length,
               ", expected 0 to ", most);
    longest = std::max(longest, length);
  }
  return longest;
}

// On a GPU the kernel checks them.
void check_labels(const Tensor& targets, int64_t classes) {
  if (!targets.device().is_cpu()) return;
  const int64_t* labels = targets.data<int64_t>();
  for (int64_t i = 0; i < targets.numel(); ++i) {
    WICK_CHECK(labels[i] >= 0 && labels[i] < classes, "ctc_loss: target out of range: got ",
               labels[i], ", expected one in [0, ", classes - 1, "]");
  }
}

std::vector<int64_t> as_list(const Tensor& lengths) {
  return lengths.reshape({-1}).to(kInt64).to_vector<int64_t>();
}

}  // namespace

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets,
                const std::vector<int64_t>& input_lengths,
                const std::vector<int64_t>& target_lengths, const CtcOptions& options) {
  const char* op = "ctc_loss";
  WICK_CHECK(options.reduction != LossReduction::kBatchMean, op, ": has no reduction batchmean");
  if (log_probs.rank(op) == 2) {
    CtcOptions each = options;
    each.reduction = LossReduction::kNone;
    const Tensor loss = ctc_loss(log_probs.unsqueeze(1), targets.reshape({-1}), input_lengths,
                                 target_lengths, each);
    const auto labels = static_cast<double>(std::max(target_lengths[0], int64_t{1}));
    return options.reduction == LossReduction::kMean ? loss[0] / labels : loss[0];
  }
  WICK_CHECK(log_probs.rank() == 3, op, ": log_probs need 3 axes (T, N, C) or 2 (T, C): got shape ",
             log_probs.shape());
  WICK_CHECK(is_floating(log_probs.dtype()), op, ": needs a floating dtype: got ",
             to_string(log_probs.dtype()));
  WICK_CHECK(targets.dtype(op) == kInt64 || targets.dtype() == kInt32, op,
             ": targets must be int64 or int32: got ", to_string(targets.dtype()));
  const int64_t samples = log_probs.size(1), classes = log_probs.size(2);
  WICK_CHECK(options.blank >= 0 && options.blank < classes, op, ": blank: got ", options.blank,
             ", expected one in [0, ", classes - 1, "]");
  WICK_CHECK(targets.rank() == 1 || (targets.rank() == 2 && targets.size(0) == samples), op,
             ": targets have the wrong shape: got ", targets.shape(), ", expected [", samples,
             ", S] or one after another");
  checked_lengths("input_lengths", input_lengths, samples, log_probs.size(0));
  const int64_t most = targets.rank() == 2 ? targets.size(1) : targets.numel();
  const int64_t longest = checked_lengths("target_lengths", target_lengths, samples, most);

  std::vector<int64_t> numbers = input_lengths;
  numbers.insert(numbers.end(), target_lengths.begin(), target_lengths.end());
  int64_t first = 0;
  for (const int64_t length : target_lengths) {
    numbers.push_back(first);
    first += targets.rank() == 2 ? most : length;
  }
  WICK_CHECK(targets.rank() == 2 || first == targets.numel(), op,
             ": target_lengths do not add up: got ", first, ", expected ", targets.numel());
  // What lies behind a target in its row is not looked at.
  const Tensor labels = targets.to(kInt64).contiguous().reshape({-1}).to(log_probs.device());
  for (int64_t n = 0; n < samples; ++n) {
    check_labels(labels.narrow(0, numbers[static_cast<size_t>(2 * samples + n)],
                               target_lengths[static_cast<size_t>(n)]),
                 classes);
  }
  const Tensor lengths = tensor(numbers, Shape{3, samples}).to(log_probs.device());
  const CtcLoss loss{{options.blank, longest, options.zero_infinity}};
  const std::array<Tensor, 1> given{log_probs};
  std::vector<Tensor> cast;
  return computed_wide({amp::cast_inputs(CtcLoss::info, given, cast)[0]},
                       [&](const std::vector<Tensor>& in) {
                         const Tensor losses = apply(loss, in[0], labels, lengths);
                         if (options.reduction == LossReduction::kNone) return losses;
                         if (options.reduction == LossReduction::kSum) return sum(losses);
                         const Tensor counts = clamp(lengths[1], 1).to(losses.dtype());
                         return mean(losses / counts);
                       });
}

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CtcOptions& options) {
  check_defined("ctc_loss", log_probs, targets, input_lengths, target_lengths);
  return ctc_loss(log_probs, targets, as_list(input_lengths), as_list(target_lengths), options);
}

}  // namespace wick
