#include "wick/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "wick/core/autograd.h"
#include "wick/core/detail/capture.h"
#include "wick/core/graph/host_call.h"
#include "wick/core/graph/trace.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/index.h"
#include "wick/core/ops/view.h"
#include "wick/core/profile/memory_use.h"
#include "wick/core/profile/span.h"
#include "wick/core/sparse_rows.h"
#include "wick/kernels/index.h"
#include "wick/optim/detail/gradient_norm.h"

namespace wick::optim {

namespace {

// What is made once must not be made again by each replay.
void refuse_new_state(Device device) {
  refuse_in_capture(device, "make an optimizer's state, which its first step makes");
}

}  // namespace

void check_not_negative(std::string_view who, std::string_view name, double value) {
  WICK_CHECK(std::isfinite(value) && value >= 0, who, ": ", name, ": got ", value,
             ", expected a finite value, 0 or more");
}

void check_below_one(std::string_view who, std::string_view name, double value) {
  WICK_CHECK(value >= 0 && value < 1, who, ": ", name, ": got ", value,
             ", expected a value in [0, 1)");
}

Tensor found_inf_of(const Tensor& norm) {
  const NoGrad no_grad;
  return logical_not(isfinite(norm)).to(kFloat32);
}

Optimizer::Optimizer(const char* name, std::vector<std::vector<Tensor>> groups,
                     std::vector<std::string> slots, const char* own_number)
    : name_(name), slot_names_(std::move(slots)), own_number_(own_number) {
  WICK_CHECK(!groups.empty(), name_, ": no parameters");
  for (auto& group : groups) append_group(std::move(group));
}

void Optimizer::check_params(int group, const std::vector<Tensor>& params) const {
  WICK_CHECK(
      !params.empty(), name_, ": a parameter group is empty: got group ", group,
      " without tensors, expected one or more, as parameters() of a module whose parts add() "
      "has registered");
  std::unordered_map<const TensorImpl*, std::string> seen;
  const auto place = [](int g, size_t i) { return concat("number ", i, " of group ", g); };
  for (int g = 0; g < group; ++g) {
    const std::vector<Tensor>& before = groups_[index(g)];
    for (size_t i = 0; i < before.size(); ++i) seen.emplace(before[i].impl(), place(g, i));
  }
  for (size_t i = 0; i < params.size(); ++i) {
    const Tensor& param = params[i];
    WICK_CHECK(param.defined() && param.is_leaf(), name_, ": parameters must be leaves: got ",
               param.defined() ? "the result of " + param.grad_fn()->name() : "an undefined tensor",
               ", expected tensors made by no operation");
    check_dtype(param);
    WICK_CHECK(is_dense(param.shape(), param.strides()) || param.numel() == 0, name_,
               ": parameters must be dense: got strides ", param.strides(), " for shape ",
               param.shape());
    const auto [first, is_new] = seen.emplace(param.impl(), place(group, i));
    WICK_CHECK(is_new, name_, ": a parameter appears twice, as ", first->second, " and as ",
               place(group, i), ": its shape is ", param.shape());
  }
}

void Optimizer::append_group(std::vector<Tensor> params) {
  check_params(num_groups(), params);
  WICK_CHECK(sharding_ == nullptr, name_,
             ": add_param_group: the state is sharded: add the group before");
  for (const Tensor& rates : device_rates_) {
    WICK_CHECK(!rates.defined(), name_,
               ": add_param_group: steps that were captured would leave the group out: add it "
               "before make_capturable() and device_rates()");
  }
  base_lrs_.emplace_back();
  device_rates_.emplace_back();
  states_.emplace_back(params.size());
  groups_.push_back(std::move(params));
}

Dtype Optimizer::state_dtype(const Tensor& param) {
  return param.dtype() == kFloat64 ? kFloat64 : kFloat32;
}

void Optimizer::check_dtype(const Tensor& param) const {
  WICK_CHECK(is_floating(param.dtype()), name_, ": parameters must be floating: got ",
             to_string(param.dtype()));
}

void Optimizer::check_control(const Tensor& value, const char* what, Dtype dtype,
                              Device device) const {
  if (!value.defined()) return;
  WICK_CHECK(value.rank() == 0 && value.dtype() == dtype && value.device() == device, name_,
             ": step: ", what, ": got ", to_string(value.dtype()), " of shape ", value.shape(),
             " on ", value.device(), ", expected ", to_string(dtype), " of shape [] on ", device);
}

bool Optimizer::needs_slot(int, int) const { return true; }

std::optional<double> Optimizer::own_number_of(int64_t, bool) const { return {}; }

Tensor Optimizer::new_slot(int, int, const Tensor& param) const {
  return empty_like(param, state_dtype(param)).zero_();
}

std::optional<double> Optimizer::own_max_norm(int) const { return {}; }

void Optimizer::prepare_update(int, const std::vector<OptimTensor>&, const OptimStep&) {}

OptimTensor Optimizer::prepare(int group, size_t i) {
  const Tensor& param = groups_[index(group)][i];
  State& state = states_[index(group)][i];
  state.slots.resize(slot_names_.size());
  OptimTensor entry;
  for (int s = 0; s < static_cast<int>(state.slots.size()); ++s) {
    if (!needs_slot(group, s)) continue;
    Tensor& slot = state.slots[index(s)];
    if (!slot.defined()) {
      refuse_new_state(param.device());
      slot = new_slot(group, s, param);
    }
    WICK_CHECK(slot.dtype() == state_dtype(param) && slot.strides() == param.strides() &&
                   slot.device() == param.device(),
               name_, ": a parameter of shape ", param.shape(),
               " has another dtype, layout or device than in the last step");
    entry.state[s] = slot.view_for_kernel();
  }
  if (param.dtype() != state_dtype(param)) {
    // Zeros are nobody's master: the first update takes the parameter itself.
    if (!state.master.defined()) {
      refuse_new_state(param.device());
      state.master = empty_like(param, kFloat32).zero_();
    }
    entry.master = state.master.view_for_kernel();
  }
  entry.param = param.view_for_kernel();
  if ((profile::wanted() & profile::kWantsMemory) != 0) {
    profile::label_memory(param, profile::MemoryUse::kParameter);
    profile::label_memory(state.master, profile::MemoryUse::kOptimizerState);
    for (const Tensor& slot : state.slots) {
      profile::label_memory(slot, profile::MemoryUse::kOptimizerState);
    }
  }
  return entry;
}

// What one call of update() is given.
struct Optimizer::Update {
  int group;
  OptimStep step;
  std::vector<OptimTensor> batch;
  std::vector<Tensor> params;
  std::vector<Tensor> relaid;  // gradients copied into their parameter's layout
  Tensor scratch;
  // Rows of parameters and their state that were gathered.
  struct Rows {
    Tensor whole, rows, part;
  };
  std::vector<Rows> gathered;

