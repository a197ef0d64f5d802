#include "wick/tests/optim/reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "wick/core/base/philox.h"
#include "wick/tests/harness/host_array.h"

namespace wick::testing {

using namespace optim;

namespace {

std::vector<OptimizerCase>& added_cases() {
  static std::vector<OptimizerCase> cases;
  return cases;
}

}  // namespace

Reference::Reference(const Tensor& param)
    : shape(param.shape()), w(doubles(param)), states(w.size()) {}

Rule by_element(
    std::function<void(double& w, double g, std::array<double, 4>& state, int step)> rule) {
  return [rule = std::move(rule)](Reference& p, const Numbers& grad, int step) {
    for (size_t i = 0; i < grad.size(); ++i) rule(p.w[i], grad[i], p.states[i], step);
  };
}

double norm_of(const Numbers& x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return std::sqrt(sum);
}

double own_max_norm(const Optimizer& optimizer) {
  return optimizer.hyperparameter(0, "max_grad_norm").value_or(0);
}

bool clips(const OptimizerCase& test) {
  return own_max_norm(*test.make({zeros({3}).set_requires_grad()})) > 0;
}

bool is_elementwise(const OptimizerCase& test) {
  return test.make({zeros({3}).set_requires_grad()})->is_elementwise();
}

bool add_case(OptimizerCase added) {
  added_cases().push_back(std::move(added));
  return true;
}

std::vector<OptimizerCase> optimizer_cases() {
  std::vector<OptimizerCase> cases = added_cases();
  for (const std::string& name : optimizer_names()) {
    OptimizerCase one{name + "_by_name", {}, {}};
    const OptimizerEntry& entry = find_optimizer(name);
    one.make = [&entry](const std::vector<Tensor>& params) {
      return entry.make(params, 0.01, 0.1);
    };
    one.passes = 0;
    cases.push_back(std::move(one));
  }
  std::sort(cases.begin(), cases.end(),
            [](const OptimizerCase& a, const OptimizerCase& b) { return a.name < b.name; });
  return cases;
}

std::vector<OptimizerCase> cases_with(bool (*wanted)(const OptimizerCase&)) {
  std::vector<OptimizerCase> cases = optimizer_cases();
  std::erase_if(cases, [&](const OptimizerCase& one) { return !wanted(one); });
  return cases;
}

SGD make_sgd(double lr, double momentum) {
  return SGD({zeros({1}).set_requires_grad()}, {.lr = lr, .momentum = momentum});
}

std::vector<double> random_numbers(int64_t count, uint64_t seed) {
  PhiloxStream stream(seed, 0);
  std::vector<double> numbers;
  for (int64_t i = 0; i < count; ++i) {
    numbers.push_back(2 * static_cast<double>(stream.uniform()) - 1);
  }
  return numbers;
}

Tensor random_tensor(const Shape& shape, uint64_t seed, Dtype dtype) {
  return tensor(random_numbers(shape.numel(), seed), shape).to(dtype);
}

std::vector<Tensor> buffers_of(const nn::Module& module) {
  std::vector<Tensor> buffers;
  for (const auto& [name, buffer] : module.named_buffers()) buffers.push_back(buffer);
  return buffers;
}

void add_copies(TensorMap& all, const std::string& prefix, const TensorMap& part) {
  for (const auto& [name, value] : part) all[prefix + name] = value.cpu().clone();
}

void expect_same(const TensorMap& got, const TensorMap& want) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, value] : want) {
    ASSERT_TRUE(got.contains(name)) << name;
    EXPECT_TRUE(bit_equal(got.at(name), value)) << name;
  }
}

std::vector<double> doubles(const Tensor& tensor) {
  return tensor.to(kFloat64).to_vector<double>();
}

}  // namespace wick::testing
