// Runs the cases of modules of make_module_cases.py.
#include "wick/tests/golden/module.h"

#include <cmath>
#include <set>

#include "wick/core/autograd.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/random.h"

namespace wick::golden {
namespace {

using nlohmann::json;

ModuleSpellings& modules() {
  static ModuleSpellings all;
  return all;
}

Dtype dtype_of(const Case& c) {
  return c.json->at("dtype").get<std::string>() == "float64" ? kFloat64 : kFloat32;
}

std::set<std::string> state_names(const Case& c) {
  const auto names = c.json->at("state").get<std::vector<std::string>>();
  return {names.begin(), names.end()};
}

// What the module consists of: PyTorch's parameters in the same order, and the same state.
void expect_parts(const Case& c, const nn::Module& module) {
  std::vector<std::string> parameters;
  for (const auto& entry : module.named_parameters()) parameters.push_back(entry.first);
  const json wanted = c.json->at("parameters");
  WICK_CHECK(json(parameters) == wanted, "parameters: got ", json(parameters).dump(), ", expected ",
             wanted.dump());
  std::set<std::string> state;
  for (const auto& entry : module.state_dict()) state.insert(entry.first);
  WICK_CHECK(state == state_names(c), "state: got ", json(state).dump(), ", expected ",
             json(state_names(c)).dump());
  for (const auto& [name, value] : module.state_dict()) {
    const std::string want = "initial/" + name;
    if (c.tensors.count(want) != 0) c.expect(want, value, want);
  }
}

void load_parts(const Case& c, nn::Module& module) {
  TensorMap state;
  for (const std::string& name : state_names(c)) state.emplace(name, c.tensor("state/" + name));
  module.load_state_dict(state);
  module.to(c.device);
  module.train(c.json->at("training").get<bool>());
}

// A call that Wick takes the arguments of, but not their values.
class Refused : public Missing {
 public:
  using Missing::Missing;
};

template <class Run>
void run_recorded(const std::string& signature, const Recorded& call, const Run& run) {
  try {
    run_bound(signature, call, run);
  } catch (const Missing&) {
    throw;
  } catch (const Error& error) {
    throw Refused(concat("refused: ", error.what()));
  }
}

// How parameters start: their mean and standard deviation over many modules, which are random.
void expect_spread(const Case& c, const std::function<std::shared_ptr<nn::Module>()>& make) {
  constexpr int kModules = 100;
  std::map<std::string, Tensors> values;
  for (int i = 0; i < kModules; ++i) {
    for (const auto& [name, parameter] : make()->named_parameters()) {
      if (c.tensors.count("spread/" + name) == 0) break;
      values[name].push_back(parameter.detach().to(kFloat64).flatten());
    }
  }
  for (const auto& [name, parts] : values) {
    const Tensor all = cat(parts);
    const std::vector<double> wanted = c.tensor("spread/" + name).to_vector<double>();
    const double mean = all.mean().item(), std = stddev(all).item();
    // 4 standard errors of each of the two.
    const double allowed = 8 * wanted[1] / std::sqrt(static_cast<double>(all.numel()));
    WICK_CHECK(std::fabs(mean - wanted[0]) <= allowed && std::fabs(std - wanted[1]) <= allowed,
               "start of ", name, ": mean and standard deviation are ", mean, " and ", std,
               ", expected ", wanted[0], " and ", wanted[1]);
  }
}

// The gradients of the sum of first gradients times tensors of the case.
void expect_second(const Case& c, const Tensors& outputs,
                   const std::vector<std::pair<std::string, Tensor>>& leaves) {
  Tensors inputs, first_outputs, incoming, second_outputs, weights;
  for (const auto& leaf : leaves) inputs.push_back(leaf.second);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto found = c.tensors.find(concat("gy", i));
    if (found == c.tensors.end()) continue;
    first_outputs.push_back(outputs[i]);
    incoming.push_back(found->second.to(c.device));
  }
  Tensors got;
  try {
    const Tensors first = grad(first_outputs, inputs, incoming, true, true, true);
    for (size_t i = 0; i < leaves.size(); ++i) {
      const auto found = c.tensors.find("v" + leaves[i].first);
      if (found == c.tensors.end() || !first[i].defined() || !first[i].requires_grad()) continue;
      second_outputs.push_back(first[i]);
      weights.push_back(found->second.to(c.device));
    }
    got = second_outputs.empty() ? Tensors(leaves.size())
                                 : grad(second_outputs, inputs, weights, false, false, true);
  } catch (const Error& error) {
    throw Refused(concat("second derivative refused: ", error.what()));
  }
  for (size_t i = 0; i < leaves.size(); ++i) {
    const std::string want = "second_" + leaves[i].first;
    const Tensor zeros_if_none = got[i].defined() ? got[i] : zeros_like(inputs[i]);
    if (c.tensors.count(want) != 0) {
      expect_scaled(c, "second derivative by " + leaves[i].first, zeros_if_none, want);
    } else {
      WICK_CHECK(!zeros_if_none.any().item<bool>(), "second derivative by ", leaves[i].first,
                 ": got one, expected none");
    }
  }
}

void run_module(const Case& c, const ModuleSpelling& spelling) {
  const TensorMap inputs = recorded_inputs(c);
  std::shared_ptr<nn::Module> module;
  run_recorded(spelling.constructor, {c.json->at("args"), c.json->at("kwargs"), inputs},
               [&](const Arguments& arguments) { module = spelling.make(arguments); });
  manual_seed(1);
  expect_spread(c, [&] {
    std::shared_ptr<nn::Module> another;
    run_bound(spelling.constructor, {c.json->at("args"), c.json->at("kwargs"), inputs},
              [&](const Arguments& arguments) { another = spelling.make(arguments); });
    return another;
  });
  module->to(dtype_of(c));
  expect_parts(c, *module);
  load_parts(c, *module);
  const json& call = c.json->at("call");
  Tensors outputs;
  run_recorded(spelling.signature, {call.at("args"), call.at("kwargs"), inputs},
               [&](const Arguments& arguments) { outputs = spelling.run(*module, arguments); });
  expect_outputs(c, outputs);
  for (const auto& [name, value] : module->state_dict()) {
    const bool changes = c.tensors.count("after/" + name) != 0;
    expect_scaled(c, name + " after the call", value, (changes ? "after/" : "state/") + name);
  }
  if (c.json->at("random").get<bool>()) return;
  std::vector<std::pair<std::string, Tensor>> leaves;
  for (const auto& name : c.json->at("grads").get<std::vector<std::string>>()) {
    leaves.emplace_back("grad_" + name, inputs.at(name));
  }
  for (const auto& [name, parameter] : module->named_parameters()) {
    leaves.emplace_back("grad/" + name, parameter);
  }
  if (leaves.empty()) return;
  if (c.json->at("second").get<bool>()) {
    expect_second(c, outputs, leaves);
  } else {
    expect_gradients(c, outputs, leaves);
  }
}

void run_module_case(const Case& c) {
  const auto found = modules().find(c.op);
  if (found == modules().end()) throw Missing("no such module");
  if (c.json->contains("unsupported")) {
    throw Missing("not recorded: " + c.json->at("unsupported").get<std::string>());
  }
  std::optional<Missing> reason;
  for (const ModuleSpelling& spelling : found->second) {
    try {
      run_module(c, spelling);
      return;
    } catch (const Refused&) {
      throw;
    } catch (const Missing& unfit) {
      if (!reason) reason = unfit;
    }
  }
  throw *reason;
}

const Family module_family("module", run_module_case);

}  // namespace

ModuleTable::ModuleTable(const ModuleSpellings& spellings) {
  modules().insert(spellings.begin(), spellings.end());
}

nn::Nonlinearity Read<nn::Nonlinearity>::from(const Argument& a) {
  return a.word<nn::Nonlinearity>(
      {{"tanh", nn::Nonlinearity::kTanh}, {"relu", nn::Nonlinearity::kRelu}});
}

nn::FeedForwardActivation Read<nn::FeedForwardActivation>::from(const Argument& a) {
  return a.word<nn::FeedForwardActivation>(
      {{"relu", nn::FeedForwardActivation::kRelu}, {"gelu", nn::FeedForwardActivation::kGelu}});
}

nn::PackedSequence Read<nn::PackedSequence>::from(const Argument& a) {
  return {read<Tensor>(a.entry(a.value->at("packed"))),
          a.value->at("sizes").get<std::vector<int64_t>>(),
          {},
          {}};
}

nn::ConvMargin Read<nn::ConvMargin>::from(const Argument& a) {
  if (a.value->is_string()) return read<ConvPadding>(a);
  return read<Shape>(a);
}

}  // namespace wick::golden
