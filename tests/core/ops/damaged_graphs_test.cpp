// Graph files of every op of the cases, with one attribute or one input of a node damaged: an error
// of one sentence, or a run. WICK_DAMAGED_GRAPHS=all tries all values, otherwise a sample.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "wick/core/autograd.h"
#include "wick/core/graph/executor.h"
#include "wick/core/graph/trace.h"
#include "wick/core/memory/allocator.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/random.h"
#include "wick/tests/harness/op_case.h"
#include "wick/tests/harness/temporary_folder.h"

namespace wick::testing {
namespace {

using Json = nlohmann::json;

constexpr int64_t kSome = int64_t{1} << 31, kHuge = int64_t{1} << 62;
constexpr size_t kMostBytes = size_t{256} << 20;  // what a run may take
constexpr int kSample = 12;                       // one of so many is tried

// Results, and gradients where the case has them.
Tensors with_gradients(const OpCase& op_case, const Sample& sample, const Tensors& given) {
  Tensors in, leaves;
  for (size_t i = 0; i < given.size(); ++i) {
    in.push_back(given[i]);
    if (!op_case.differentiable || !sample[i].grad || !is_floating(given[i].dtype())) continue;
    in.back() = given[i].detach().set_requires_grad();
    leaves.push_back(in.back());
  }
  Tensors results = op_case.call(in), outputs, weights;
  for (Tensor& result : results) {
    if (!result.defined() || !result.requires_grad()) continue;
    outputs.push_back(result);
    weights.push_back(ones_like(result.detach()));
    result = result.detach();
  }
  if (outputs.empty()) return results;
  for (const Tensor& gradient : grad(outputs, leaves, weights, false, false, true)) {
    results.push_back(gradient);
  }
  return results;
}

// What an attribute may be damaged to. A list is as long as before, or of another length.
std::vector<Json> damaged(const Json& good) {
  const std::vector<Json> numbers = {0,
                                     -1,
                                     3,
                                     kSome,
                                     -kHuge,
                                     kHuge,
                                     std::numeric_limits<int64_t>::min(),
                                     std::numeric_limits<int64_t>::max()};
  std::vector<Json> all = {nullptr, Json::object(), "text", "", true, Json::array()};
  all.insert(all.end(), numbers.begin(), numbers.end());
  for (const char* real : {"nan", "inf", "-inf"}) all.push_back({{"real", real}});
  for (const double real : {0.0, -0.5, 1e308, -1e308, 5e-324}) all.push_back(real);
  if (!good.is_array()) return all;
  for (size_t i = 0; i < good.size() && i < 3; ++i) {
    for (const Json& number : numbers) {
      all.push_back(good);
      all.back()[i] = number;
    }
  }
  all.push_back(good);
  all.back().push_back(1);
  all.push_back(Json(std::vector<int64_t>(9, 1)));
  return all;
}

class DamagedGraphs : public ::testing::Test {
 protected:
  void SetUp() override {
    before_ = allocator(kCpu).memory_limit();
    empty_cache(kCpu);
    allocator(kCpu).set_memory_limit(kMostBytes);
  }
  void TearDown() override { allocator(kCpu).set_memory_limit(before_); }

