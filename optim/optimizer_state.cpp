#include "wick/optim/optimizer.h"

#include <algorithm>

#include "wick/core/autograd.h"
#include "wick/core/ops/join.h"
#include "wick/optim/detail/count.h"

// What an optimizer keeps, and how it is saved and loaded.

namespace wick::optim {

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
      state[option_key(g, name)] = scalar_tensor(value, kFloat64);
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
                                       std::set<std::string>& used) const {
  const Tensor& param = groups_[index(group)][i];
  const std::string prefix = key_of(group, i);
  State loaded;
  const auto find = [&](const std::string& name) {
    const auto found = state.find(prefix + name);
    if (found == state.end()) return Tensor();
    used.insert(found->first);
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
  const int64_t steps = count_in(name_, prefix + "step", step);
  for (int s = 0; s < static_cast<int>(slot_names_.size()); ++s) {
    loaded.slots.push_back(take(slot_names_[index(s)], needs_slot(group, s),
                                [&] { return new_slot(group, s, param); }));
  }
  if (param.dtype() != state_dtype(param)) {
    loaded.master = take("master", true, [&] { return empty_like(param, kFloat32); });
  }
  std::optional<double> own = 0;
  if (own_number_) {
    const Tensor found = find(own_number_);
    const bool has_slots = std::any_of(loaded.slots.begin(), loaded.slots.end(),
                                       [](const Tensor& slot) { return slot.defined(); });
    own = found.defined() ? found.item() : own_number_of(steps, has_slots);
    WICK_CHECK(own.has_value(), name_, ": load_state_dict: missing ", prefix, own_number_);
  }
  loaded.numbers = tensor({static_cast<double>(steps), *own}).to(param.device());
  return loaded;
}

std::vector<Optimizer::Hyperparameters> Optimizer::load_hyperparameters(
    const StateDict& state) const {
  std::vector<Hyperparameters> loaded;
  for (int g = 0; g < num_groups(); ++g) {
    Hyperparameters& values = loaded.emplace_back(hyperparameters(g));
    for (auto& [name, value] : values) {
      const auto found = state.find(option_key(g, name));
      WICK_CHECK(found != state.end() && found->second.defined(), name_,
                 ": load_state_dict: missing ", option_key(g, name));
      value = found->second.item();
    }
  }
  return loaded;
}

void Optimizer::complete(State& loaded, int group, size_t i) const {
  if (!device_rates_[index(group)].defined()) return;  // no step of it can be captured
  const State& state = states_[index(group)][i];
  loaded.slots.resize(std::max(loaded.slots.size(), state.slots.size()));
  for (size_t s = 0; s < state.slots.size(); ++s) {
    if (!state.slots[s].defined() || loaded.slots[s].defined()) continue;
    loaded.slots[s] = new_slot(group, static_cast<int>(s), groups_[index(group)][i]);
  }
  const auto make = [](Tensor& one, const Tensor& like) {
    if (like.defined() && !one.defined()) one = zeros_like(like);
  };
  make(loaded.master, state.master);
  make(loaded.numbers, state.numbers);
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
    std::set<std::string> used;
    for (int g = 0; g < num_groups(); ++g) {
      for (const auto& [name, value] : options[index(g)]) used.insert(option_key(g, name));
      auto& states = loaded.emplace_back();
      for (size_t i = 0; i < groups_[index(g)].size(); ++i) {
        states.push_back(load_state(state, g, i, used));
        complete(states.back(), g, i);
      }
    }
    for (const auto& [name, value] : state) {
      WICK_CHECK(
          used.contains(name), name_,
          ": load_state_dict: the state is for other parameters: ", state.size() - used.size(),
          " of its ", state.size(), " entries fit none of these: ", name, " is the first");
    }
    for (int g = 0; g < num_groups(); ++g) {
      std::vector<State>& states = loaded[index(g)];
      for (size_t i = 0; i < states.size(); ++i) {
        take_over(states_[index(g)][i], std::move(states[i]));
      }
    }
  } catch (...) {
    set_hyperparameters(before);
    throw;
  }
}

}  // namespace wick::optim
