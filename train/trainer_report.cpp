// What a trainer tells of its steps: figures of all ranks, lines of metrics, jumps, and the end of
// a run whose figures are not finite.
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "wick/core/autograd.h"
#include "wick/core/file.h"
#include "wick/core/memory/stats.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/statistics.h"
#include "wick/core/sparse_rows.h"
#include "wick/train/trainer.h"

namespace wick::train {

namespace {

// The values of tensors of rank 0, by one copy from the device.
std::vector<double> read(const std::vector<Tensor>& tensors) {
  std::map<Dtype, std::vector<Tensor>> far;
  for (const Tensor& tensor : tensors) {
    if (tensor.device().is_cuda()) far[tensor.dtype()].push_back(tensor);
  }
  std::vector<Tensor> each;
  std::map<Dtype, size_t> next;  // where the next value of a dtype is
  size_t count = 0;
  for (const auto& entry : far) {
    each.push_back(stack(entry.second).to(kFloat64));
    next[entry.first] = count;
    count += entry.second.size();
  }
  std::vector<double> copied;
  if (!each.empty()) copied = cat(each).to_vector<double>();
  std::vector<double> values;
  for (const Tensor& tensor : tensors) {
    values.push_back(tensor.device().is_cuda() ? copied[next[tensor.dtype()]++] : tensor.item());
  }
  return values;
}

double mean(double sum, int64_t samples) { return sum / static_cast<double>(samples); }

// "3 of 512 elements", or nothing if all of them are finite.
std::string non_finite_elements(const Tensor& tensor) {
  if (!tensor.defined() || !is_floating(tensor.dtype())) return "";
  const NoGrad no_grad;
  const Tensor elements = gradient_elements(tensor);
  const auto bad = elements.numel() - count_nonzero(isfinite(elements)).item<int64_t>();
  return bad == 0 ? "" : concat(bad, " of ", elements.numel(), " elements");
}

// The first parameter that is not finite, and whether its gradient is, where that is still there.
std::string first_non_finite(const nn::Module& model, bool is_newest) {
  for (const auto& [name, parameter] : model.named_parameters()) {
    const std::string bad = non_finite_elements(parameter);
    if (bad.empty()) continue;
    const std::string text = concat(": ", bad, " of ", name);
    if (!is_newest) return text;
    const std::string causes = non_finite_elements(parameter.grad());
    if (causes.empty()) return text + ", whose gradient is finite";
    return concat(text, ", and ", causes, " of its gradient");
  }
  return "";  // another rank's part
}

}  // namespace

void Trainer::sum_over_ranks(UnreadStep& step) {
  const auto own = static_cast<double>(step.event.samples);
  std::vector<Tensor> figures = step.figures;
  if (step.non_finite.defined()) figures.push_back(step.non_finite);
  std::vector<double> sums = read(figures);
  sums[0] *= own;
  sums.insert(sums.begin(),
              {own, options_.stop.requested() ? 1.0 : 0.0, wants_to_save() ? 1.0 : 0.0});
  sums = options_.ranks.sum(sums);
  step.event.samples = static_cast<int64_t>(sums[0]);
  stopping_ = sums[1] > 0;
  is_time_to_save_ = sums[2] > 0;
  step.figures[0] = scalar_tensor(sums[3] / sums[0]);
  for (size_t i = 1; i < step.figures.size(); ++i) {
    step.figures[i] = scalar_tensor(sums[i + 3], kFloat64);
  }
  if (step.non_finite.defined()) step.non_finite = scalar_tensor(sums.back(), kFloat64);
}

void Trainer::log(const std::string& json) {
  if (!options_.ranks.first()) return;
  try {
    if (folder_) folder_->log(json);
    has_told_of_metrics_ = false;
  } catch (const FileError& error) {  // what is not written yet is kept
    if (!has_told_of_metrics_) tell_of_failure(error.what());
    has_told_of_metrics_ = true;
  }
  if (options_.on_log) options_.on_log(json);
}

void Trainer::log_step(const StepEvent& event) {
  if (event.step % options_.log_every != 0 && event.step != total_steps_) return;
  nlohmann::ordered_json line;
  line["step"] = event.step;
  line["epoch"] = event.epoch;
  line["loss"] = event.loss;
  line["lr"] = event.lr;
  line[options_.unit + "_per_second"] = event.samples_per_second;
  line["data_wait"] = event.data_wait;
  for (const auto& [name, value] : event.means) line[name] = value;
  line["memory_bytes"] = static_cast<int64_t>(max_memory_allocated(device()));
  log(line.dump());
}

void Trainer::watch(JumpMonitor& monitor, const char* figure, double value,
                    const StepEvent& event) {
  const std::optional<double> usual = monitor.jump(value);
  if (!usual) return;
  const JumpEvent jump{event.step, event.epoch, (event.step - 1) % steps_per_epoch() + 1,
                       figure,     value,       *usual};
  nlohmann::ordered_json line;
  line["step"] = jump.step;
  line["epoch"] = jump.epoch;
  line["batch"] = jump.batch;
  line["jump"] = figure;
  line["value"] = value;
  line["usual"] = *usual;
  log(line.dump());
  if (options_.on_jump) options_.on_jump(jump);
}

void Trainer::check_finite(const StepEvent& event, bool weights_are_finite) const {
  // With float16, infinities of losses and gradients are the scaler's to judge.
  if (!std::isfinite(event.loss) && options_.step.autocast != kFloat16) {
    throw Diverged(concat("train: the loss became ", event.loss, " at step ", event.step));
  }
  if (weights_are_finite) return;
  throw Diverged(concat("train: weights became infinite or NaN at step ", event.step,
                        first_non_finite(*model_, event.step == steps_)));
}

void Trainer::report() {
  if (unread_.empty()) return;
  step_.scaler().check_skips();
  const bool has_norm = unread_[0].grad_norm.defined();
  const bool is_checked = unread_[0].non_finite.defined();
  std::vector<Tensor> figures;
  for (const UnreadStep& step : unread_) {
    figures.push_back(step.lr);
    figures.insert(figures.end(), step.figures.begin(), step.figures.end());
    if (has_norm) figures.push_back(step.grad_norm);
    if (is_checked) figures.push_back(step.non_finite);
  }
  const std::vector<double> values = read(figures);
  auto next = values.begin();
  for (UnreadStep& step : unread_) {
    StepEvent& event = step.event;
    event.lr = *next++;
    event.loss = *next++;
    for (const std::string& name : sum_names_) {
      event.means.emplace_back(name, mean(*next++, event.samples));
    }
    if (has_norm) event.grad_norm = *next++;
    check_finite(event, !is_checked || *next++ == 0);
    log_step(event);
    if (options_.on_step) options_.on_step(event);
    watch(losses_, "loss", event.loss, event);
    if (event.grad_norm) watch(grad_norms_, "gradient norm", *event.grad_norm, event);
  }
  unread_.clear();
  last_read_ = Clock::now();
}

}  // namespace wick::train
