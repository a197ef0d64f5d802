#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wick/core/fields.h"
#include "wick/core/tensor.h"
#include "wick/kernels/optim.h"

namespace wick::optim {

/// Parameters that share hyperparameters.
template <class Options>
struct ParamGroup {
  std::vector<Tensor> params;
  Options options = {};
};

/// State by name, as checkpoints keep it: tensors as they are, numbers as tensors of rank 0.
using StateDict = std::map<std::string, Tensor>;

/// Updates parameters from their gradients, all of a group in one fused kernel.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates every parameter that has a gradient; the others, and their state, stay untouched.
  void step();
  /// Forgets the gradients, or with `set_to_none = false` sets them to zero. The two differ: step()
  /// skips a parameter without a gradient, while a zero gradient still lets weight decay and
  /// momentum move it.
  void zero_grad(bool set_to_none = true);

  int num_groups() const { return static_cast<int>(groups_.size()); }
  const std::vector<Tensor>& params(int group) const { return groups_.at(index(group)); }

  /// A hyperparameter of a group by its name in the options; undefined if there is none.
  virtual std::optional<double> hyperparameter(int group, std::string_view name) const = 0;
  /// Changes one; error if there is none of that name.
  virtual void set_hyperparameter(int group, std::string_view name, double value) = 0;
  double lr(int group = 0) const { return hyperparameter(group, "lr").value(); }
  /// Gives a group, or all of them, a rate that schedules made from now on start from.
  void set_lr(int group, double lr);
  void set_lr(double lr);
  /// The rate that schedules start from: the group's when it was first asked for, so that a second
  /// schedule does not start from what the first one made of it.
  double base_lr(int group);

  /// Everything that a resumed run needs beside the parameters: their state, steps, options.
  StateDict state_dict() const;
  /// Takes all of it over. Error, and nothing changed, if it does not fit these parameters.
  void load_state_dict(const StateDict& state);

 protected:
  /// `slots` names the state tensors kept for each parameter.
  Optimizer(const char* name, std::vector<std::vector<Tensor>> groups,
            std::vector<std::string> slots);

  /// Whether a group needs its `slot`-th state tensors now (with momentum 0, SGD keeps none).
  virtual bool needs_slot(int group, int slot) const;
  /// What a state tensor is at first: zeros like the parameter unless overridden.
  virtual Tensor new_slot(int group, int slot, const Tensor& param) const;
  /// Updates `tensors`, which are of one device and dtype, with the group's options.
  virtual void update(int group, const std::vector<OptimTensor>& tensors) = 0;
  /// Hyperparameters by name.
  virtual std::vector<std::pair<std::string, double>> hyperparameters(int group) const = 0;

  /// Error unless the value is in the range that hyperparameters of that name have.
  void check_hyperparameter(std::string_view name, double value) const;

  static size_t index(int group) { return static_cast<size_t>(group); }

 private:
  struct State {
    int64_t step = 0;
    std::vector<Tensor> slots;  // one per name, undefined if not needed so far
  };
  void check_dtype(const Tensor& param) const;
  /// Counts a step of a parameter; what the kernel needs to know of it, but for the gradient.
  OptimTensor prepare(int group, size_t i);

  const char* name_;
  std::vector<std::vector<Tensor>> groups_;
  std::vector<std::vector<State>> states_;
  std::vector<std::string> slot_names_;
  std::vector<std::optional<double>> base_lrs_;
};

/// An optimizer whose hyperparameters are the fields of its options.
template <class OptionsType>
class OptimizerOf : public Optimizer {
 public:
  using Options = OptionsType;
  const Options& options(int group = 0) const { return options_.at(index(group)); }

  std::optional<double> hyperparameter(int group, std::string_view name) const override {
    std::optional<double> found;
    for_each_field(options_.at(index(group)), [&](const char* field, const auto& value) {
      if (name == field) found = static_cast<double>(value);
    });
    return found;
  }
  void set_hyperparameter(int group, std::string_view name, double value) override {
    bool found = false;
    for_each_field(options_.at(index(group)), [&](const char* field, auto& target) {
      if (name != field) return;
      target = static_cast<std::decay_t<decltype(target)>>(value);
      found = true;
    });
    WICK_CHECK(found, "optimizer: no hyperparameter named ", name);
  }

 protected:
  OptimizerOf(const char* name, std::vector<ParamGroup<Options>> groups,
              std::vector<std::string> slots)
      : Optimizer(name, params_of(groups), std::move(slots)) {
    for (const auto& group : groups) {
      for_each_field(group.options, [&](const char* field, const auto& value) {
        check_hyperparameter(field, static_cast<double>(value));
      });
      options_.push_back(group.options);
    }
  }
  std::vector<std::pair<std::string, double>> hyperparameters(int group) const override {
    std::vector<std::pair<std::string, double>> all;
    for_each_field(options_.at(index(group)), [&](const char* field, const auto& value) {
      all.emplace_back(field, static_cast<double>(value));
    });
    return all;
  }

 private:
  static std::vector<std::vector<Tensor>> params_of(
      const std::vector<ParamGroup<Options>>& groups) {
    std::vector<std::vector<Tensor>> params;
    for (const auto& group : groups) params.push_back(group.params);
    return params;
  }

  std::vector<Options> options_;
};

}  // namespace wick::optim
