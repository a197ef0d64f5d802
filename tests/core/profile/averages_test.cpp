#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "wick/tests/core/profile/by_hand.h"
#include "wick/tests/core/profile/profiled.h"

namespace wick::profile {
namespace {

// 100 us of a function in which "linear" runs twice, once with "matmul" within.
const Recording& two_linears(ByHand& hand) {
  hand.add(EventKind::kFunction, "inference", 0, 100);
  Event& first = hand.add(EventKind::kOp, "linear", 10, 50);
  first.shapes = "[[64, 784], [128, 784]]";
  first.flops = 3e6;
  first.module = "fc1";
  Event& memory = hand.add(EventKind::kAllocation, "[memory]", 15, 15);
  memory.bytes = 4096;
  Event& within = hand.add(EventKind::kOp, "matmul", 20, 45);
  within.flops = 1.5e6;
  Event& second = hand.add(EventKind::kOp, "linear", 60, 80);
  second.shapes = "[[64, 128], [10, 128]]";
  second.module = "fc2";
  Event& freed = hand.add(EventKind::kFree, "[memory]", 65, 65);
  freed.bytes = 1024;
  return hand.finish();
}

TEST(KeyAverages, SumsSelfAndTotalTimes) {
  ByHand hand;
  const KeyAverages averages(two_linears(hand));
  ASSERT_EQ(averages.rows().size(), 3);
  const Average& linear = *averages.find("linear");
  EXPECT_EQ(linear.count, 2);
  EXPECT_EQ(linear.cpu_time_total, 60);
  EXPECT_EQ(linear.self_cpu_time_total, 35);
  EXPECT_EQ(linear.self_cpu_memory_usage, 4096 - 1024);
  EXPECT_EQ(linear.flops, 3e6);
  const Average& inference = *averages.find("inference");
  EXPECT_EQ(inference.self_cpu_time_total, 40);
  EXPECT_EQ(inference.cpu_memory_usage, 4096 - 1024);
  EXPECT_EQ(inference.self_cpu_memory_usage, 0);
  EXPECT_EQ(averages.find("matmul")->self_cpu_time_total, 25);
  EXPECT_EQ(averages.self_cpu_time_total(), 100);
  EXPECT_EQ(averages.find("conv"), nullptr);
}

TEST(KeyAverages, GroupsByShapeAndModule) {
  ByHand hand;
  const Recording& found = two_linears(hand);
  const KeyAverages by_shape(found, {.input_shape = true});
  EXPECT_EQ(by_shape.rows().size(), 4);
  EXPECT_EQ(by_shape.find("linear")->input_shapes, "[[64, 784], [128, 784]]");
  const KeyAverages by_module(found, {.module = true});
  ASSERT_EQ(by_module.rows().size(), 4);
  EXPECT_EQ(by_module.find("matmul")->module, "fc1");  // of the linear that it is within
}

// The columns of torch/autograd/profiler_util.py, in its order.
TEST(KeyAverages, PrintsPyTorchsTable) {
  ByHand hand;
  hand.add(EventKind::kFunction, "model", 0, 2000);
  hand.add(EventKind::kOp, "linear", 500, 1500).flops = 2e6;
  const std::string dashes = "----------" + [] {
    std::string rest;
    for (int i = 0; i < 9; ++i) rest += "  ------------";
    return rest;
  }() + "  \n";
  EXPECT_EQ(KeyAverages(hand.finish()).table({.sort_by = "cpu_time_total"}),
            dashes +
                "      Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg  "
                "     CPU Mem  Self CPU Mem    # of Calls  Total MFLOPs  \n" +
                dashes +
                "     model        50.00%       1.000ms       100.00%       2.000ms       2.000ms  "
                "         0 B           0 B             1            --  \n"
                "    linear        50.00%       1.000ms        50.00%       1.000ms       1.000ms  "
                "         0 B           0 B             1         2.000  \n" +
                dashes + "Self CPU time total: 2.000ms\n");
}

std::vector<std::string> first_words(const std::string& table) {
  std::vector<std::string> words;
  std::istringstream lines(table);
  std::string line, word;
  while (std::getline(lines, line)) {
    if (line.starts_with("---") || line.find("# of Calls") != line.npos) continue;
    std::istringstream(line) >> word;
    if (word != "Self") words.push_back(word);
  }
  return words;
}

TEST(KeyAverages, SortsAndLimitsRows) {
  ByHand hand;
  const KeyAverages averages(two_linears(hand));
  using Words = std::vector<std::string>;
  EXPECT_EQ(first_words(averages.table()), (Words{"inference", "linear", "matmul"}));
  EXPECT_EQ(first_words(averages.table({.sort_by = "count"})),
            (Words{"linear", "inference", "matmul"}));
  EXPECT_EQ(first_words(averages.table({.sort_by = "self_cpu_time_total", .row_limit = 2})),
            (Words{"inference", "linear"}));
  EXPECT_EQ(first_words(averages.table({.sort_by = "cuda_time_total"})),
            (Words{"inference", "linear", "matmul"}));
  EXPECT_EQ(first_words(averages.table({.top_level_events_only = true})), (Words{"inference"}));
  EXPECT_THROW(averages.table({.sort_by = "cpu_tiem"}), Error);
  EXPECT_NE(averages.table({.rates = true}).find("GB/s"), std::string::npos);
}

TEST(KeyAverages, TellsOfGpus) {
  ByHand hand;
  hand.add(EventKind::kOp, "matmul", 0, 10);
  Event& kernel = hand.add(EventKind::kKernel, "gemm_kernel", 5, 5);
  kernel.device = cuda_device();
  kernel.device_ns = 70 * kUs;
  const KeyAverages averages(hand.finish());
  EXPECT_EQ(averages.find("matmul")->device_time_total, 70);
  EXPECT_EQ(averages.find("gemm_kernel")->self_device_time_total, 70);
  EXPECT_EQ(averages.self_device_time_total(), 70);  // once, though two rows tell of it
  const std::string table = averages.table({.sort_by = "cuda_time_total"});
  EXPECT_NE(table.find("Self CUDA   Self CUDA %    CUDA total  CUDA time avg"), std::string::npos)
      << table;
  EXPECT_NE(table.find("Self CUDA time total: 70.000us"), std::string::npos);
}

TEST(KeyAverages, WritesJsonAndCsvOfAnyName) {
  ByHand hand;
  hand.add(EventKind::kFunction, "a \"b\", c\nd", 0, 10);
  hand.add(EventKind::kFunction, "\xff", 10, 20);
  const KeyAverages averages(hand.finish());
  const auto json = nlohmann::json::parse(averages.json());
  EXPECT_EQ(json["rows"][0]["name"], "a \"b\", c\nd");
  EXPECT_EQ(json["rows"][0]["cpu_time_total"], 10);
  EXPECT_EQ(json["self_cpu_time_total"], 20);
  EXPECT_NE(averages.csv().find("\"a \"\"b\"\", c\nd\",1,10,10"), std::string::npos);
  EXPECT_NE(averages.table().find("a \"b\", c?d"), std::string::npos);
}

// What a step takes is the sum of what its parts take themselves.
TEST(KeyAverages, SelfTimesSumToTheStep) {
  Tensor w = randn({64, 64});
  w.set_requires_grad();
  const Tensor x = randn({64, 64});
  Profiler profiler({.profile_memory = true, .schedule = Schedule{.active = 5, .repeat = 1}});
  profiler.start();
  for (int i = 0; i < 5; ++i) {
    small_step(x, w);
    profiler.step();
  }
  profiler.stop();
  const KeyAverages averages = profiler.key_averages();
  EXPECT_EQ(averages.find("ProfilerStep*")->count, 5);
  double wall = 0;
  for (const Event& step : of_kind(profiler.recording(), EventKind::kStep)) {
    wall += static_cast<double>(step.end_ns - step.start_ns) / 1000;
  }
  EXPECT_NEAR(averages.self_cpu_time_total() / wall, 1, 0.03);
  EXPECT_EQ(averages.find("relu")->count, 5);
  EXPECT_EQ(averages.find("ReluBackward")->count, 5);
}

}  // namespace
}  // namespace wick::profile
