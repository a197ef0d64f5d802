// The runner of reference cases must fail where it should: whatever is wrong with a case, a folder
// or its own arguments.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "wick/core/file.h"
#include "wick/core/serialize.h"
#include "wick/tests/harness/host_array.h"
#include "wick/tests/harness/paths.h"
#include "wick/tests/harness/temporary_folder.h"

namespace wick {
namespace {

using nlohmann::json;
using wick::testing::HostArray;
using wick::testing::make_tensor;
using wick::testing::TemporaryFolder;

struct Outcome {
  int status;
  std::string output;
  std::string last_line;
};

Outcome run(const std::string& arguments) {
  const std::string command = testing::program_folder() + "/golden_test " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  Outcome outcome{-1, "", ""};
  char line[4096];
  while (std::fgets(line, sizeof line, pipe) != nullptr) {
    outcome.output += line;
    outcome.last_line = line;
  }
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

// A folder with one case, y0 = relu(x), that passes as it is.
struct OneCase {
  json description = {{"name", "a"},     {"op", "relu"},      {"args", json::object()},
                      {"inputs", {"x"}}, {"outputs", {"y0"}}, {"grads", {"x"}},
                      {"rtol", 1e-4},    {"atol", 1e-5}};
  std::string family = "unary";
  TensorMap tensors = {{"a/x", make_tensor({{2}, {-1, 2}}, kFloat32)},
                       {"a/y0", make_tensor({{2}, {0, 2}}, kFloat32)},
                       {"a/gy0", make_tensor({{2}, {3, 4}}, kFloat32)},
                       {"a/grad_x", make_tensor({{2}, {0, 4}}, kFloat32)}};

  Outcome run_alone(const std::string& options = "") const {
    const TemporaryFolder folder;
    const json content = {{"family", family}, {"cases", {description}}};
    write_file(folder.path(family + ".json"), content.dump());
    save_safetensors(folder.path(family + ".safetensors"), tensors);
    return run("--cases " + folder.path("") + " " + options);
  }
};

void expect_failure(const Outcome& outcome, const std::string& reason) {
  EXPECT_EQ(outcome.status, 1) << outcome.output;
  EXPECT_EQ(outcome.last_line, "0 passed, 1 failed\n") << outcome.output;
  EXPECT_NE(outcome.output.find(reason), std::string::npos)
      << "expected \"" << reason << "\" in: " << outcome.output;
}

TEST(GoldenRunner, PassesWhatIsRight) {
  const Outcome outcome = OneCase().run_alone();
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(outcome.last_line, "1 passed, 0 failed\n");
}

// A case of `family` without gradients: the inputs in order, and what y0 must be.
void expect_pass(const std::string& family, const std::string& op, const json& args,
                 const std::vector<HostArray>& inputs, const std::vector<HostArray>& outputs) {
  OneCase only;
  only.family = family;
  only.tensors.clear();
  only.description["op"] = op;
  only.description["args"] = args;
  for (const char* key : {"inputs", "outputs", "grads"}) only.description[key] = json::array();
  for (const HostArray& input : inputs) {
    const std::string name = "x" + std::to_string(only.description["inputs"].size());
    only.description["inputs"].push_back(name);
    only.tensors["a/" + name] = make_tensor(input, kFloat32);
  }
  for (const HostArray& output : outputs) {
    const std::string name = "y" + std::to_string(only.description["outputs"].size());
    only.description["outputs"].push_back(name);
    only.tensors["a/" + name] = make_tensor(output, kFloat32);
  }
  const Outcome outcome = only.run_alone();
  EXPECT_EQ(outcome.status, 0) << op << args << ": " << outcome.output;
}

TEST(GoldenRunner, TakesArgumentsAsPyTorchDoes) {
  const HostArray image{{1, 1, 2, 2}, {1, 2, 3, 4}};
  const HostArray ones{{1, 1, 2, 2}, {1, 1, 1, 1}};
  expect_pass("conv", "adaptive_avg_pool2d", {{"output_size", {nullptr, 1}}}, {image},
              {{{1, 1, 2, 1}, {1.5, 3.5}}});
  expect_pass("conv", "conv2d", {{"padding", "same"}}, {image, ones},
              {{{1, 1, 2, 2}, {10, 6, 7, 4}}});
  expect_pass("conv", "conv2d", {{"padding", "valid"}}, {image, ones}, {{{1, 1, 1, 1}, {10}}});
  expect_pass("conv", "max_pool2d",
              {{"kernel_size", 2}, {"stride", 1}, {"ceil_mode", true}, {"dilation", 1}}, {image},
              {{{1, 1, 1, 1}, {4}}});
  expect_pass("conv", "avg_pool2d", {{"kernel_size", 3}, {"ceil_mode", true}}, {image},
              {{{1, 1, 1, 1}, {2.5}}});
  expect_pass("shape", "pad", {{"pad", {0, 1, 0, 0, 0, 0, 0, 0, 0, 1}}}, {{{1, 1, 1, 1, 1}, {3}}},
              {{{2, 1, 1, 1, 2}, {3, 0, 0, 0}}});
  expect_pass("shape", "stack", {{"order", {"x1", "x0"}}}, {{{1}, {3}}, {{1}, {4}}},
              {{{2, 1}, {4, 3}}});
  expect_pass("norm", "batch_norm", {{"training", false}, {"eps", 0}},
              {{{1, 2}, {3, 4}}, {{2}, {1, 2}}, {{2}, {1, 4}}},
              {{{1, 2}, {2, 1}}, {{2}, {1, 2}}, {{2}, {1, 4}}});
  const HostArray row{{2}, {3, 4}};
  expect_pass("reduce", "norm", {{"p", "fro"}}, {row}, {{{}, {5}}});
  expect_pass("reduce", "sum", {{"dtype", "torch.float32"}}, {row}, {{{}, {7}}});
  const std::vector<HostArray> signal = {{{1, 1, 3}, {1, 2, 3}}, {{1, 1, 3}, {1, 1, 1}}};
  expect_pass("conv", "conv1d", {{"padding", "same"}}, signal, {{{1, 1, 3}, {3, 6, 5}}});
  expect_pass("conv", "conv1d", {{"padding", "valid"}}, signal, {{{1, 1, 1}, {6}}});
  expect_pass("conv", "max_pool2d", {{"kernel_size", 2}, {"stride", json::array()}}, {image},
              {{{1, 1, 1, 1}, {4}}});
}

TEST(GoldenRunner, FailsOnWrongValues) {
  OneCase value;
  value.tensors["a/y0"] = make_tensor({{2}, {0, 2.001}}, kFloat32);
  expect_failure(value.run_alone(), "output y0: 1 of 2 elements are wrong, the worst is element 1");
  OneCase gradient;
  gradient.tensors["a/grad_x"] = make_tensor({{2}, {0.1, 4}}, kFloat32);
  expect_failure(gradient.run_alone(), "gradient of x");
  OneCase shape;
  shape.tensors["a/y0"] = make_tensor({{1, 2}, {0, 2}}, kFloat32);
  expect_failure(shape.run_alone(), "shape is [2], expected [1, 2]");
  OneCase nan;
  for (const char* name : {"a/x", "a/y0"}) {
    nan.tensors[name] = make_tensor({{2}, {std::nan(""), 2}}, kFloat32);
  }
  expect_failure(nan.run_alone(), "output y0: 1 of 2 elements are wrong, the worst is element 0");
}

TEST(GoldenRunner, FailsOnWhatItDoesNotKnow) {
  OneCase op;
  op.description["op"] = "rele";
  expect_failure(op.run_alone(), "unknown op 'rele'");
  OneCase argument;
  argument.description["args"] = {{"inplace", true}};
  expect_failure(argument.run_alone(), "unknown argument 'inplace'");
  OneCase family;
  family.family = "ternary";
  expect_failure(family.run_alone(), "unknown family 'ternary'");
  OneCase missing;
  missing.tensors.erase("a/grad_x");
  expect_failure(missing.run_alone(), "tensor 'grad_x' is not in the file");
  OneCase outputs;
  outputs.description["outputs"] = {"y0", "y1"};
  expect_failure(outputs.run_alone(), "there are 1 outputs, expected 2");
  OneCase tolerance;
  tolerance.description.erase("rtol");
  expect_failure(tolerance.run_alone(), "rtol");
}

TEST(GoldenRunner, FailsOnUnreadableFolders) {
  const TemporaryFolder folder;
  expect_failure(run("--cases " + folder.path("missing")), "missing");
  const Outcome empty = run("--cases " + folder.path(""));
  EXPECT_EQ(empty.status, 1);
  EXPECT_EQ(empty.last_line, "0 passed, 0 failed\n");
  write_file(folder.path("unary.json"), "{\"family\": \"unary\", \"cases\": []}");
  expect_failure(run("--cases " + folder.path("")), "unary.safetensors");
  write_file(folder.path("unary.json"), "[");
  expect_failure(run("--cases " + folder.path("")), "FAILED unary");
  expect_failure(run("--family unary --cases " + folder.path("missing")), "unary.json");
}

TEST(GoldenRunner, FailsOnBadArguments) {
  EXPECT_EQ(run("--familie unary").status, 2);
  EXPECT_EQ(run("--family").status, 2);
  EXPECT_EQ(run("--device gpu").status, 2);
  EXPECT_EQ(run("--op '('").status, 2);
}

// A call of relu, as OpInfo cases record it.
OneCase recorded() {
  OneCase call;
  call.family = "opinfo";
  call.description.erase("inputs");
  call.description.update({{"op", "nn.functional.relu"},
                           {"args", {{{"tensor", "x0"}}}},
                           {"kwargs", json::object()},
                           {"random", false},
                           {"changed", json::array()},
                           {"strided", json::object()},
                           {"grads", {"x0"}}});
  for (const char* name : {"x", "grad_x"}) {
    call.tensors[concat("a/", name, "0")] = call.tensors[concat("a/", name)];
  }
  return call;
}

TEST(GoldenRunner, RunsRecordedCalls) {
  EXPECT_EQ(recorded().run_alone().last_line, "1 passed, 0 failed\n");
  OneCase gradient = recorded();
  gradient.tensors["a/grad_x0"] = make_tensor({{2}, {1, 4}}, kFloat32);
  expect_failure(gradient.run_alone(), "gradient of x0: 1 of 2 elements are wrong");
  OneCase none = recorded();
  none.tensors.erase("a/grad_x0");
  expect_failure(none.run_alone(), "gradient of x0: got one, expected none");
  OneCase changed = recorded();
  changed.description["changed"] = {"x0"};
  changed.tensors["a/after_x0"] = make_tensor({{2}, {1, 1}}, kFloat32);
  expect_failure(changed.run_alone(), "the changed x0");
}

// A PReLU of slope 0.5, as the cases of modules are recorded.
OneCase recorded_module() {
  OneCase module = recorded();
  module.family = "module";
  const json call = {{"args", {{{"tensor", "x0"}}}}, {"kwargs", json::object()}};
  module.description.update({{"op", "PReLU"},
                             {"args", json::array()},
                             {"call", call},
                             {"training", true},
                             {"second", false},
                             {"dtype", "float32"},
                             {"parameters", {"weight"}},
                             {"state", {"weight"}}});
  const auto set = [&](const char* name, std::vector<double> values) {
    const auto size = static_cast<int64_t>(values.size());
    module.tensors[concat("a/", name)] = make_tensor({{size}, std::move(values)}, kFloat32);
  };
  set("initial/weight", {0.25});
  set("state/weight", {0.5});
  set("y0", {-0.5, 2});
  set("grad_x0", {1.5, 4});
  set("grad/weight", {-3});
  return module;
}

TEST(GoldenRunner, RunsModules) {
  EXPECT_EQ(recorded_module().run_alone().last_line, "1 passed, 0 failed\n");
  const std::pair<const char*, const char*> faults[] = {
      {"initial/weight", "initial/weight: 1 of 1 elements are wrong"},
      {"y0", "output y0: 1 of 2 elements are wrong"},
      {"grad_x0", "gradient of x0: 1 of 2 elements are wrong"},
      {"grad/weight", "gradient of weight: 1 of 1 elements are wrong"}};
  for (const auto& [name, message] : faults) {
    OneCase wrong = recorded_module();
    wrong.tensors[concat("a/", name)].view(Shape{-1})[0].fill_(7);
    expect_failure(wrong.run_alone(), message);
  }
  OneCase changed = recorded_module();
  changed.tensors["a/after/weight"] = make_tensor({{1}, {1}}, kFloat32);
  expect_failure(changed.run_alone(), "weight after the call: 1 of 1 elements are wrong");
  OneCase spread = recorded_module();
  spread.tensors["a/spread/weight"] = make_tensor({{2}, {0.3, 0.01}}, kFloat64);
  expect_failure(spread.run_alone(), "start of weight: mean and standard deviation are 0.25 and 0");
  OneCase parts = recorded_module();
  parts.description["parameters"] = {"slope"};
  expect_failure(parts.run_alone(), R"(parameters: got ["weight"], expected ["slope"])");
  OneCase state = recorded_module();
  state.description["state"] = {"weight", "bias"};
  expect_failure(state.run_alone(), R"(state: got ["weight"], expected ["bias","weight"])");
  OneCase second = recorded_module();
  second.description["second"] = true;
  second.tensors["a/vgrad_x0"] = make_tensor({{2}, {1, 1}}, kFloat32);
  second.tensors["a/vgrad/weight"] = make_tensor({{1}, {1}}, kFloat32);
  second.tensors["a/second_grad_x0"] = make_tensor({{2}, {3, 0}}, kFloat32);
  second.tensors["a/second_grad/weight"] = make_tensor({{1}, {3}}, kFloat32);
  EXPECT_EQ(second.run_alone().last_line, "1 passed, 0 failed\n");
  second.tensors["a/second_grad/weight"] = make_tensor({{1}, {4}}, kFloat32);
  expect_failure(second.run_alone(), "second derivative by grad/weight: 1 of 1 elements are wrong");
  OneCase unknown = recorded_module();
  unknown.description["op"] = "Swish";
  expect_failure(unknown.run_alone(), "no such module");
}

TEST(GoldenRunner, CountsWhatIsMissingInASurvey) {
  OneCase call = recorded();
  call.description["kwargs"] = {{"inplace", true}};
  expect_failure(call.run_alone(), "no parameter 'inplace'");
  const TemporaryFolder folder;
  const std::string survey = folder.path("survey.json");
  const Outcome outcome = call.run_alone("--survey " + survey);
  EXPECT_EQ(outcome.last_line, "0 passed, 0 failed\n");
  EXPECT_NE(outcome.output.find("0       0       1  in all"), std::string::npos) << outcome.output;
  const json counted = json::parse(read_file(survey, 10'000));
  EXPECT_EQ(counted["totals"]["missing"], 1);
  EXPECT_EQ(counted["missing"]["a"], "no parameter 'inplace'");
}

TEST(GoldenRunner, SaysWhatItLeavesOut) {
  const Outcome outcome = run("--family unary --op 'relu|tanh'");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("left out by --op: abs"), std::string::npos);
  EXPECT_EQ(outcome.last_line, "4 passed, 0 failed\n");
}

}  // namespace
}  // namespace wick