  void put_back() const {
    for (const Rows& each : gathered) {
      if (each.rows.numel() == 0) continue;
      const Tensor at = each.rows.unsqueeze(1).expand(each.part.shape());
      WICK_DISPATCH(each.whole.device(), scatter(each.whole.view_for_kernel(), at.view_for_kernel(),
                                                 each.part.view_for_kernel(), 0));
    }
  }
};

void Optimizer::check_gradient(int, const Tensor& gradient) const {
  if (!gradient.is_sparse()) return;
  refuse_sparse(gradient,
                "this optimizer changes rows without a gradient too: use SparseAdam, or "
                "SGD or Adagrad");
}

void Optimizer::refuse_sparse(const Tensor& gradient, const char* why) const {
  wick::detail::fail(name_, ": a gradient is sparse: got that of a parameter of shape ",
                     gradient.shape(), ", but ", why);
}

void Optimizer::gather_rows(int group, size_t i, const Tensor& grad, OptimTensor& entry,
                            Update& update) {
  const SparseRows& sparse = sparse_rows(grad);
  State& state = states_[index(group)][i];
  const auto gather = [&](const Tensor& whole) {
    const Tensor& part =
        update.gathered
            .emplace_back(Update::Rows{whole, sparse.rows, index_select(whole, 0, sparse.rows)})
            .part;
    return part.view_for_kernel();
  };
  entry.param = gather(groups_[index(group)][i]);
  for (int s = 0; s < static_cast<int>(state.slots.size()); ++s) {
    if (needs_slot(group, s)) entry.state[s] = gather(state.slots[index(s)]);
  }
  if (state.master.defined()) entry.master = gather(state.master);
  entry.grad = sparse.values.view_for_kernel();
}

void Optimizer::prepare_alike(int group, size_t first, std::vector<bool>& done,
                              const OptimStep& step, std::vector<Update>& updates) {
  const std::vector<Tensor>& params = groups_[index(group)];
  std::vector<State>& states = states_[index(group)];
  const Device device = params[first].device();
  const Dtype dtype = params[first].dtype();
  Update made{group, step, {}, {}, {}, {}, {}};
  std::vector<OptimTensor>& batch = made.batch;
  std::vector<size_t> places;
  int64_t fresh = 0;
  for (size_t i = first; i < params.size(); ++i) {
    if (done[i] || params[i].dtype() != dtype || !(params[i].device() == device)) continue;
    done[i] = true;
    Tensor grad = params[i].grad();
    if (!grad.defined()) continue;
    check_dtype(params[i]);
    check_gradient(group, grad);
    if (!grad.is_sparse() && !(grad.strides() == params[i].strides())) {
      grad = made.relaid.emplace_back(empty_like(params[i]).copy_(grad));
    }
    batch.push_back(prepare(group, i));
    if (grad.is_sparse()) {
      gather_rows(group, i, grad, batch.back(), made);
    } else {
      batch.back().grad = grad.view_for_kernel();
      if ((profile::wanted() & profile::kWantsMemory) != 0) {
        profile::label_memory(grad, profile::MemoryUse::kGradient);
      }
    }
    places.push_back(i);
    fresh += states[i].numbers.defined() ? 0 : 1;
    made.params.push_back(params[i]);
  }
  if (batch.empty()) return;
  if (fresh > 0) refuse_new_state(device);
  const Tensor numbers = fresh > 0 ? zeros({fresh, 2}, kFloat64, device) : Tensor();
  for (size_t k = 0; k < batch.size(); ++k) {
    Tensor& own = states[places[k]].numbers;
    if (!own.defined()) own = numbers[--fresh];
    batch[k].numbers = own.data<double>();
  }
  const auto count = static_cast<int64_t>(batch.size());
  made.scratch = empty({optim_scratch_bytes(batch.data(), count)}, kUint8, device);
  made.step.scratch = made.scratch.raw_data();
  updates.push_back(std::move(made));
}

void Optimizer::look_for_non_finite(std::vector<Update>& updates) {
  if (!checks_finite_) {
    non_finite_ = Tensor();
    return;
  }
  const Device device = groups_[0][0].device();
  const bool is_free = non_finite_.defined() && non_finite_.impl()->use_count() == 1 &&
                       non_finite_.impl()->storage->use_count() == 1;
  if (!is_free || !(non_finite_.device() == device)) non_finite_ = empty({}, kInt32, device);
  bool is_first = true;
  for (Update& each : updates) {
    if (!(each.params[0].device() == device)) continue;
    each.step.non_finite = non_finite_.data<int32_t>();
    each.step.is_first = std::exchange(is_first, false);
  }
  if (is_first) non_finite_.zero_();  // no kernel of the step does
}

Tensor Optimizer::step(const StepControl& control) {
  if (graph::is_tracing()) {
    std::vector<Tensor> all;
    for (const std::vector<Tensor>& group : groups_)
      all.insert(all.end(), group.begin(), group.end());
    const auto again = [this, control](const std::vector<Tensor>& given) {
      StepControl now = control;
      now.grad_scale = given[0];
      now.found_inf = given[1];
      now.grad_norm = given[2];
      return step(now);
    };
    return graph::host_call(concat(name_, ".step"), again, all,
                            {control.grad_scale, control.found_inf, control.grad_norm});
  }
  profile::Span span(profile::EventKind::kOptimizer, "Optimizer.step");
  if (span) [[unlikely]]
    span.rename(concat("Optimizer.step#", name_, ".step"));
  const NoGrad no_grad;
  const Device device = groups_[0][0].device();
  check_control(control.grad_scale, "grad_scale", kFloat32, device);
  check_control(control.found_inf, "found_inf", kFloat32, device);
  check_control(control.grad_norm, "grad_norm", kFloat64, device);
  WICK_CHECK(!control.max_norm || *control.max_norm >= 0, name_, ": step: max_norm: got ",
             control.max_norm.value_or(0), ", expected 0 or more");
  const bool reads_device =
      control.grad_scale.defined() || control.found_inf.defined() || control.grad_norm.defined();
  const bool wants_norm = control.max_norm.has_value() || control.skip_non_finite;
  bool needs_norm = wants_norm;
  for (int g = 0; g < num_groups(); ++g) {
    needs_norm = needs_norm || own_max_norm(g).has_value();
    for (const Tensor& param : groups_[index(g)]) {
      WICK_CHECK(
          !reads_device || param.device() == device, name_,
          ": step: with grad_scale, found_inf or grad_norm, parameters must be on one device: "
          "got ",
          param.device(), " and ", device);
    }
  }
  Tensor norm = control.grad_norm;
  if (needs_norm && !norm.defined()) norm = grad_norm(control.grad_scale);
  OptimStep step;
  if (control.grad_scale.defined()) step.grad_scale = control.grad_scale.data<float>();
  if (control.found_inf.defined()) step.found_inf = control.found_inf.data<float>();
  step.skip_non_finite = control.skip_non_finite;
  // All memory first: a step that lacks some changes nothing, and can be taken again.
  std::vector<Update> updates;
  for (int g = 0; g < num_groups(); ++g) {
    const std::optional<double> own = own_max_norm(g);
    if (own || wants_norm) {
      step.grad_norm = norm.data<double>();
      step.max_norm = std::min(own.value_or(HUGE_VAL), control.max_norm.value_or(HUGE_VAL));
    } else {
      step.grad_norm = nullptr;
    }
    const Tensor& rates = device_rates_[index(g)];
    WICK_CHECK(rates.defined() || capture_of(device) == nullptr, name_,
               ": step: captured, it would keep the rates it has now: call make_capturable() "
               "before");
    step.rates = rates.defined() ? rates.data<double>() : nullptr;
    std::vector<bool> done(groups_[index(g)].size());
    for (size_t first = 0; first < done.size(); ++first) {
      if (!done[first]) prepare_alike(g, first, done, step, updates);
    }
  }
  look_for_non_finite(updates);
  for (const Update& each : updates) prepare_update(each.group, each.batch, each.step);
  for (const Update& each : updates) {
    for (const Tensor& param : each.params) param.impl()->storage->bump_version();
    update(each.group, each.batch, each.step);
    each.put_back();
  }
  if (sharding_) sharding_->gather_parameters();
  return needs_norm ? norm : Tensor();
}

Tensor Optimizer::non_finite() const {
  if (graph::is_tracing()) {
    const auto again = [this](const std::vector<Tensor>&) { return non_finite(); };
    return graph::host_call(concat(name_, ".non_finite"), again, {});
  }
  return non_finite_;
}

Tensor Optimizer::grad_norm(const Tensor& grad_scale) const {
  std::vector<Tensor> params;
  for (const auto& group : groups_) params.insert(params.end(), group.begin(), group.end());
  const GradientNorm found = gradient_norm(name_, params, grad_scale, /*unscale=*/false);
  if (sharding_) sharding_->combine(found.norm, found.found_inf);
  return found.norm;
}

Tensor Optimizer::device_rates(int group) {
  Tensor& rates = device_rates_[existing(group)];
  if (!rates.defined()) {
    const Device device = groups_[index(group)][0].device();
    for (const Tensor& param : groups_[index(group)]) {
      WICK_CHECK(param.device() == device, name_, ": device_rates: the parameters of group ", group,
                 " must be on one device: got ", param.device(), " and ", device);
    }
    refuse_new_state(device);
    rates = zeros({2}, kFloat64, device);
    write_device_rates(group);
  }
  return rates;
}

void Optimizer::make_capturable() {
  for (int g = 0; g < num_groups(); ++g) device_rates(g);
}

void Optimizer::refuse_to_set_in_capture() const {
  refuse_in_capture(groups_[0][0].device(), "set hyperparameters, which each replay would set");
}

void Optimizer::write_device_rates(int group) {
  const Tensor& rates = device_rates_.at(index(group));
  if (!rates.defined()) return;
  const NoGrad no_grad;
  rates[0].fill_(lr(group));
  rates[1].fill_(hyperparameter(group, momentum_name()).value_or(0));
}

size_t Optimizer::existing(int group) const {
  WICK_CHECK(group >= 0 && group < num_groups(), name_, ": no such parameter group: got ", group,
             ", expected 0 to ", num_groups() - 1);
  return index(group);
}

const char* Optimizer::momentum_name() const {
  return hyperparameter(0, "beta1") ? "beta1" : "momentum";
}

void Optimizer::zero_grad(bool set_to_none) {
  profile::Span span(profile::EventKind::kOptimizer, "Optimizer.zero_grad");
  if (span) [[unlikely]]
    span.rename(concat("Optimizer.zero_grad#", name_, ".zero_grad"));
  for (int g = 0; g < num_groups(); ++g) {
    for (size_t i = 0; i < groups_[index(g)].size(); ++i) {
      zero_gradient(groups_[index(g)][i], set_to_none);
      if (sharding_) zero_gradient(sharding_->parameter(g, i), set_to_none);
    }
  }
}

void Optimizer::set_lr(int group, double lr) {
  set_hyperparameter(group, "lr", lr);
  base_lrs_[index(group)].reset();
}

void Optimizer::set_lr(double lr) {
  for (int g = 0; g < num_groups(); ++g) set_lr(g, lr);
}

double Optimizer::base_lr(int group, std::optional<double> otherwise) {
  std::optional<double>& base = base_lrs_[existing(group)];
  if (!base) base = otherwise.value_or(lr(group));
  return *base;
}

void Optimizer::check_hyperparameter(std::string_view name, double value) const {
  if (name == "beta1" || name == "beta2") {
    check_below_one(name_, name, value);
  } else {
    check_not_negative(name_, name, value);
  }
}

void Optimizer::refuse_hyperparameter(std::string_view name) const {
  std::string known;
  for (const auto& entry : hyperparameters(0)) {
    known += known.empty() ? "" : ", ";
    known += entry.first;
  }
  wick::detail::fail(name_, ": no hyperparameter named ", name, ": expected one of ", known);
}

void Optimizer::set_hyperparameter(int group, std::string_view name, double value) {
  std::vector<Hyperparameters> groups(groups_.size());
  groups[existing(group)].emplace_back(name, value);
  set_hyperparameters(groups);
}

}  // namespace wick::optim
