#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "wick/core/tensor.h"
#include "wick/kernels/optim.h"
#include "wick/optim/sharding.h"

namespace wick::optim {

/// Error unless `value` is finite and 0 or more.
void check_not_negative(std::string_view who, std::string_view name, double value);
/// Error unless `value` is in [0, 1).
void check_below_one(std::string_view who, std::string_view name, double value);

/// A number, switch or choice in a struct of options, by name. A struct lists its own after its
/// members:
///   static constexpr NumberField<SGDOptions> fields[] = {number_field<&SGDOptions::lr>("lr"),
///   ...};
/// An array of one type: a tuple of members took a quarter of the time to compile these headers.
template <class Options>
struct NumberField {
  const char* name;
  double (*get)(const Options& options);
  void (*set)(Options& options, double value);
};

namespace detail {
template <auto kMember>
struct NumberMember;
template <class Options, class T, T Options::*kMember>
struct NumberMember<kMember> {
  static double get(const Options& options) { return static_cast<double>(options.*kMember); }
  static void set(Options& options, double value) { options.*kMember = static_cast<T>(value); }
  static constexpr NumberField<Options> named(const char* name) { return {name, get, set}; }
};
}  // namespace detail

template <auto kMember>
constexpr auto number_field(const char* name) {
  return detail::NumberMember<kMember>::named(name);
}

/// Parameters that share hyperparameters.
template <class Options>
struct ParamGroup {
  std::vector<Tensor> params;
  Options options = {};
};

/// State by name, as checkpoints keep it: tensors as they are, numbers as tensors of rank 0.
using StateDict = std::map<std::string, Tensor>;

/// What a step may be told, in tensors on the parameters' device, so that the host does not wait:
/// undefined where it is not needed.
struct StepControl {
  Tensor grad_scale = {};  // float32, rank 0: gradients are divided by it
  Tensor found_inf = {};   // float32, rank 0: unless it is 0, the step changes nothing at all
  /// Gradients are scaled together so that their norm, over all groups, is at most this, within the
  /// update: they stay as they are. A norm that is not finite makes parameters NaN.
  std::optional<double> max_norm = {};
  /// A norm that is not finite makes the step change nothing at all instead, with max_norm or
  /// without: found_inf_of() the norm tells others of it.
  bool skip_non_finite = false;
  Tensor grad_norm = {};  // float64, rank 0: their norm, divided, if it is known already
};

/// 1 if a norm that step() returned is not finite, else 0, as a float32 tensor of rank 0: for what
/// else a skipped step must not change (Rollback, Ema, DeviceSchedule). The host does not wait.
Tensor found_inf_of(const Tensor& norm);

/// Updates parameters from their gradients, all of a group in a few fused kernels. Parameters are
/// float32, float64, or float16 and bfloat16: those have float32 state and a float32 master copy,
/// which is what is updated. How often each was updated is counted where it is.
class Optimizer {
 public:
  /// Hyperparameters by name.
  using Hyperparameters = std::vector<std::pair<std::string, double>>;

  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates every parameter that has a gradient; the others, frozen ones among them, and their
  /// state, stay untouched.
  /// Returns the norm of the gradients (float64, rank 0) if it was needed to clip or to skip by,
  /// else an undefined tensor.
  Tensor step(const StepControl& control = {});
  /// Whether a parameter that the newest step() had to do with is infinite or NaN behind it, as one
  /// is that had such a gradient: 1 or 0, as an int32 tensor of rank 0 on their device. The update
  /// itself looks, and the host does not wait. Undefined before a step, and without check_finite.
  Tensor non_finite() const;
  /// Whether steps look for such parameters; they do unless told otherwise.
  void set_check_finite(bool check) { checks_finite_ = check; }
  /// Forgets the gradients, or with `set_to_none = false` sets them to zero. The two differ: step()
  /// skips a parameter without a gradient, while a zero gradient still lets weight decay and
  /// momentum move it.
  void zero_grad(bool set_to_none = true);

