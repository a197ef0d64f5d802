#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "wick/nn/module.h"
#include "wick/optim/optim.h"

namespace wick::testing {

/// One element's update, written from the optimizer's definition in plain doubles: changes w, given
/// its gradient, its state (0 at first) and the number of the step (1 first).
using Rule = std::function<void(double& w, double g, std::array<double, 4>& state, int step)>;

/// An optimizer with options, and what it should do.
struct OptimizerCase {
  std::string name;
  std::function<std::unique_ptr<optim::Optimizer>(std::vector<Tensor> params)> make;
  Rule rule;
};

/// Every optimizer with its defaults and with all options.
std::vector<OptimizerCase> optimizer_cases();
/// These and, without a rule, those that go by norms.
std::vector<OptimizerCase> every_optimizer_case();

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
