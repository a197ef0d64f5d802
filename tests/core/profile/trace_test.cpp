#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "wick/tests/core/profile/profiled.h"

namespace wick::profile {
namespace {

using Json = nlohmann::json;

class Traces : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

 private:
  const std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) /
      (std::string("wick_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

int64_t nanoseconds(const Json& microseconds) {
  return static_cast<int64_t>(std::llround(microseconds.get<double>() * 1000));
}

// Bars of a row are within each other or apart; returns how many there are.
int64_t check_nesting(const Json& events) {
  std::map<std::pair<int64_t, int64_t>, std::vector<std::pair<int64_t, int64_t>>> open;
  int64_t bars = 0;
  for (const Json& event : events) {
    if (event["ph"] != "X" || event["cat"] == "collective") continue;
    ++bars;
    const int64_t begin = nanoseconds(event["ts"]), end = begin + nanoseconds(event["dur"]);
    EXPECT_GE(end, begin);
    auto& stack = open[{event["pid"], event["tid"]}];
    while (!stack.empty() && stack.back().second <= begin) stack.pop_back();
    if (!stack.empty()) {
      EXPECT_LE(end, stack.back().second) << event.dump();
    }
    stack.emplace_back(begin, end);
  }
  return bars;
}

// Each arrow begins once, before it ends, where a bar begins.
int64_t check_flows(const Json& events) {
  std::map<Json, int64_t> begun;
  std::set<std::pair<int64_t, int64_t>> bars;
  for (const Json& event : events) {
    if (event["ph"] == "X") bars.emplace(event["tid"], nanoseconds(event["ts"]));
  }
  int64_t ended = 0;
  for (const Json& event : events) {
    if (event["ph"] == "s") {
      EXPECT_TRUE(begun.emplace(event["id"], nanoseconds(event["ts"])).second) << event.dump();
      EXPECT_TRUE(bars.contains({event["tid"], nanoseconds(event["ts"])}));
    } else if (event["ph"] == "f") {
      EXPECT_TRUE(begun.contains(event["id"])) << event.dump();
      EXPECT_LE(begun[event["id"]], nanoseconds(event["ts"]));
      EXPECT_EQ(event["bp"], "e");
      EXPECT_TRUE(bars.contains({event["tid"], nanoseconds(event["ts"])}));
      ++ended;
    }
  }
  return ended;
}

// A strict reader: the trace, if every event is of a known form and in the order of time.
Json read_trace(const std::string& path) {
  std::ifstream file(path);
  const Json trace = Json::parse(file);
  double last = 0;
  for (const Json& event : trace.at("traceEvents")) {
    const std::string phase = event.at("ph");
    EXPECT_TRUE(std::set<std::string>({"X", "M", "C", "s", "f", "i"}).contains(phase)) << phase;
    EXPECT_TRUE(event.at("name").is_string());
    EXPECT_TRUE(event.at("pid").is_number_integer() && event.at("tid").is_number_integer());
    if (phase == "M") continue;
    EXPECT_GE(event.at("ts").get<double>(), last);
    last = event["ts"];
  }
  return trace;
}

Recording step_recording(ProfilerOptions options = {}) {
  Tensor w = randn({3, 2});
  w.set_requires_grad();
  const Tensor x = randn({4, 3});
  return recorded(std::move(options), [&] {
    const RecordFunction scope("step");
    small_step(x, w);
  });
}

TEST_F(Traces, ReadStrictly) {
  const Recording found = step_recording({.record_shapes = true, .profile_memory = true});
  write_chrome_trace(found, path("trace.json"));
  const Json trace = read_trace(path("trace.json"));
  const Json& events = trace["traceEvents"];
  EXPECT_EQ(check_nesting(events),
            std::count_if(found.events.begin(), found.events.end(), [](const Event& event) {
              return event.kind != EventKind::kAllocation && event.kind != EventKind::kFree;
            }));
  EXPECT_EQ(check_flows(events), 3);  // of matmul, relu and sum
  std::set<std::string> counters, shapes;
  for (const Json& event : events) {
    if (event["ph"] == "C") counters.insert(event["name"]);
    if (event["name"] == "relu") shapes.insert(event["args"]["Input Dims"]);
  }
  EXPECT_EQ(counters, std::set<std::string>{"memory of cpu"});
  EXPECT_EQ(shapes, std::set<std::string>{"[[4, 2]]"});
}

TEST_F(Traces, KeepAnyNameAndInjectNothing) {
  const std::string name = "\"},{\"ph\":\"X\",\"name\":\"injected\n\x01\xff\\";
  const Recording found = recorded({}, [&] { const RecordFunction scope(name); });
  write_chrome_trace(found, path("trace.json"));
  const Json events = read_trace(path("trace.json"))["traceEvents"];
  EXPECT_EQ(check_nesting(events), 1);
  const std::string kept = events.back()["name"];
  EXPECT_TRUE(kept.starts_with("\"},{\"ph\":\"X\",\"name\":\"injected\n\x01")) << kept;
}

TEST_F(Traces, LeaveOutWhatIsTooMuch) {
  const Tensor x = randn({2});
  const Recording found = recorded({}, [&] {
    for (int i = 0; i < 2000; ++i) relu(x);
  });
  write_chrome_trace(found, path("trace.json"), {.max_bytes = 20000});
  EXPECT_LT(std::filesystem::file_size(path("trace.json")), 21000);
  const Json trace = read_trace(path("trace.json"));
  const int64_t bars = check_nesting(trace["traceEvents"]);
  EXPECT_GT(bars, 100);
  EXPECT_EQ(bars + trace["wick"]["left_out_events"].get<int64_t>(), 2000);
  EXPECT_THROW(write_chrome_trace(found, path("none.json"), {.max_bytes = 0}), Error);
}

TEST_F(Traces, LoseNothingOnAFullDisk) {
  const Tensor x = randn({2});
  Profiler profiler;
  profiler.start();
  for (int i = 0; i < 5000; ++i) relu(x);
  profiler.stop();
  std::ofstream(path("trace.json")) << "old";
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit = before;
  limit.rlim_cur = 100000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  EXPECT_THROW(profiler.export_chrome_trace(path("trace.json")), Error);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  std::string old;
  std::ifstream(path("trace.json")) >> old;
  EXPECT_EQ(old, "old");
  profiler.export_chrome_trace(path("trace.json"));  // the recording is all there
  EXPECT_EQ(check_nesting(read_trace(path("trace.json"))["traceEvents"]), 5000);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path("")),
                          std::filesystem::directory_iterator()),
            1);
}