  /// Adds a group: its hyperparameters are those given, the others those that the first group was
  /// made with. A schedule made before leaves the group alone. Error, and nothing changed, for a
  /// parameter that is there already, and for an optimizer that is sharded or capturable.
  virtual void add_param_group(std::vector<Tensor> params, const Hyperparameters& values = {}) = 0;

  /// "adamw"
  const char* name() const { return name_; }
  int num_groups() const { return static_cast<int>(groups_.size()); }  // of parameters
  /// What is updated: the parameters of a group, or this rank's part of each.
  const std::vector<Tensor>& params(int group) const { return groups_[existing(group)]; }

  /// A hyperparameter of a group by its name in the options; undefined if there is none.
  virtual std::optional<double> hyperparameter(int group, std::string_view name) const = 0;
  /// Changes one; errors as those of set_hyperparameters.
  void set_hyperparameter(int group, std::string_view name, double value);
  /// Changes of each group those named. Error, and nothing changed, if there is none of a name, a
  /// value is out of its range, or the values of a group do not go together.
  virtual void set_hyperparameters(const std::vector<Hyperparameters>& groups) = 0;
  /// Error unless the value is in the range that hyperparameters of that name have: finite and 0 or
  /// more, of beta1 and beta2 below 1, or what the options' `check_value` says.
  virtual void check_hyperparameter(std::string_view name, double value) const;
  /// The learning rate of the group.
  double lr(int group = 0) const { return hyperparameter(group, "lr").value(); }
  /// What the optimizer's momentum is called, if it has one: "beta1" or "momentum".
  const char* momentum_name() const;
  /// Gives a group, or all of them, a rate that schedules made from now on start from.
  void set_lr(int group, double lr);
  void set_lr(double lr);
  /// The rate that schedules start from: the group's when it was first asked for, or `otherwise` if
  /// that was given then, so that a second schedule does not start from what the first one made of
  /// it.
  double base_lr(int group, std::optional<double> otherwise = {});

  /// The learning rate and the momentum (or beta1) of a group as a float64 tensor of two elements
  /// on the device of its parameters. From the first call on steps read them there, so that a
  /// captured step follows them; schedules and set_hyperparameter write them there too.
  Tensor device_rates(int group);
  /// The same for all groups: error in a capture (CudaGraph) to take a step without, or to set
  /// hyperparameters, which each replay would set again.
  void make_capturable();

  /// Everything that a resumed run needs beside the parameters: their state, steps, options. Of one
  /// that ranks share: all call it, the first gets all of it, on the host, the others nothing.
  StateDict state_dict() const;
  /// Takes all of it over. Error, and nothing changed, if it does not fit these parameters.
  void load_state_dict(const StateDict& state);
  /// Bytes of all that is kept beside parameters and gradients.
  int64_t state_bytes() const;

  /// Whether an element's update depends on nothing of the other elements.
  virtual bool is_elementwise() const { return true; }
  /// Works on `parts` of the parameters from now on, and keeps the state of those alone; what they
  /// are to the parameters `sharding` says. For dist::shard_optimizer.
  void shard(std::vector<std::vector<Tensor>> parts, std::shared_ptr<Sharding> sharding);
  /// Null unless ranks share the state.
  Sharding* sharding() const { return sharding_.get(); }

 protected:
  /// `slots` names the state tensors kept for each parameter, `own_number` what its own number is.
  Optimizer(const char* name, std::vector<std::vector<Tensor>> groups,
            std::vector<std::string> slots, const char* own_number);