  // Each attribute of each op, in the first two cases that have it.
  void sweep(const OpCase& op_case) {
    size_t index = 0;
    while (index + 1 < op_case.samples.size() && largest_input(op_case.samples[index]) == 0)
      ++index;
    const Sample& sample = op_case.samples[index];
    if (largest_input(sample) > 5000) return;
    Tensors inputs;
    const Arrays arrays = make_inputs(op_case, index);
    const std::vector<Dtype>& all = op_case.dtypes;
    const bool has_float32 = std::find(all.begin(), all.end(), kFloat32) != all.end();
    for (size_t i = 0; i < sample.size(); ++i) {
      const Dtype dtype = has_float32 ? kFloat32 : all[0];
      inputs.push_back(make_tensor(arrays[i], sample[i].dtype.value_or(dtype)));
    }
    manual_seed(1);
    save(graph::trace([&](const Tensors& in) { return with_gradients(op_case, sample, in); },
                      inputs),
         path_);
    const Json good = Json::parse(std::ifstream(path_));
    for (size_t n = 0; n < good["nodes"].size(); ++n) {
      const std::string op = good["nodes"][n]["op"];
      for (const auto& [name, value] : good["nodes"][n]["attributes"].items()) {
        if (++seen_[op + " " + name] > 2) continue;
        try_all(good, n, name, inputs);
      }
      for (size_t i = 0; i < good["nodes"][n]["inputs"].size(); ++i) {
        if (++seen_[concat(op, " input ", i)] <= 2) try_inputs(good, n, i, inputs);
      }
    }
  }

  // Absent, or any other value that is made before.
  void try_inputs(const Json& good, size_t n, size_t i, const Tensors& inputs) {
    std::vector<Json> others = {-1};
    for (const Json& id : good["inputs"]) others.push_back(id);
    for (const Json& constant : good["constants"]) others.push_back(constant["value"]);
    for (size_t before = 0; before < n; ++before) {
      for (const Json& id : good["nodes"][before]["outputs"]) others.push_back(id);
    }
    Json bad = good;
    Json& input = bad["nodes"][n]["inputs"][i];
    const Json value = input;
    for (const Json& other : others) {
      if (other == value) continue;
      input = other;
      if (other == -1) count_ = 0;  // each of these is tried
      try_one(bad, concat(bad["nodes"][n]["op"].dump(), " input ", i, " = ", other.dump()), inputs);
    }
  }

  void try_all(const Json& good, size_t n, const std::string& name, const Tensors& inputs) {
    Json bad = good;
    Json& attributes = bad["nodes"][n]["attributes"];
    const Json value = attributes[name];
    for (const Json& wrong : damaged(value)) {
      attributes[name] = wrong;
      try_one(bad, concat(bad["nodes"][n]["op"].dump(), " ", name, " = ", wrong.dump()), inputs);
    }
    attributes.erase(name);
    try_one(bad, concat(bad["nodes"][n]["op"].dump(), " without ", name), inputs);
  }

  void try_one(const Json& bad, const std::string& what, const Tensors& inputs) {
    if (!tries_all_ && count_++ % kSample != 0) return;
    if (says_) std::fprintf(stderr, "%s\n", what.c_str());
    std::ofstream(path_) << bad;
    try {
      graph::run(graph::load(path_), inputs);
      ++runs_;
    } catch (const Error& error) {
      ++errors_;
      const std::string text = error.what();
      EXPECT_FALSE(text.empty() || text.find('\n') != text.npos) << what << ": " << text;
    } catch (const std::exception& error) {
      ADD_FAILURE() << what << ": another exception: " << error.what();
    }
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.path("graph.json");
  const char* const wanted_ = std::getenv("WICK_DAMAGED_GRAPHS");
  const bool tries_all_ = wanted_ != nullptr;
  const bool says_ = tries_all_ && std::string(wanted_) == "say";  // which one crashes
  int64_t count_ = 0, errors_ = 0, runs_ = 0;

 private:
  std::map<std::string, int> seen_;
  size_t before_ = 0;
};

TEST_F(DamagedGraphs, AreErrorsOfOneSentence) {
  for (const OpCase& op_case : op_cases()) {
    if (!op_case.traceable || !op_case.storable || op_case.samples.empty()) continue;
    SCOPED_TRACE(op_case.name);
    sweep(op_case);
  }
  std::printf("%ld damaged graphs gave errors, %ld ran\n", static_cast<long>(errors_),
              static_cast<long>(runs_));
  EXPECT_GT(errors_, 100);
}

}  // namespace
}  // namespace wick::testing
