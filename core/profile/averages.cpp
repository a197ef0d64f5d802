#include "wick/core/profile/averages.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "wick/core/base/check.h"
#include "wick/core/profile/detail/columns.h"

namespace wick::profile {

namespace {

constexpr double kPerMicrosecond = 1000;

// Whether an event has a row. Memory that nobody's event took has one too.
bool has_row(const Event& event, int64_t parent) {
  if (event.kind == EventKind::kModule || event.kind == EventKind::kMemoryLabel) return false;
  const bool is_memory = event.kind == EventKind::kAllocation || event.kind == EventKind::kFree;
  return !is_memory || parent < 0;
}

int64_t memory_of(const Event& event) {
  if (event.kind == EventKind::kAllocation) return event.bytes;
  return event.kind == EventKind::kFree ? -event.bytes : 0;
}

// How long a GPU worked.
int64_t device_time(const Event& event) {
  return event.kind == EventKind::kDeviceWait ? 0 : event.device_ns;
}

// What belongs to an event and to those within it.
struct Totals {
  int64_t device_ns = 0, self_device_ns = 0;
  int64_t cpu_memory = 0, self_cpu_memory = 0;
  int64_t device_memory = 0, self_device_memory = 0;
};

std::vector<Totals> totals_of(const Recording& recording, const std::vector<int64_t>& parents) {
  std::vector<Totals> totals(recording.events.size());
  for (size_t i = recording.events.size(); i-- > 0;) {  // children come behind their parents
    const Event& event = recording.events[i];
    Totals& own = totals[i];
    const int64_t memory = memory_of(event);
    (event.device.is_cpu() ? own.self_cpu_memory : own.self_device_memory) += memory;
    own.self_device_ns += device_time(event);
    own.cpu_memory += own.self_cpu_memory;
    own.device_memory += own.self_device_memory;
    own.device_ns += own.self_device_ns;
    if (parents[i] < 0) continue;
    Totals& above = totals[static_cast<size_t>(parents[i])];
    const bool is_moment = event.kind == EventKind::kAllocation || event.kind == EventKind::kFree ||
                           event.kind == EventKind::kKernel || event.kind == EventKind::kCopy ||
                           event.kind == EventKind::kDeviceCopy ||
                           event.kind == EventKind::kDeviceWait;
    if (is_moment) {  // what an event did itself, without another event
      above.self_cpu_memory += own.cpu_memory;
      above.self_device_memory += own.device_memory;
      above.self_device_ns += own.device_ns;
    } else {
      above.cpu_memory += own.cpu_memory;
      above.device_memory += own.device_memory;
      above.device_ns += own.device_ns;
    }
  }
  return totals;
}

// An event's module: its own, or that of what it is within.
std::string_view module_of(const std::vector<Event>& events, const std::vector<int64_t>& parents,
                           size_t i) {
  while (events[i].module.empty() && parents[i] >= 0) i = static_cast<size_t>(parents[i]);
  return events[i].module;
}

// Steps are one row.
std::string_view key_of(const Event& event) {
  return event.kind == EventKind::kStep ? "ProfilerStep*" : event.name;
}

}  // namespace

KeyAverages::KeyAverages(const Recording& recording, const GroupBy& group)
    : group_(group),
      with_shapes_(group.input_shape && recording.with_shapes),
      with_memory_(recording.with_memory),
      with_flops_(recording.with_flops),
      dropped_(recording.dropped),
      dropped_activities_(recording.dropped_activities) {
  const std::vector<Event>& events = recording.events;
  const std::vector<int64_t> parents = parents_of(recording);
  const std::vector<int64_t> self = self_times(recording, parents);
  const std::vector<Totals> totals = totals_of(recording, parents);
  std::map<std::tuple<std::string_view, std::string_view, std::string_view>, size_t> places;
  for (size_t i = 0; i < events.size(); ++i) {
    const Event& event = events[i];
    if (!has_row(event, parents[i])) continue;
    const std::string_view shapes = group.input_shape ? event.shapes : std::string_view();
    const std::string_view module =
        group.module ? module_of(events, parents, i) : std::string_view();
    const auto [place, is_new] = places.try_emplace({key_of(event), shapes, module}, rows_.size());
    if (is_new) {
      Average& made = rows_.emplace_back();
      made.key = key_of(event);
      made.input_shapes = shapes;
      made.module = module;
      made.is_async = event.is_async;
      is_top_level_.push_back(false);
    }
    Average& row = rows_[place->second];
    if (parents[i] < 0) is_top_level_[place->second] = true;
    ++row.count;
    row.self_cpu_time_total += static_cast<double>(self[i]) / kPerMicrosecond;
    row.cpu_time_total += static_cast<double>(event.end_ns - event.start_ns) / kPerMicrosecond;
    row.self_device_time_total += static_cast<double>(totals[i].self_device_ns) / kPerMicrosecond;
    row.device_time_total += static_cast<double>(totals[i].device_ns) / kPerMicrosecond;
    row.self_cpu_memory_usage += totals[i].self_cpu_memory;
    row.cpu_memory_usage += totals[i].cpu_memory;
    row.self_device_memory_usage += totals[i].self_device_memory;
    row.device_memory_usage += totals[i].device_memory;
    row.flops += event.flops;
    if (event.kind != EventKind::kAllocation && event.kind != EventKind::kFree) {
      row.bytes += event.bytes;
    }
    self_cpu_us_ += static_cast<double>(self[i]) / kPerMicrosecond;
    // An event's kernels and copies have rows of their own.
    self_device_us_ += static_cast<double>(device_time(event)) / kPerMicrosecond;
  }
}

const Average* KeyAverages::find(const std::string& key) const {
  const auto found =
      std::find_if(rows_.begin(), rows_.end(), [&](const Average& row) { return row.key == key; });
  return found == rows_.end() ? nullptr : &*found;
}

std::vector<const Average*> KeyAverages::chosen_rows(const TableOptions& options) const {
  std::vector<const Average*> chosen;
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (!options.top_level_events_only || is_top_level_[i]) chosen.push_back(&rows_[i]);
  }
  if (!options.sort_by.empty()) {
    const SortKey key = sort_key(options.sort_by);
    std::stable_sort(chosen.begin(), chosen.end(),
                     [&](const Average* a, const Average* b) { return key(*a) > key(*b); });
  }
  const auto limit = static_cast<size_t>(std::max<int64_t>(options.row_limit, 0));
  if (options.row_limit >= 0 && chosen.size() > limit) chosen.resize(limit);
  return chosen;
}

