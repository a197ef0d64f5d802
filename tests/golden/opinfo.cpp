// Runs the cases of make_opinfo_cases.py.
#include "wick/tests/golden/opinfo.h"

#include <algorithm>
#include <cmath>

#include "wick/core/autograd.h"
#include "wick/core/ops/view.h"
#include "wick/tests/harness/host_array.h"

namespace wick::golden {
namespace {

using nlohmann::json;

Spellings& table() {
  static Spellings all;
  return all;
}

struct OpinfoParameter {
  std::string name;
  std::optional<json> otherwise;
  bool fixed = false;  // an argument without a parameter
  bool rest = false;   // takes all arguments that are left
};

std::vector<OpinfoParameter> parameters(const std::string& signature) {
  std::vector<OpinfoParameter> list;
  std::istringstream words(signature);
  for (std::string word; words >> word;) {
    OpinfoParameter parameter;
    const size_t assigned = word.find('=');
    if (assigned != std::string::npos) parameter.otherwise = json::parse(word.substr(assigned + 1));
    parameter.name = word.substr(0, assigned);
    parameter.fixed = parameter.name.starts_with("!");
    if (parameter.fixed) parameter.name.erase(0, 1);
    parameter.rest = parameter.name.ends_with("...");
    list.push_back(parameter);
  }
  return list;
}

// The value of parameter `i`: in order, by name, or by default.
json value_of(const OpinfoParameter& parameter, size_t i, const Recorded& call) {
  if (parameter.rest) {
    json list = json::array();
    for (size_t k = i; k < call.arguments.size(); ++k) list.push_back(call.arguments[k]);
    return list;
  }
  if (i < call.arguments.size()) return call.arguments[i];
  if (call.named.contains(parameter.name)) return call.named[parameter.name];
  if (!parameter.otherwise) throw Missing("argument '" + parameter.name + "' is not given");
  return *parameter.otherwise;
}

// The call's arguments as `signature` orders them.
std::vector<json> bound(const std::string& signature, const Recorded& call) {
  const std::vector<OpinfoParameter> list = parameters(signature);
  const bool open = !list.empty() && list.back().rest;
  if (call.arguments.size() > list.size() && !open) throw Missing("too many arguments");
  for (const auto& item : call.named.items()) {
    const bool known = std::any_of(list.begin(), list.end(),
                                   [&](const OpinfoParameter& p) { return p.name == item.key(); });
    if (!known) throw Missing("no parameter '" + item.key() + "'");
    const size_t given = std::min(call.arguments.size(), list.size());
    const bool twice = std::any_of(list.begin(), list.begin() + static_cast<int64_t>(given),
                                   [&](const auto& p) { return p.name == item.key(); });
    if (twice) throw Missing("argument '" + item.key() + "' is given twice");
  }
  std::vector<json> values;
  for (size_t i = 0; i < list.size(); ++i) {
    const json value = value_of(list[i], i, call);
    if (!list[i].fixed) {
      values.push_back(value);
    } else if (value != *list[i].otherwise) {
      throw Missing("argument '" + list[i].name + "': got " + value.dump() + ", Wick has only " +
                    list[i].otherwise->dump());
    }
  }
  return values;
}

Tensors run_spelling(const Spelling& spelling, const Recorded& call) {
  Tensors outputs;
  run_bound(spelling.signature, call,
            [&](const std::vector<Argument>& arguments) { outputs = spelling.run(arguments); });
  return outputs;
}

// The first spelling that takes the arguments; else the reason why the first does not.
Tensors run_first(const std::string& op, const Recorded& call) {
  const auto found = table().find(op);
  if (found == table().end()) throw Missing("no such function");
  std::optional<Missing> reason;
  for (const Spelling& spelling : found->second) {
    try {
      return run_spelling(spelling, call);
    } catch (const Missing& unfit) {
      if (!reason) reason = unfit;
    } catch (const Error& error) {
      throw Missing(concat("refused: ", error.what()));
    }
  }
  throw *reason;
}

Tensor input_of(const Case& c, const std::string& name) {
  const Tensor stored = c.tensor(name).to(c.device).detach();
  if (!c.json->at("strided").contains(name)) return stored;
  const json& layout = c.json->at("strided").at(name);
  return detail::make_view(stored, 0, layout.at("shape").get<std::vector<int64_t>>(),
                           layout.at("strides").get<std::vector<int64_t>>())
      .detach();
}

void expect_output(const Case& c, const Tensor& got, const std::string& want) {
  const Tensor& reference = c.tensor(want);
  if (!c.json->at("random").get<bool>()) {
    expect_scaled(c, "output " + want, got, want);
    return;
  }
  WICK_CHECK(got.shape() == reference.shape() && got.dtype() == reference.dtype(), "output ", want,
             ": got ", got.shape(), " ", got.dtype(), ", expected ", reference.shape(), " ",
             reference.dtype());
}

// Whether PyTorch has a gradient that is not 0 for one of the inputs.
bool has_gradients(const Case& c) {
  return std::any_of(c.tensors.begin(), c.tensors.end(), [](const auto& entry) {
    return entry.first.starts_with("grad") && entry.second.any().template item<bool>();
  });
}

Tensors gradients(const Case& c, const Tensors& outputs, const Tensors& leaves) {
  Tensors differentiated, incoming;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto found = c.tensors.find(concat("gy", i));
    if (found == c.tensors.end()) continue;
    if (!outputs[i].requires_grad()) {
      if (has_gradients(c)) throw Missing("gradient: the result has none");
      continue;  // a constant, as PyTorch's zeros say
    }
    differentiated.push_back(outputs[i]);
    incoming.push_back(found->second.to(c.device));
  }
  if (differentiated.empty()) return Tensors(leaves.size());
  try {
    return grad(differentiated, leaves, incoming, false, false, true);
  } catch (const Error& error) {
    throw Missing(concat("gradient refused: ", error.what()));
  }
}

void run_opinfo_case(const Case& c) {
  if (c.json->contains("unsupported")) {
    throw Missing("not recorded: " + c.json->at("unsupported").get<std::string>());
  }
  Recorded call{c.json->at("args"), c.json->at("kwargs"), recorded_inputs(c)};
  // What PyTorch's functions take as an argument is a call of its own here.
  const bool leaf = call.named.contains("requires_grad") && call.named["requires_grad"] == true;
  if (leaf) call.named.erase("requires_grad");
  const Tensors outputs = run_first(c.op, call);
  for (const Tensor& output : outputs) {
    if (leaf) output.requires_grad_();
  }
  expect_outputs(c, outputs);
  if (c.json->at("random").get<bool>()) return;
  for (const auto& name : c.json->at("changed").get<std::vector<std::string>>()) {
    expect_scaled(c, "the changed " + name, call.tensors.at(name), "after_" + name);
  }
  const auto grads = c.json->at("grads").get<std::vector<std::string>>();
  if (grads.empty()) return;
  std::vector<std::pair<std::string, Tensor>> leaves;
  for (const std::string& name : grads) leaves.emplace_back("grad_" + name, call.tensors.at(name));
  expect_gradients(c, outputs, leaves);
}

const Family opinfo_family("opinfo", run_opinfo_case);

}  // namespace

