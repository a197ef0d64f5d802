// Every op of the program must be tested by a case.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "wick/core/apply.h"
#include "wick/core/stream.h"
#include "wick/tests/harness/graph_ops.h"
#include "wick/tests/harness/half_exceptions.h"
#include "wick/tests/harness/op_case.h"

namespace wick::testing {
namespace {

// Gradients of `first`, which are gradients themselves, with respect to everything.
Tensors second_gradients(const Tensors& first, Tensors inputs, const Tensors& incoming) {
  Tensors outputs, ones;
  for (const Tensor& gradient : first) {
    if (!gradient.defined() || !gradient.requires_grad()) continue;
    outputs.push_back(gradient);
    ones.push_back(ones_like(gradient.detach()).set_requires_grad());
  }
  inputs.insert(inputs.end(), incoming.begin(), incoming.end());
  return grad(outputs, inputs, ones, false, true, true);
}

// Ops found in the graphs of the gradients that a case checks, and those it names.
std::set<std::string> ops_of(const OpCase& op_case) {
  std::set<std::string> names(op_case.covers.begin(), op_case.covers.end());
  if (!op_case.differentiable) return names;
  for (size_t i = 0; i < op_case.samples.size(); ++i) {
    const Sample& sample = op_case.samples[i];
    if (largest_input(sample) > kLargeSample) continue;
    const Arrays arrays = make_inputs(op_case, i);
    Tensors inputs, wanted;
    for (size_t j = 0; j < sample.size(); ++j) {
      inputs.push_back(make_tensor(arrays[j], sample[j].dtype.value_or(kFloat64)));
      if (!sample[j].grad || !is_floating(inputs[j].dtype())) continue;
      inputs[j].set_requires_grad();
      wanted.push_back(inputs[j]);
    }
    Tensors outputs, incoming;
    for (const Tensor& output : op_case.call(inputs)) {
      if (!output.requires_grad()) continue;
      outputs.push_back(output);
      incoming.push_back(ones_like(output.detach()).set_requires_grad());
    }
    for (const std::string& name : graph_ops(outputs)) names.insert(name);
    if (!op_case.second_order || outputs.empty()) continue;
    const Tensors first = grad(outputs, wanted, incoming, false, true, true);
    for (const std::string& name : graph_ops(first)) names.insert(name);
    for (const std::string& name : graph_ops(second_gradients(first, wanted, incoming))) {
      names.insert(name);
    }
  }
  return names;
}

TEST(Coverage, EveryOpHasACase) {
  std::set<std::string> covered;
  for (const OpCase& op_case : op_cases()) {
    const std::set<std::string> names = ops_of(op_case);
    const bool goes_nowhere = op_case.name == "to_device" && !cuda_is_available();
    if (op_case.differentiable && has_samples(op_case, false) && !goes_nowhere) {
      EXPECT_FALSE(names.empty()) << op_case.name << " covers no op";
    }
    covered.insert(names.begin(), names.end());
  }
  if (!cuda_is_available()) covered.insert("to_device");  // there is nowhere to go
  covered.insert("check_index");  // applied within a trace alone: graph_DTYPE of gather
  for (const OpType* type : registered_ops()) {
    const std::string name = type->info.name;
    // A gradient kernel without a gradient of its own runs in the gradients of its op's case.
    const size_t suffix = name.rfind("_backward");
    const bool in_gradients = !type->info.differentiable && suffix != std::string::npos &&
                              covered.contains(name.substr(0, suffix));
    if (!covered.contains(name) && !in_gradients) ADD_FAILURE() << "no case covers the op " << name;
  }
}

TEST(Coverage, NamesOnlyOpsThatExist) {
  for (const OpCase& op_case : op_cases()) {
    for (const std::string& name : op_case.covers) {
      const auto ops = registered_ops();
      EXPECT_TRUE(std::any_of(ops.begin(), ops.end(),
                              [&](const OpType* type) { return type->info.name == name; }))
          << op_case.name << " names " << name;
    }
  }
}

bool has_dtype(const OpCase& op_case, Dtype dtype) {
  return std::count(op_case.dtypes.begin(), op_case.dtypes.end(), dtype) > 0;
}

TEST(Coverage, DifferentiableCasesHave16BitDtypes) {
  std::set<std::string_view> excepted;
  for (const FullPrecisionCase& one : kFullPrecisionCases) excepted.insert(one.op_case);
  for (const OpCase& op_case : op_cases()) {
    if (!op_case.differentiable) continue;
    const bool all = has_dtype(op_case, kFloat16) && has_dtype(op_case, kBFloat16);
    EXPECT_NE(all, excepted.erase(op_case.name) == 1)
        << op_case.name << (all ? " is no exception (half_exceptions.h)" : " has no 16-bit dtypes");
  }
  for (const std::string_view name : excepted) ADD_FAILURE() << "no differentiable case " << name;
}

}  // namespace
}  // namespace wick::testing
