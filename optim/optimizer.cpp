#include "wick/optim/optimizer.h"

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
      WICK_CHECK(param.defined() && param.is_leaf(), name_,
                 ": parameters must be leaves, not results of operations");
      WICK_CHECK(param.dtype() == kFloat32 || param.dtype() == kFloat64, name_,
                 ": parameters must be float32 or float64: got ", to_string(param.dtype()));
      WICK_CHECK(is_dense(param.shape(), param.strides()) || param.numel() == 0, name_,
                 ": parameters must be dense: got strides ", param.strides(), " for shape ",
                 param.shape());
      WICK_CHECK(seen.insert(param.impl()).second, name_,
                 ": a parameter appears twice: its shape is ", param.shape());
    }
    states_.emplace_back(group.size());
  }
  WICK_CHECK(!groups_.empty(), name_, ": no parameters");
}

void Optimizer::prepare(const Tensor& param, State& state, int slots) const {
  ++state.step;
  while (static_cast<int>(state.slots.size()) < slots) state.slots.push_back(zeros_like(param));
}

void Optimizer::step() {
  const NoGrad no_grad;
  std::vector<OptimTensor> batch;
  std::vector<Tensor> relaid;  // gradients copied into their parameter's layout
  for (int g = 0; g < num_groups(); ++g) {
    const int slots = slots_needed(g);
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
        if (!(grad.strides() == param.strides())) {
          const Tensor copy = empty_like(param);
          grad = relaid.emplace_back(copy.copy_(grad));
        }
        State& state = states_[index(g)][i];
        prepare(param, state, slots);
        OptimTensor& entry = batch.emplace_back();
        entry.param = param.view_for_kernel();
        entry.grad = grad.view_for_kernel();
        for (int s = 0; s < slots; ++s) entry.state[s] = state.slots[index(s)].view_for_kernel();
        entry.step = state.step;
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

void Optimizer::set_lr(double lr) {
  for (int g = 0; g < num_groups(); ++g) set_hyperparameter(g, "lr", lr);
}

void Optimizer::check_option(const char* optimizer, const char* name, double value, bool valid,
                             const char* expected) {
  WICK_CHECK(valid, optimizer, ": ", name, ": got ", value, ", expected ", expected);
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
      for (size_t s = 0; s < own.slots.size(); ++s) state[prefix + slot_names_[s]] = own.slots[s];
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
      for (const std::string& slot : slot_names_) {
        const auto found = state.find(prefix + slot);
        if (found == state.end()) break;
        ++used;
        WICK_CHECK(found->second.shape() == param.shape(), name_, ": load_state_dict: ", prefix,
                   slot, ": got shape ", found->second.shape(), ", expected ", param.shape());
        Tensor own = empty_like(param);
        own.copy_(found->second);
        states[i].slots.push_back(own);
      }
    }
    for (const auto& [name, value] : hyperparameters(g)) {
      WICK_CHECK(state.contains(concat("group.", g, ".", name)), name_,
                 ": load_state_dict: missing group.", g, ".", name);
      ++used;
    }
  }
  WICK_CHECK(used == state.size(), name_, ": load_state_dict: the state is for other parameters: ",
             state.size() - used, " of its ", state.size(), " entries fit none of these");
  for (int g = 0; g < num_groups(); ++g) {
    for (const auto& [name, value] : hyperparameters(g)) {
      set_hyperparameter(g, name, state.at(concat("group.", g, ".", name)).item());
    }
  }
  states_ = std::move(loaded);
}

}  // namespace wick::optim