  /// Whether a group needs its `slot`-th state tensors now (with momentum 0, SGD keeps none).
  virtual bool needs_slot(int group, int slot) const;
  /// The own number in a state of `steps` updates that was saved before there was one, with state
  /// tensors or without; none: such a state will not do.
  virtual std::optional<double> own_number_of(int64_t steps, bool has_slots) const;
  /// What a state tensor is at first: zeros like the parameter unless overridden.
  virtual Tensor new_slot(int group, int slot, const Tensor& param) const;
  /// The norm that gradients are clipped to in any step; none if it is none of the optimizer's own.
  virtual std::optional<double> own_max_norm(int group) const;
  /// Error for a gradient that update() cannot take: a sparse one (core/sparse_rows.h), unless
  /// overridden, whose rows are updated alone, with those of the state.
  virtual void check_gradient(int group, const Tensor& gradient) const;
  /// The error for a sparse gradient; `why` says what does not go with it.
  [[noreturn]] void refuse_sparse(const Tensor& gradient, const char* why) const;
  /// Makes what update() of the same arguments needs beside them. Called for all before the first
  /// update(), so that a step that fails here, as for lack of memory, has changed nothing.
  virtual void prepare_update(int group, const std::vector<OptimTensor>& tensors,
                              const OptimStep& step);
  /// Updates `tensors`, which are of one device and dtype, with the group's options.
  virtual void update(int group, const std::vector<OptimTensor>& tensors,
                      const OptimStep& step) = 0;
  virtual Hyperparameters hyperparameters(int group) const = 0;
  /// Throws the error of a hyperparameter that this optimizer does not have.
  [[noreturn]] void refuse_hyperparameter(std::string_view name) const;

  /// Writes a group's rates to their device, if they are kept there.
  void write_device_rates(int group);
  void refuse_to_set_in_capture() const;
  /// Adds a group without hyperparameters. Error, and nothing changed, if it cannot be.
  void append_group(std::vector<Tensor> params);

  /// The group as an index into a vector.
  static size_t index(int group) { return static_cast<size_t>(group); }
  /// The same. Error if there is no such group.
  size_t existing(int group) const;

 private:
  struct State {
    std::vector<Tensor> slots;  // one per name, undefined if not needed so far
    Tensor master;              // float32, with a 16-bit parameter
    Tensor numbers;             // float64, 2: updates so far, and the optimizer's own
  };
  /// What state and arithmetic of a parameter are.
  static Dtype state_dtype(const Tensor& param);
  void check_dtype(const Tensor& param) const;
  /// Error unless these parameters can be group number `group`, beside those before it.
  void check_params(int group, const std::vector<Tensor>& params) const;
  void check_control(const Tensor& value, const char* what, Dtype dtype, Device device) const;
  /// What the kernel needs to know of a parameter, but for its gradient.
  OptimTensor prepare(int group, size_t i);
  struct Update;
  /// Has `entry` name copies of the rows that a sparse gradient has; `update` writes them back.
  void gather_rows(int group, size_t i, const Tensor& grad, OptimTensor& entry, Update& update);
  /// Adds the update of those parameters of a group that are like its `first`, and sets their
  /// `done`.
  void prepare_alike(int group, size_t first, std::vector<bool>& done, const OptimStep& step,
                     std::vector<Update>& updates);
  /// Has the updates look for parameters that are not finite.
  void look_for_non_finite(std::vector<Update>& updates);
  /// The norm of all gradients, divided by `grad_scale` if that is defined.
  Tensor grad_norm(const Tensor& grad_scale) const;
  /// The two numbers of each of a group's parameters, 0 for those without state.
  std::vector<std::array<double, 2>> read_numbers(int group) const;
  State load_state(const StateDict& state, int group, size_t i, std::set<std::string>& used) const;
  /// Makes what a captured step works on, but what was loaded does not have, as it is at first.
  void complete(State& loaded, int group, size_t i) const;
  static void take_over(State& state, State loaded);
  /// Those of each group. Error for one that is missing.
  std::vector<Hyperparameters> load_hyperparameters(const StateDict& state) const;
  const Tensor& whole(int group, size_t i) const {
    return sharding_ ? sharding_->parameter(group, i) : groups_[index(group)][i];
  }
  static std::string option_key(int group, std::string_view name) {
    return concat("group.", group, ".", name);
  }
  std::string key_of(int group, size_t i) const { return concat("state.", group, ".", i, "."); }

