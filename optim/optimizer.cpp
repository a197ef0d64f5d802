#include "wick/optim/optimizer.h"

#include <cmath>
#include <unordered_set>

#include "wick/core/autograd.h"

namespace wick::optim {

Optimizer::Optimizer(const char* name, std::vector<std::vector<Tensor>> groups,
                     std::vector<std::string> slots)
    : name_(name), groups_(std::move(groups)), slot_names_(std::move(slots)) {
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
}

void Optimizer::check_dtype(const Tensor& param) const {
  WICK_CHECK(param.dtype() == kFloat32 || param.dtype() == kFloat64, name_,
             ": parameters must be float32 or float64: got ", to_string(param.dtype()));
}

bool Optimizer::needs_slot(int, int) const { return true; }

Tensor Optimizer::new_slot(int, int, const Tensor& param) const { return zeros_like(param); }

OptimTensor Optimizer::prepare(int group, size_t i) {
  const Tensor& param = groups_[index(group)][i];
  State& state = states_[index(group)][i];
  state.slots.resize(slot_names_.size());
  OptimTensor entry;
  for (int s = 0; s < static_cast<int>(state.slots.size()); ++s) {
    if (!needs_slot(group, s)) continue;
    Tensor& slot = state.slots[index(s)];
    if (!slot.defined()) slot = new_slot(group, s, param);
    WICK_CHECK(s > 0 || (slot.dtype() == param.dtype() && slot.strides() == param.strides() &&
                         slot.device() == param.device()),
               name_, ": a parameter of shape ", param.shape(),
               " has another dtype, layout or device than in the last step");
    entry.state[s] = slot.view_for_kernel();
  }
  entry.param = param.view_for_kernel();
  entry.step = ++state.step;
  return entry;
}

void Optimizer::step() {
  const NoGrad no_grad;
  std::vector<OptimTensor> batch;
  std::vector<Tensor> relaid;  // gradients copied into their parameter's layout
  for (int g = 0; g < num_groups(); ++g) {
    // One kernel call for each device and dtype in the group.
    std::vector<bool> done(groups_[index(g)].size());
    for (size_t first = 0; first < done.size(); ++first) {
      batch.clear();
      const Tensor& head = groups_[index(g)][first];
      for (size_t i = first; i < done.size(); ++i) {
        const Tensor& param = groups_[index(g)][i];
        if (done[i] || param.dtype() != head.dtype() || !(param.device() == head.device()))
          continue;
        done[i] = true;
        Tensor grad = param.grad();
        if (!grad.defined()) continue;
        check_dtype(param);
        if (!(grad.strides() == param.strides())) {
          const Tensor copy = empty_like(param);
          grad = relaid.emplace_back(copy.copy_(grad));
        }
        batch.push_back(prepare(g, i));
        batch.back().grad = grad.view_for_kernel();
        param.impl()->storage->bump_version();
      }
      if (!batch.empty()) update(g, batch);
    }
  }
}

void Optimizer::zero_grad(bool set_to_none) {
  const NoGrad no_grad;
  for (const auto& group : groups_) {
    for (const Tensor& param : group) {
      const Tensor grad = param.grad();
      if (!grad.defined()) continue;
      if (set_to_none) {
        param.set_grad({});
      } else {
        grad.detach().zero_();
      }
    }
  }
}

void Optimizer::set_lr(int group, double lr) {
  check_hyperparameter("lr", lr);
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
    WICK_CHECK(value >= 0 && value < 1, name_, ": ", name, ": got ", value,
               ", expected a value in [0, 1)");
  } else {
    WICK_CHECK(std::isfinite(value) && value >= 0, name_, ": ", name, ": got ", value,
               ", expected a finite value, 0 or more");
  }
}

StateDict Optimizer::state_dict() const {
  StateDict state;
  for (int g = 0; g < num_groups(); ++g) {
    for (const auto& [name, value] : hyperparameters(g)) {
      state[concat("group.", g, ".", name)] = scalar_tensor(value, kFloat64);
    }
    for (size_t i = 0; i < states_[index(g)].size(); ++i) {
      const State& own = states_[index(g)][i];
      if (own.step == 0) continue;
      const std::string prefix = concat("state.", g, ".", i, ".");
      state[prefix + "step"] = scalar_tensor(own.step, kInt64);
      for (size_t s = 0; s < own.slots.size(); ++s) {
        if (own.slots[s].defined()) state[prefix + slot_names_[s]] = own.slots[s];
      }
    }
  }
  return state;
}

void Optimizer::load_state_dict(const StateDict& state) {
  const NoGrad no_grad;
  std::vector<std::vector<State>> loaded;
  size_t used = 0;
  for (int g = 0; g < num_groups(); ++g) {
    auto& states = loaded.emplace_back(groups_[index(g)].size());
    for (size_t i = 0; i < states.size(); ++i) {
      const Tensor& param = groups_[index(g)][i];
      const std::string prefix = concat("state.", g, ".", i, ".");
      const auto step = state.find(prefix + "step");
      if (step == state.end()) continue;
      ++used;
      states[i].step = step->second.item<int64_t>();
      states[i].slots.resize(slot_names_.size());
      for (size_t s = 0; s < slot_names_.size(); ++s) {
        const auto found = state.find(prefix + slot_names_[s]);
        if (found == state.end()) continue;
        ++used;
        const Tensor own = new_slot(g, static_cast<int>(s), param);
        WICK_CHECK(found->second.shape() == own.shape(), name_, ": load_state_dict: ", prefix,
                   slot_names_[s], ": got shape ", found->second.shape(), ", expected ",
                   own.shape());
        states[i].slots[s] = own.copy_(found->second);
      }
    }
    for (const auto& [name, value] : hyperparameters(g)) {
      WICK_CHECK(state.contains(concat("group.", g, ".", name)), name_,
                 ": load_state_dict: missing group.", g, ".", name);
      ++used;
    }
  }
  WICK_CHECK(used == state.size(), name_,
             ": load_state_dict: the state is for other parameters: ", state.size() - used,
             " of its ", state.size(), " entries fit none of these");
  for (int g = 0; g < num_groups(); ++g) {
    for (const auto& [name, value] : hyperparameters(g)) {
      set_hyperparameter(g, name, state.at(concat("group.", g, ".", name)).item());
    }
  }
  states_ = std::move(loaded);
}

}  // namespace wick::optim
