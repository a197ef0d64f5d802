#pragma once

#include <array>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "wick/nn/module.h"
#include "wick/optim/optim.h"

namespace wick::testing {

using Numbers = std::vector<double>;

/// A parameter in plain doubles, and what its optimizer keeps of it: 0 at first.
struct Reference {
  Shape shape;
  Numbers w;
  std::vector<std::array<double, 4>> states;  // of each element
  double number = 0;                          // of the tensor

  explicit Reference(const Tensor& param);
};

/// A parameter's update, written from the optimizer's definition in plain loops: changes p, given
/// its gradient and the number of the step (1 first).
using Rule = std::function<void(Reference& p, const Numbers& grad, int step)>;
/// One that does to each element the same.
Rule by_element(
    std::function<void(double& w, double g, std::array<double, 4>& state, int step)> rule);
double norm_of(const Numbers& x);

/// The gradient as most rules see it.
template <class Options>
double seen(const Options& o, double w, double g) {
  return (o.maximize ? -g : g) + o.weight_decay * w;
}

/// The passes over tensors of an optimizer that goes by norms.
inline constexpr int kMeasuresFirst = 2;

/// An optimizer with options, and what it should do.
struct OptimizerCase {
  std::string name;
  std::function<std::unique_ptr<optim::Optimizer>(std::vector<Tensor> params)> make;
  Rule rule;                // none: not compared with loops
  double tolerance = 2e-5;  // of float32; of float64 times 5e-8
  int passes = 1;  // over the tensors in a step, each of a few kernels; 0: other kernels too
};
/// The norm that the optimizer clips gradients to by itself, or 0.
double own_max_norm(const optim::Optimizer& optimizer);
bool clips(const OptimizerCase& test);
bool is_elementwise(const OptimizerCase& test);
inline std::ostream& operator<<(std::ostream& out, const OptimizerCase& one) {
  return out << one.name;
}

/// Adds one to optimizer_cases(): each optimizer's test has some, at least one under its name.
bool add_case(OptimizerCase added);
/// The same, of an O with options and the rule that `rule_of` makes of them.
template <class O>
bool add_case(const char* name, Rule (*rule_of)(const typename O::Options&),
              const typename O::Options& options = {}, int passes = 1) {
  OptimizerCase added{name, {}, rule_of(options)};
  added.make = [options](std::vector<Tensor> params) {
    return std::make_unique<O>(std::move(params), options);
  };
  added.passes = passes;
  return add_case(std::move(added));
}
/// All that were added, and every optimizer as `wick train` makes it.
std::vector<OptimizerCase> optimizer_cases();
/// Those of them that are `wanted`.
std::vector<OptimizerCase> cases_with(bool (*wanted)(const OptimizerCase&));

/// All hyperparameters: "lr 0.1, momentum 0.9".
template <class Options>
std::string all_of(const Options& options) {
  std::string all;
  for (const auto& field : Options::fields) {
    all += concat(all.empty() ? "" : ", ", field.name, " ", field.get(options));
  }
  return all;
}

/// An SGD of one weight, for schedules.
optim::SGD make_sgd(double lr = 0.1, double momentum = 0.9);

/// Numbers in [-1, 1), the same for the same seed.
std::vector<double> random_numbers(int64_t count, uint64_t seed);
/// Such numbers as a tensor.
Tensor random_tensor(const Shape& shape, uint64_t seed, Dtype dtype = kFloat32);
/// The buffers that the module has.
std::vector<Tensor> buffers_of(const nn::Module& module);
/// Adds the tensors of `part` to `all`, as they are now, with `prefix` before their names.
void add_copies(TensorMap& all, const std::string& prefix, const TensorMap& part);
/// Expects the same names with the same bits.
void expect_same(const TensorMap& got, const TensorMap& want);
/// The elements as doubles, in row-major order.
std::vector<double> doubles(const Tensor& tensor);

}  // namespace wick::testing