std::string KeyAverages::table(const TableOptions& options) const {
  if (rows_.empty()) return "";
  TableShape shape;
  shape.with_shapes = with_shapes_;
  shape.with_modules = group_.module;
  shape.with_memory = with_memory_;
  shape.with_flops = with_flops_;
  shape.self_cpu_us = self_cpu_us_;
  shape.self_device_us = self_device_us_;
  std::string text = table_text(rows_, chosen_rows(options), shape, options);
  if (dropped_ > 0) text += concat("Events left out for lack of room: ", dropped_, "\n");
  if (dropped_activities_ > 0) {
    text += concat("Records of GPU work that CUPTI dropped: ", dropped_activities_, "\n");
  }
  return text;
}

std::string KeyAverages::json() const {
  nlohmann::ordered_json all;
  all["self_cpu_time_total"] = self_cpu_us_;
  all["self_cuda_time_total"] = self_device_us_;
  all["dropped_events"] = dropped_;
  all["dropped_activities"] = dropped_activities_;
  all["rows"] = nlohmann::ordered_json::array();
  for (const Average& row : rows_) {
    nlohmann::ordered_json values;
    values["name"] = row.key;
    for (const auto& [name, value] : figures_of(row)) values[name] = value;
    values["input_shapes"] = row.input_shapes;
    values["module"] = row.module;
    values["async"] = row.is_async;
    all["rows"].push_back(std::move(values));
  }
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string KeyAverages::csv() const {
  std::string text = "name";
  for (const auto& figure : figures_of(Average())) text += concat(",", figure.first);
  text += ",input_shapes,module\n";
  for (const Average& row : rows_) {
    text += csv_cell(row.key);
    for (const auto& figure : figures_of(row)) text += concat(",", figure.second);
    text += concat(",", csv_cell(row.input_shapes), ",", csv_cell(row.module), "\n");
  }
  return text;
}

}  // namespace wick::profile