  const char* name_;
  std::vector<std::vector<Tensor>> groups_;
  std::vector<std::vector<State>> states_;
  std::vector<std::string> slot_names_;
  const char* own_number_;
  std::vector<std::optional<double>> base_lrs_;
  std::vector<Tensor> device_rates_;  // one per group, undefined unless asked for
  std::shared_ptr<Sharding> sharding_;
  bool checks_finite_ = true;
  Tensor non_finite_;
};

/// An optimizer whose hyperparameters are the fields of its options. What they may be together
/// their `check` says, if they have one, and what each may be their `check_value(name, value)`,
/// which returns false for one that it does not check.
template <class OptionsType>
class OptimizerOf : public Optimizer {
 public:
  using Options = OptionsType;
  /// The hyperparameters of a group, as they were given or last set.
  const Options& options(int group = 0) const { return options_.at(existing(group)); }

  std::optional<double> hyperparameter(int group, std::string_view name) const override {
    const NumberField<Options>* field = find(name);
    return field ? std::optional(field->get(options_.at(existing(group)))) : std::nullopt;
  }
  void check_hyperparameter(std::string_view name, double value) const override {
    if constexpr (requires { Options::check_value(name, value); }) {
      if (Options::check_value(name, value)) return;
    }
    Optimizer::check_hyperparameter(name, value);
  }
  void add_param_group(std::vector<Tensor> params, const Hyperparameters& values = {}) override {
    Options options = defaults_;
    for (const auto& [name, value] : values) set_field(options, name, value);
    check_together(options);
    options_.reserve(options_.size() + 1);
    append_group(std::move(params));
    options_.push_back(options);
  }
  void set_hyperparameters(const std::vector<Hyperparameters>& groups) override {
    WICK_CHECK(groups.size() == options_.size(), "optimizer: hyperparameters: got those of ",
               groups.size(), " groups, expected ", options_.size());
    refuse_to_set_in_capture();
    std::vector<Options> changed = options_;
    for (size_t g = 0; g < groups.size(); ++g) {
      for (const auto& entry : groups[g]) set_field(changed[g], entry.first, entry.second);
      check_together(changed[g]);
    }
    options_ = std::move(changed);
    for (size_t g = 0; g < groups.size(); ++g) {
      if (!groups[g].empty()) write_device_rates(static_cast<int>(g));
    }
  }

 protected:
  /// As the constructor of Optimizer. Error for hyperparameters out of their range, or that do not
  /// go together. Groups added later start from the first group's.
  OptimizerOf(const char* name, std::vector<ParamGroup<Options>> groups,
              std::vector<std::string> slots, const char* own_number = nullptr)
      : Optimizer(name, params_of(groups), std::move(slots), own_number) {
    for (const auto& group : groups) {
      for (const auto& field : Options::fields) {
        check_hyperparameter(field.name, field.get(group.options));
      }
      check_together(group.options);
      options_.push_back(group.options);
    }
    defaults_ = options_[0];
  }
  Hyperparameters hyperparameters(int group) const override {
    Hyperparameters all;
    for (const auto& field : Options::fields) {
      all.emplace_back(field.name, field.get(options_.at(existing(group))));
    }
    return all;
  }

 private:
  static const NumberField<Options>* find(std::string_view name) {
    for (const auto& field : Options::fields) {
      if (name == field.name) return &field;
    }
    return nullptr;
  }
  void set_field(Options& options, std::string_view name, double value) const {
    const NumberField<Options>* field = find(name);
    if (!field) refuse_hyperparameter(name);
    check_hyperparameter(name, value);
    field->set(options, value);
  }
  static void check_together(const Options& options) {
    if constexpr (requires { options.check(); }) options.check();
  }
  static std::vector<std::vector<Tensor>> params_of(
      const std::vector<ParamGroup<Options>>& groups) {
    std::vector<std::vector<Tensor>> params;
    for (const auto& group : groups) params.push_back(group.params);
    return params;
  }

  std::vector<Options> options_;
  Options defaults_;  // of groups that are added
};

}  // namespace wick::optim
