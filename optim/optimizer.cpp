#include "wick/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "wick/core/autograd.h"
#include "wick/core/capture.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/join.h"
#include "wick/optim/grad_survey.h"

namespace wick::optim {

namespace {

// What is made once must not be made again by each replay.
void refuse_new_state(Device device) {
  refuse_in_capture(device, "make an optimizer's state, which its first step makes");
}

// What state and arithmetic of a parameter are.
Dtype state_dtype(const Tensor& param) { return param.dtype() == kFloat64 ? kFloat64 : kFloat32; }

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
    : name_(name),
      groups_(std::move(groups)),
      slot_names_(std::move(slots)),
      own_number_(own_number) {
  std::unordered_set<const TensorImpl*> seen;
  for (const auto& group : groups_) {
    WICK_CHECK(!group.empty(), name_, ": a parameter group is empty");
    for (const Tensor& param : group) {
      WICK_CHECK(
          param.defined() && param.is_leaf(), name_, ": parameters must be leaves: got ",
          param.defined() ? "the result of " + param.grad_fn()->name() : "an undefined tensor",
          ", expected tensors made by no operation");
      check_dtype(param);
      WICK_CHECK(is_dense(param.shape(), param.strides()) || param.numel() == 0, name_,
                 ": parameters must be dense: got strides ", param.strides(), " for shape ",
                 param.shape());
      WICK_CHECK(seen.insert(param.impl()).second, name_,
                 ": a parameter appears twice: its shape is ", param.shape());
      WICK_CHECK(param.requires_grad(), name_,
                 ": a parameter requires no gradient: got one of shape ", param.shape(),
                 ", expected set_requires_grad() to have been called: leave out what is frozen");
    }
    states_.emplace_back(group.size());
  }
  WICK_CHECK(!groups_.empty(), name_, ": no parameters");
  base_lrs_.resize(groups_.size());
  device_rates_.resize(groups_.size());
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

Tensor Optimizer::new_slot(int, int, const Tensor& param) const {
  return empty_like(param, state_dtype(param)).zero_();
}

std::optional<double> Optimizer::own_max_norm(int) const { return {}; }

OptimTensor Optimizer::prepare(int group, size_t i, const Tensor& grad) {
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
  entry.grad = grad.view_for_kernel();
  return entry;
}

void Optimizer::step_alike(int group, size_t first, std::vector<bool>& done, OptimStep step) {
  const std::vector<Tensor>& params = groups_[index(group)];
  std::vector<State>& states = states_[index(group)];
  const Device device = params[first].device();
  const Dtype dtype = params[first].dtype();
  std::vector<OptimTensor> batch;
  std::vector<size_t> places;
  std::vector<Tensor> relaid;  // gradients copied into their parameter's layout
  int64_t fresh = 0;
  for (size_t i = first; i < params.size(); ++i) {
    if (done[i] || params[i].dtype() != dtype || !(params[i].device() == device)) continue;
    done[i] = true;
    Tensor grad = params[i].grad();
    if (!grad.defined()) continue;
    check_dtype(params[i]);
    if (!(grad.strides() == params[i].strides())) {
      grad = relaid.emplace_back(empty_like(params[i]).copy_(grad));
    }
    batch.push_back(prepare(group, i, grad));
    places.push_back(i);
    fresh += states[i].numbers.defined() ? 0 : 1;
    params[i].impl()->storage->bump_version();
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
  const Tensor scratch = empty({optim_scratch_bytes(batch.data(), count)}, kUint8, device);
  step.scratch = scratch.raw_data();
  update(group, batch, step);
}

Tensor Optimizer::step(const StepControl& control) {
  const NoGrad no_grad;
  const Device device = groups_[0][0].device();
  check_control(control.grad_scale, "grad_scale", kFloat32, device);
  check_control(control.found_inf, "found_inf", kFloat32, device);
  check_control(control.grad_norm, "grad_norm", kFloat64, device);
  WICK_CHECK(!control.max_norm || *control.max_norm >= 0, name_, ": step: max_norm: got ",
             control.max_norm.value_or(0), ", expected 0 or more");
  const bool reads_device = control.grad_scale.defined() || control.found_inf.defined();
  const bool wants_norm = control.max_norm.has_value() || control.skip_non_finite;
  bool needs_norm = wants_norm;
  for (int g = 0; g < num_groups(); ++g) {
    needs_norm = needs_norm || own_max_norm(g).has_value();
    for (const Tensor& param : groups_[index(g)]) {
      WICK_CHECK(!reads_device || param.device() == device, name_,
                 ": step: with grad_scale or found_inf, parameters must be on one device: got ",
                 param.device(), " and ", device);
    }
  }
  Tensor norm = control.grad_norm;
  if (needs_norm && !norm.defined()) norm = grad_norm(control.grad_scale);
  OptimStep step;
  if (control.grad_scale.defined()) step.grad_scale = control.grad_scale.data<float>();
  if (control.found_inf.defined()) step.found_inf = control.found_inf.data<float>();
  step.skip_non_finite = control.skip_non_finite;
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
      if (!done[first]) step_alike(g, first, done, step);
    }
  }
  if (sharding_) sharding_->gather_parameters();
  return needs_norm ? norm : Tensor();
}

Tensor Optimizer::grad_norm(const Tensor& grad_scale) const {
  std::vector<Tensor> params;
  for (const auto& group : groups_) params.insert(params.end(), group.begin(), group.end());
  const SurveyResult found = survey_grads(name_, params, grad_scale, /*unscale=*/false);
  if (sharding_) sharding_->combine(found.norm, found.found_inf);
  return found.norm;
}

Tensor Optimizer::device_rates(int group) {
  Tensor& rates = device_rates_.at(index(group));
  if (!rates.defined()) {
    refuse_new_state(groups_[index(group)][0].device());
    rates = zeros({2}, kFloat64, groups_[index(group)][0].device());
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

const char* Optimizer::momentum_name() const {
  return hyperparameter(0, "beta1") ? "beta1" : "momentum";
}

void Optimizer::zero_grad(bool set_to_none) {
  const NoGrad no_grad;
  const auto forget = [&](const Tensor& param) {
    const Tensor grad = param.grad();
    if (!grad.defined()) return;
    if (set_to_none) {
      param.set_grad({});
    } else {
      grad.detach().zero_();
    }
  };
  for (int g = 0; g < num_groups(); ++g) {
    for (size_t i = 0; i < groups_[index(g)].size(); ++i) {
      forget(groups_[index(g)][i]);
      if (sharding_) forget(sharding_->parameter(g, i));
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

double Optimizer::base_lr(int group) {
  std::optional<double>& base = base_lrs_.at(index(group));
  if (!base) base = lr(group);
  return *base;
}

void Optimizer::check_hyperparameter(std::string_view name, double value) const {
  if (name == "beta1" || name == "beta2") {
    check_below_one(name_, name, value);
  } else if (name == "rho") {
    WICK_CHECK(value >= 0 && value <= 1, name_, ": rho: got ", value,
               ", expected a value in [0, 1]");
  } else {
    check_not_negative(name_, name, value);
  }
}

void Optimizer::set_hyperparameter(int group, std::string_view name, double value) {
  std::vector<Hyperparameters> groups(groups_.size());
  groups.at(index(group)).emplace_back(name, value);
  set_hyperparameters(groups);
}

std::vector<std::array<double, 2>> Optimizer::read_numbers(int group) const {
  const NoGrad no_grad;
  const std::vector<State>& states = states_[index(group)];
  std::vector<std::array<double, 2>> numbers(states.size());
  std::vector<bool> done(states.size());
  // All of one device at once: a device is waited for once.
  for (size_t first = 0; first < states.size(); ++first) {
    std::vector<Tensor> rows;
    std::vector<size_t> places;
    for (size_t i = first; i < states.size(); ++i) {
      const Tensor& own = states[i].numbers;
      if (done[i] || !own.defined()) continue;
      if (!rows.empty() && !(own.device() == rows[0].device())) continue;
      done[i] = true;
      rows.push_back(own);
      places.push_back(i);
    }
    if (rows.empty()) break;
    const std::vector<double> all = stack(rows).to_vector<double>();
    for (size_t k = 0; k < places.size(); ++k) numbers[places[k]] = {all[2 * k], all[2 * k + 1]};
  }
  return numbers;
}

StateDict Optimizer::state_dict() const {
  StateDict state;
  for (int g = 0; g < num_groups(); ++g) {
    for (const auto& [name, value] : hyperparameters(g)) {
      state[concat("group.", g, ".", name)] = scalar_tensor(value, kFloat64);
    }
    const std::vector<std::array<double, 2>> numbers = read_numbers(g);
    for (size_t i = 0; i < numbers.size(); ++i) {
      // State that no update has changed is that of no update.
      if (numbers[i][0] == 0) continue;
      const State& own = states_[index(g)][i];
      const std::string prefix = key_of(g, i);
      const auto all_of = [&](const Tensor& part) {
        return sharding_ ? sharding_->gather(g, i, part) : part;
      };
      state[prefix + "step"] = scalar_tensor(static_cast<int64_t>(numbers[i][0]), kInt64);
      if (own_number_) state[prefix + own_number_] = scalar_tensor(numbers[i][1], kFloat64);
      if (own.master.defined()) state[prefix + "master"] = all_of(own.master);
      for (size_t s = 0; s < own.slots.size(); ++s) {
        Tensor slot = own.slots[s];
        const int number = static_cast<int>(s);
        // One that no step has wanted so far, but the next one will.
        if (!slot.defined() && needs_slot(g, number)) {
          slot = new_slot(g, number, groups_[index(g)][i]);
        }
        if (slot.defined()) state[prefix + slot_names_[s]] = all_of(slot);
      }
    }
  }
  if (sharding_ && !sharding_->is_first_rank()) return {};
  return state;
}

int64_t Optimizer::state_bytes() const {
  int64_t bytes = 0;
  const auto count = [&](const Tensor& x) {
    if (x.defined()) bytes += x.numel() * size_of(x.dtype());
  };
  for (const auto& states : states_) {
    for (const State& state : states) {
      for (const Tensor& slot : state.slots) count(slot);
      count(state.master);
      count(state.numbers);
    }
  }
  return bytes;
}

void Optimizer::shard(std::vector<std::vector<Tensor>> parts, std::shared_ptr<Sharding> sharding) {
  WICK_CHECK(!sharding_, name_, ": its state is sharded already");
  const StateDict state = state_dict();
  groups_ = std::move(parts);
  for (auto& states : states_) states = std::vector<State>(states.size());
  sharding_ = std::move(sharding);
  load_state_dict(state);
}

Optimizer::State Optimizer::load_state(const StateDict& state, int group, size_t i,
                                       size_t& used) const {
  const Tensor& param = groups_[index(group)][i];
  const std::string prefix = key_of(group, i);
  State loaded;
  const auto find = [&](const std::string& name) {
    const auto found = state.find(prefix + name);
    if (found == state.end()) return Tensor();
    ++used;
    return found->second;
  };
  const auto take = [&](const std::string& name, bool is_needed, const auto& make) {
    const Tensor value = find(name);
    WICK_CHECK(value.defined() || !is_needed, name_, ": load_state_dict: missing ", prefix, name);
    if (!value.defined()) return Tensor();
    const Shape& expected = whole(group, i).shape();
    WICK_CHECK(value.shape() == expected, name_, ": load_state_dict: ", prefix, name,
               ": got shape ", value.shape(), ", expected ", expected);
    return make().copy_(sharding_ ? sharding_->part_of(group, i, value) : value);
  };
  const Tensor step = find("step");
  if (!step.defined()) return loaded;
  const Tensor own = own_number_ ? find(own_number_) : Tensor();
  WICK_CHECK(!own_number_ || own.defined(), name_, ": load_state_dict: missing ", prefix,
             own_number_ ? own_number_ : "");
  loaded.numbers =
      tensor({static_cast<double>(step.item<int64_t>()), own.defined() ? own.item() : 0})
          .to(param.device());
  for (int s = 0; s < static_cast<int>(slot_names_.size()); ++s) {
    loaded.slots.push_back(take(slot_names_[index(s)], needs_slot(group, s),
                                [&] { return new_slot(group, s, param); }));
  }
  if (param.dtype() != state_dtype(param)) {
    loaded.master = take("master", true, [&] { return empty_like(param, kFloat32); });
  }
  return loaded;
}

std::vector<Optimizer::Hyperparameters> Optimizer::load_hyperparameters(
    const StateDict& state) const {
  std::vector<Hyperparameters> loaded;
  for (int g = 0; g < num_groups(); ++g) {
    Hyperparameters& values = loaded.emplace_back(hyperparameters(g));
    for (auto& [name, value] : values) {
      const auto found = state.find(concat("group.", g, ".", name));
      WICK_CHECK(found != state.end(), name_, ": load_state_dict: missing group.", g, ".", name);
      value = found->second.item();
    }
  }
  return loaded;
}

// What a captured step works on stays where it is.
void Optimizer::take_over(State& state, State loaded) {
  const auto take = [](Tensor& to, const Tensor& from) {
    const bool fits = to.defined() && from.defined() && to.dtype() == from.dtype() &&
                      to.device() == from.device() && to.strides() == from.strides() &&
                      to.shape() == from.shape();
    fits ? (void)to.copy_(from) : (void)(to = from);
  };
  state.slots.resize(loaded.slots.size());
  for (size_t s = 0; s < loaded.slots.size(); ++s) take(state.slots[s], loaded.slots[s]);
  take(state.master, loaded.master);
  take(state.numbers, loaded.numbers);
}

void Optimizer::load_state_dict(const StateDict& state) {
  const NoGrad no_grad;
  const std::vector<Hyperparameters> options = load_hyperparameters(state);
  std::vector<Hyperparameters> before;
  for (int g = 0; g < num_groups(); ++g) before.push_back(hyperparameters(g));
  set_hyperparameters(options);  // which say what state is needed
  try {
    std::vector<std::vector<State>> loaded;
    size_t used = 0;
    for (const Hyperparameters& group : options) used += group.size();
    for (int g = 0; g < num_groups(); ++g) {
      auto& states = loaded.emplace_back();
      for (size_t i = 0; i < groups_[index(g)].size(); ++i) {
        states.push_back(load_state(state, g, i, used));
      }
    }
    WICK_CHECK(used == state.size(), name_,
               ": load_state_dict: the state is for other parameters: ", state.size() - used,
               " of its ", state.size(), " entries fit none of these");
    for (size_t g = 0; g < loaded.size(); ++g) {
      for (size_t i = 0; i < loaded[g].size(); ++i) {
        take_over(states_[g][i], std::move(loaded[g][i]));
      }
    }
  } catch (...) {
    set_hyperparameters(before);
    throw;
  }
}

}  // namespace wick::optim