void run_bound(const std::string& signature, const Recorded& call,
               const std::function<void(const std::vector<Argument>& arguments)>& run) {
  const std::vector<json> values = bound(signature, call);
  std::vector<Argument> arguments;
  size_t next = 0;
  for (const OpinfoParameter& parameter : parameters(signature)) {
    if (!parameter.fixed) arguments.push_back({parameter.name, &values[next++], &call.tensors});
  }
  run(arguments);
}

TensorMap recorded_inputs(const Case& c) {
  const auto grads = c.json->at("grads").get<std::vector<std::string>>();
  TensorMap inputs;
  for (int i = 0; c.tensors.count(concat("x", i)) != 0; ++i) {
    const std::string name = concat("x", i);
    inputs[name] = input_of(c, name);
    if (std::find(grads.begin(), grads.end(), name) != grads.end()) {
      inputs[name].set_requires_grad();
    }
  }
  return inputs;
}

void expect_scaled(const Case& c, const std::string& what, const Tensor& got,
                   const std::string& want) {
  Case scaled = c;
  scaled.equal_nan = true;
  double largest = 1;
  for (const double value : testing::read(c.tensor(want)).values) {
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  }
  scaled.atol *= largest;
  // PyTorch's own error.
  const json& slack = c.json->value("slack", json::object());
  if (slack.contains(want)) scaled.atol += 2 * slack[want].get<double>();
  scaled.expect(what, got, want);
}

void expect_outputs(const Case& c, const Tensors& outputs) {
  const auto wanted = c.json->at("outputs").get<std::vector<std::string>>();
  WICK_CHECK(outputs.size() == wanted.size(), "there are ", outputs.size(), " outputs, expected ",
             wanted.size());
  for (size_t i = 0; i < outputs.size(); ++i) expect_output(c, outputs[i], wanted[i]);
}

void expect_gradients(const Case& c, const Tensors& outputs,
                      const std::vector<std::pair<std::string, Tensor>>& leaves) {
  Tensors inputs;
  for (const auto& leaf : leaves) inputs.push_back(leaf.second);
  const Tensors got = gradients(c, outputs, inputs);
  for (size_t i = 0; i < leaves.size(); ++i) {
    const std::string &want = leaves[i].first, name = want.substr(std::string("grad_").size());
    if (c.tensors.count(want) != 0) {
      const Tensor zeros_if_none = got[i].defined() ? got[i] : zeros_like(inputs[i]);
      expect_scaled(c, "gradient of " + name, zeros_if_none.to_dense(), want);
    } else if (got[i].defined()) {
      WICK_CHECK(!got[i].to_dense().any().item<bool>(), "gradient of ", name,
                 ": got one, expected none");
    }
  }
}

Opinfo::Opinfo(const Spellings& spellings) {
  for (const auto& [op, ways] : spellings) {
    std::vector<Spelling>& all = table()[op];
    all.insert(all.end(), ways.begin(), ways.end());
  }
}

}  // namespace wick::golden
