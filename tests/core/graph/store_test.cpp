#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "wick/core/file.h"
#include "wick/core/graph/executor.h"
#include "wick/core/graph/trace.h"
#include "wick/core/ops/activation.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/random.h"
#include "wick/tests/core/graph/expect_equal.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/temporary_folder.h"

namespace wick::testing {
namespace {

using Json = nlohmann::json;
graph::Graph small_graph() {
  const Tensor weight = tensor<float>({1, 2, 3, 4, 5, 6}, Shape{3, 2});
  return graph::trace(
      [&](const Tensors& x) -> Tensors {
        return {dropout(x[0].matmul(weight), 0.25).clamp(-HUGE_VAL, 1.5).sum(1)};
      },
      {zeros({4, 3})}, {{"weight", weight}});
}

class GraphFile : public ::testing::Test {
 protected:
  GraphFile() { save(small_graph(), path_); }

  Json json() const { return Json::parse(read_file(path_)); }
  void expect_refused(const Json& json, const std::vector<std::string>& parts) const {
    write_file(path_, json.dump());
    expect_error([&] { graph::load(path_); }, parts);
  }
  static std::string read_file(const std::string& path) {
    const InputFile file(path);
    std::string text(file.size(), 0);
    file.read_at(0, text.data(), text.size());
    return text;
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_.path("net.json");
};

TEST_F(GraphFile, HoldsEverything) {
  const graph::Graph read = graph::load(path_);
  EXPECT_EQ(to_string(read), to_string(small_graph()));
  const Tensor x = randn({4, 3});
  const graph::Graph made = small_graph();  // which draws
  manual_seed(3);
  const Tensors want = run(made, {x});
  manual_seed(3);
  EXPECT_TRUE(bit_equal(run(read, {x})[0], want[0]));
}

TEST_F(GraphFile, EachDeviationIsNamed) {
  const Json good = json();
  const auto changed = [&](const auto& change, const std::vector<std::string>& parts) {
    Json bad = good;
    change(bad);
    expect_refused(bad, parts);
  };
  const std::string where = "graph: " + path_ + ": ";
  changed([](Json& j) { j = 3; }, {where + "not a graph"});
  changed([](Json& j) { j["format"] = "onnx"; }, {where + "not a graph"});
  changed([](Json& j) { j["version"] = 2; }, {"of another version: got 2, expected 1"});
  changed([](Json& j) { j["version"] = "1"; }, {"version is not a whole number"});
  changed([](Json& j) { j.erase("nodes"); }, {"an entry has no nodes"});
  changed([](Json& j) { j["nodes"] = 1; }, {"nodes is not a list"});
  changed([](Json& j) { j["nodes"][0]["op"] = "matmull"; },
          {"no op of this program is called matmull"});
  changed([](Json& j) { j["nodes"][1]["attributes"].erase("p"); },
          {"no op of this program is called dropout"});
  changed([](Json& j) { j["nodes"][1]["attributes"]["p"] = true; },
          {"dropout: attribute p is of the wrong kind: got true"});
  changed([](Json& j) { j["nodes"][1]["draw"] = 1; },
          {"impossible draw: got 1, expected one below 1"});
  changed([](Json& j) { j["nodes"][0]["draw"] = 0; }, {"matmul has no attribute seed"});
  changed([](Json& j) { j["nodes"][0]["inputs"] = {0}; },
          {"node 0, matmul, has a wrong number of inputs: got 1, expected 2"});
  changed([](Json& j) { j["nodes"][0]["inputs"] = {0, 99}; }, {"no such value"});
  changed(
      [](Json& j) {
        j["nodes"][0]["inputs"] = {0, uint64_t{1} << 63};
      },
      {"inputs is not a whole number of 64 bits"});
  changed([](Json& j) { std::swap(j["nodes"][0], j["nodes"][1]); }, {"is read before it is made"});
  changed(
      [](Json& j) {
        j["nodes"][0]["inputs"] = j["nodes"][1]["outputs"];
        j["nodes"][0]["inputs"].push_back(1);
      },
      {"is read before it is made"});
  changed([](Json& j) { j["nodes"][1]["outputs"] = j["nodes"][0]["outputs"]; }, {"is made twice"});
  changed([](Json& j) { j["values"][0]["shape"] = {4, -3}; }, {"impossible layout"});
  changed([](Json& j) { j["values"][0]["shape"] = {4}; }, {"shape and strides of different ranks"});
  changed(
      [](Json& j) {
        j["values"][2]["strides"] = {int64_t{1} << 62, 1};
      },
      {"impossible layout"});
  changed([](Json& j) { j["values"][0]["shape"] = std::vector<int>(9, 1); },
          {"too many axes: got 9"});
  changed([](Json& j) { j["values"][0]["dtype"] = "float8"; }, {"no such dtype: got float8"});
  changed([](Json& j) { j["values"][0]["device"] = "tpu"; }, {"tpu"});
  changed([](Json& j) { j["values"][1]["root"] = 3; }, {"impossible root: got 3"});
  changed([](Json& j) { j["constants"] = Json::array(); },
          {"wrong number of constants: got 1 tensors, expected 0"});
  changed([](Json& j) { j["constants"][0]["value"] = 0; }, {"constant 0 is not in the file"});
  changed(
      [](Json& j) {
        j["values"][1]["shape"] = {1 << 20, 1 << 20};
      },
      {"constant 1 is not of its value's shape and dtype"});
  changed([](Json& j) { j["draws"] = 0; }, {"impossible draw"});
  for (const int64_t draws : {int64_t{-1}, int64_t{1} << 62}) {
    changed([&](Json& j) { j["draws"] = draws; }, {concat("number of draws: got ", draws)});
  }
}

// The parser would take gigabytes for tens of megabytes of these, or hours.
TEST_F(GraphFile, RefusesJsonThatTakesMuchMemory) {
  const auto refuses = [&](const std::string& text, const std::string& why) {
    write_file(path_, text);
    expect_error([&] { graph::load(path_); }, {"graph: " + path_ + ": " + why});
  };
  refuses(std::string(1 << 20, '['), "lists or objects lie too deep: more than 8");
  refuses("]" + read_file(path_), "not valid JSON");
  std::string numbers = "[0", members = "{\"0\": 0";
  for (int i = 0; i < (1 << 22); ++i) numbers += ",0";
  for (int i = 1; i < 200; ++i) members += concat(",\"", i, "\": 0");
  refuses(numbers + "]", "too many values: more than 4194304");
  refuses(members + "}", "an object has too many entries: more than 100");
  refuses("{\"[[[[[[[[[[\\\"[\": 0}", "not a graph");
}

TEST_F(GraphFile, NeedsItsConstants) {
  std::remove((path_ + ".safetensors").c_str());
  EXPECT_NE(error_of([&] { graph::load(path_); }).find("net.json.safetensors"), std::string::npos);
}

// Whatever is in the file: it is read, or there is an error.
TEST_F(GraphFile, SurvivesDamage) {
  const std::string good = read_file(path_);
  for (size_t length = 0; length + 2 < good.size(); length += 13) {
    write_file(path_, good.substr(0, length));
    EXPECT_EQ(error_of([&] { graph::load(path_); }), "graph: " + path_ + ": not valid JSON");
  }
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string bad = good;
    for (int k = 0; k < 3; ++k) bad[random() % bad.size()] = static_cast<char>(random() % 96 + 32);
    write_file(path_, bad);
    refused += error_of([&] { graph::load(path_); }) != "no error";
  }
  EXPECT_GT(refused, 800);
}

// Where two ops have one name, the file tells them apart.
TEST(GraphStore, OpsOfOneNameDiffer) {
  std::map<std::string, std::string> seen;
  for (const OpType* type : registered_ops()) {
    if (type->create == nullptr) continue;
    void* op = type->create();
    std::string key = concat(type->info.name, " ", type->info.mutates);
    for (const NamedAttribute& attribute : type->attributes(op)) key += concat(" ", attribute.name);
    type->destroy(op);
    EXPECT_TRUE(seen.emplace(key, type->info.name).second) << key;
  }
  EXPECT_GT(seen.size(), 100u);
}

}  // namespace
}  // namespace wick::testing
