#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "wick/core/base/check.h"
#include "wick/core/file.h"
#include "wick/core/profile/detail/json_stream.h"
#include "wick/core/profile/trace.h"

namespace wick::profile {

namespace {

using Json = nlohmann::json;
constexpr uint64_t kMostBytes = uint64_t{4} << 30;

struct Times {
  double begin = 0, end = 0;
};

struct RankTrace {
  std::string path;
  Json events;
  int64_t rank = 0;
  double start_us = 0, start_system_us = 0;
  std::map<std::string, Times> collectives;  // by name and number
};

RankTrace read_trace(const std::string& path) {
  const Json all = Json::parse(read_file(path, kMostBytes), nullptr, /*allow_exceptions=*/false);
  const bool is_trace = all.is_object() && all.contains("traceEvents") &&
                        all["traceEvents"].is_array() && all.contains("wick") &&
                        all["wick"].is_object() && all["wick"].contains("start_system_ns");
  WICK_CHECK(is_trace, "merge_chrome_traces: ", path,
             ": not a trace of this library: expected what export_chrome_trace wrote");
  RankTrace trace;
  trace.path = path;
  const Json& about = all["wick"];
  trace.rank = about.value("rank", int64_t{0});
  trace.start_us = about.value("start_ns", 0.0) / 1000;
  trace.start_system_us = about.value("start_system_ns", 0.0) / 1000;
  trace.events = all["traceEvents"];
  for (const Json& event : trace.events) {
    if (event.value("cat", "") != "collective") continue;
    const auto number = event.value("args", Json::object()).value("Sequence number", int64_t{0});
    const double begin = event.value("ts", 0.0);
    trace.collectives[concat(event.value("name", ""), "#", number)] = {
        begin, begin + event.value("dur", 0.0)};
  }
  return trace;
}

// What to add to the times of `trace` for the clock of `first`: the median over collectives, whose
// ends are about one moment. An all-reduce ends on no rank before it begins on all, which bounds
// it.
double shift_to(const RankTrace& first, const RankTrace& trace) {
  std::vector<double> shifts;
  double low = -HUGE_VAL, high = HUGE_VAL;
  for (const auto& [name, theirs] : trace.collectives) {
    const auto found = first.collectives.find(name);
    if (found == first.collectives.end()) continue;
    const Times& ours = found->second;
    shifts.push_back(ours.end - theirs.end);
    if (!name.starts_with("all_reduce#")) continue;
    low = std::max(low, ours.begin - theirs.end);
    high = std::min(high, ours.end - theirs.begin);
  }
  if (shifts.empty()) {
    return (trace.start_system_us - trace.start_us) - (first.start_system_us - first.start_us);
  }
  const auto middle = shifts.begin() + static_cast<std::ptrdiff_t>(shifts.size() / 2);
  std::nth_element(shifts.begin(), middle, shifts.end());
  const bool is_late = low < high && (*middle <= low || *middle >= high);
  return is_late ? (low + high) / 2 : *middle;
}

}  // namespace

void merge_chrome_traces(const std::vector<std::string>& paths, const std::string& path) {
  WICK_CHECK(!paths.empty(), "merge_chrome_traces: got no files, expected one per rank");
  std::vector<RankTrace> traces;
  std::set<int64_t> ranks;
  for (const std::string& one : paths) {
    traces.push_back(read_trace(one));
    WICK_CHECK(ranks.insert(traces.back().rank).second, "merge_chrome_traces: ", one,
               ": a second trace of rank ", traces.back().rank, ", expected one of each");
  }
  std::vector<std::pair<double, Json*>> order;
  for (RankTrace& trace : traces) {
    const double shift = shift_to(traces.front(), trace);
    for (Json& event : trace.events) {
      double time = 0;
      if (event.contains("ts")) {
        time = event["ts"].get<double>() + shift;
        event["ts"] = time;
      }
      // An arrow's number is of its process.
      if (event.contains("id")) event["id"] = concat(trace.rank, ".", event["id"].get<int64_t>());
      order.emplace_back(time, &event);
    }
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  JsonStream out(path);
  out.raw("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
  bool is_first = true;
  for (const auto& entry : order) {
    out.raw(is_first ? "\n" : ",\n").raw(entry.second->dump());
    is_first = false;
  }
  out.raw("\n],\"wick\":{\"ranks\":").number(static_cast<int64_t>(traces.size())).raw("}}\n");
  out.commit();
}

}  // namespace wick::profile