// One rank's: an operation, then collectives, on a clock that is `late` behind. The ends of the
// first two are `slow` later.
Recording of_rank(int rank, int64_t late, int64_t wait, int64_t slow = 0) {
  Recording recording;
  recording.rank = rank;
  recording.start_ns = 1'000'000 + late;
  recording.start_system_ns = 5'000'000;
  const auto add = [&](EventKind kind, const char* name, int64_t start, int64_t end) -> Event& {
    Event event;
    event.kind = kind;
    event.name = name;
    event.start_ns = recording.start_ns + start;
    event.end_ns = recording.start_ns + end;
    event.thread = kind == EventKind::kOp ? 0 : 1;
    event.begin_order = static_cast<uint32_t>(2 * recording.events.size());
    event.end_order = event.begin_order + 1;
    recording.events.push_back(event);
    return recording.events.back();
  };
  add(EventKind::kOp, "conv2d", 0, 50'000).sequence = 7;
  add(EventKind::kCollective, "all_reduce", wait, 100'000 + slow).sequence = 1;
  add(EventKind::kCollective, "all_reduce", 150'000 + wait, 200'000 + slow).sequence = 2;
  if (slow > 0) add(EventKind::kCollective, "all_reduce", 300'000, 310'000).sequence = 3;
  return recording;
}

// Most collectives of a rank end late where it waits for a processor: the short one tells.
TEST_F(Traces, EachAllReduceOfMergedRanksOverlaps) {
  write_chrome_trace(of_rank(0, 0, 0, 1), path("0.json"));
  write_chrome_trace(of_rank(1, 777'000'000, 20'000, 40'000), path("1.json"));
  merge_chrome_traces({path("0.json"), path("1.json")}, path("all.json"));
  std::map<int64_t, std::vector<std::pair<double, double>>> times;
  const Json events = read_trace(path("all.json"))["traceEvents"];
  for (const Json& event : events) {
    if (event["ph"] != "X" || event["cat"] != "collective") continue;
    const double begin = event["ts"].get<double>();
    times[event["pid"]].emplace_back(begin, begin + event["dur"].get<double>());
  }
  ASSERT_EQ(times[0].size(), 3);
  ASSERT_EQ(times[1].size(), 3);
  for (const size_t i : {0, 1, 2}) {
    EXPECT_LT(std::max(times[0][i].first, times[1][i].first),
              std::min(times[0][i].second, times[1][i].second));
  }
}

TEST_F(Traces, OfRanksAreMergedOnOneClock) {
  write_chrome_trace(of_rank(0, 0, 0), path("0.json"));
  write_chrome_trace(of_rank(1, 777'000'000, 20'000), path("1.json"));
  merge_chrome_traces({path("0.json"), path("1.json")}, path("all.json"));
  const Json events = read_trace(path("all.json"))["traceEvents"];
  std::map<int64_t, std::vector<double>> ends;
  std::map<int64_t, int64_t> bars;
  for (const Json& event : events) {
    if (event["ph"] == "X") ++bars[event["pid"]];
    if (event["ph"] == "X" && event["cat"] == "collective") {
      ends[event["pid"]].push_back(event["ts"].get<double>() + event["dur"].get<double>());
    }
  }
  EXPECT_EQ(bars, (std::map<int64_t, int64_t>{{0, 3}, {1, 3}}));
  ASSERT_EQ(ends[0].size(), 2);
  ASSERT_EQ(ends[1].size(), 2);
  for (const size_t i : {0, 1}) EXPECT_NEAR(ends[0][i], ends[1][i], 0.01);
}

TEST_F(Traces, OfOthersAreNotMerged) {
  write_chrome_trace(of_rank(0, 0, 0), path("0.json"));
  std::ofstream(path("bad.json")) << "{\"traceEvents\":[]}";
  std::ofstream(path("worse.json")) << "{";
  EXPECT_THROW(merge_chrome_traces({path("0.json"), path("0.json")}, path("all.json")), Error);
  EXPECT_THROW(merge_chrome_traces({path("0.json"), path("bad.json")}, path("all.json")), Error);
  EXPECT_THROW(merge_chrome_traces({path("worse.json")}, path("all.json")), Error);
  EXPECT_THROW(merge_chrome_traces({}, path("all.json")), Error);
  EXPECT_FALSE(std::filesystem::exists(path("all.json")));
}

}  // namespace
}  // namespace wick::profile
