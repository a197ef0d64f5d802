#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "wick/core/autograd.h"
#include "wick/tests/golden/golden.h"
#include "wick/tests/harness/host_array.h"

namespace wick::golden {

using nlohmann::json;

Args Case::args() const { return Args(json->at("args")); }

int64_t Case::integer(const std::string& key) const {
  WICK_CHECK(json->contains(key) && json->at(key).is_number_integer(), "'", key,
             "' is missing or not an integer");
  return json->at(key).get<int64_t>();
}

double Case::number(const std::string& key) const {
  WICK_CHECK(json->contains(key) && json->at(key).is_number(), "'", key,
             "' is missing or not a number");
  return json->at(key).get<double>();
}

const Tensor& Case::tensor(const std::string& tensor_name) const {
  const auto found = tensors.find(tensor_name);
  WICK_CHECK(found != tensors.end(), "tensor '", tensor_name, "' is not in the file");
  return found->second;
}

void Case::expect(const std::string& what, const Tensor& got, const std::string& want) const {
  const Tensor& reference = tensor(want);
  WICK_CHECK(got.defined(), what, ": there is none, expected shape ", reference.shape());
  WICK_CHECK(got.shape() == reference.shape(), what, ": shape is ", got.shape(), ", expected ",
             reference.shape());
  WICK_CHECK(got.dtype() == reference.dtype(), what, ": dtype is ", got.dtype(), ", expected ",
             reference.dtype());
  const testing::HostArray g = testing::read(got.detach());
  const testing::HostArray w = testing::read(reference);
  size_t worst = 0;
  double worst_excess = 0;
  size_t wrong = 0;
  for (size_t i = 0; i < w.values.size(); ++i) {
    if (g.values[i] == w.values[i]) continue;
    if (equal_nan && std::isnan(g.values[i]) && std::isnan(w.values[i])) continue;
    const double allowed = atol + rtol * std::fabs(w.values[i]);
    const double error = std::fabs(g.values[i] - w.values[i]);
    if (error <= allowed && std::isfinite(w.values[i])) continue;
    const double excess = std::isnan(error) ? HUGE_VAL : error / allowed;
    if (wrong++ == 0 || excess > worst_excess) {
      worst = i;
      worst_excess = excess;
    }
  }
  WICK_CHECK(wrong == 0, what, ": ", wrong, " of ", w.values.size(),
             " elements are wrong, the worst is element ", worst, " of shape ", w.shape, ": got ",
             g.values[worst], ", expected ", w.values[worst]);
}

namespace {

std::vector<std::string> names(const Case& golden_case, const char* key) {
  const json& list = golden_case.json->at(key);
  return list.get<std::vector<std::string>>();
}

void run_op_case(const OpFunction& op, const Case& golden_case) {
  const std::vector<std::string> grads = golden_case.json->contains("grads")
                                             ? names(golden_case, "grads")
                                             : std::vector<std::string>();
  Inputs inputs;
  Tensors leaves;
  for (const std::string& name : names(golden_case, "inputs")) {
    const Tensor input = golden_case.tensor(name).to(golden_case.device).detach();
    if (std::find(grads.begin(), grads.end(), name) != grads.end()) input.set_requires_grad();
    inputs.add(name, input);
  }
  for (const std::string& name : grads) leaves.push_back(inputs[name]);

  Args args = golden_case.args();
  const Tensors outputs = op(inputs, args);
  args.finish();
  const std::vector<std::string> wanted = names(golden_case, "outputs");
  WICK_CHECK(outputs.size() == wanted.size(), "there are ", outputs.size(), " outputs, expected ",
             wanted.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    golden_case.expect("output " + wanted[i], outputs[i], wanted[i]);
  }
  if (grads.empty()) return;

  Tensors differentiated, incoming;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string name = "g" + wanted[i];
    if (golden_case.tensors.count(name) == 0) continue;
    differentiated.push_back(outputs[i]);
    incoming.push_back(golden_case.tensor(name).to(golden_case.device));
  }
  const Tensors got = grad(differentiated, leaves, incoming, false, false, true);
  for (size_t i = 0; i < grads.size(); ++i) {
    golden_case.expect("gradient of " + grads[i], got[i], "grad_" + grads[i]);
  }
}

}  // namespace

Runner op_runner(const OpTable& table) {
  return [table](const Case& golden_case) {
    const auto op = table.find(golden_case.op);
    WICK_CHECK(op != table.end(), "unknown op '", golden_case.op, "'");
    run_op_case(op->second, golden_case);
  };
}

std::map<std::string, Runner>& families() {
  static std::map<std::string, Runner> all;
  return all;
}

}  // namespace wick::golden
