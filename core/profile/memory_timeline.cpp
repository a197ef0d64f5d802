#include "wick/core/profile/memory_timeline.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "wick/core/base/check.h"
#include "wick/core/memory/stats.h"

namespace wick::profile {

namespace {

constexpr int64_t kAlways = INT64_MAX;

// A piece of memory from its allocation to its free.
struct Block {
  int64_t bytes = 0;
  int64_t from = 0, to = kAlways;
  MemoryUse use = MemoryUse::kOther;
  bool is_labelled = false;
  int64_t op_end = 0;  // when the outermost operation that it was taken in ended
  std::string_view op, module;
};

// Finds the life of every block.
class Blocks {
 public:
  Blocks(const Recording& recording, Device device)
      : events_(recording.events), parents_(parents_of(recording)), start_(recording.start_ns) {
    std::vector<size_t> order;
    for (size_t i = 0; i < events_.size(); ++i) {
      if (events_[i].device == device && is_of_memory(events_[i])) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return events_[a].start_ns < events_[b].start_ns; });
    for (const size_t i : order) see(i);
    // Of those that nobody named: what outlived its operation is not temporary.
    for (Block& block : all) {
      if (!block.is_labelled && block.to <= block.op_end) {
        block.use = MemoryUse::kTemporary;
      }
    }
  }

  std::vector<Block> all;

 private:
  static bool is_of_memory(const Event& event) {
    return event.kind == EventKind::kAllocation || event.kind == EventKind::kFree ||
           event.kind == EventKind::kMemoryLabel;
  }

  void see(size_t i) {
    const Event& event = events_[i];
    const auto live = live_.find(event.address);
    if (event.kind == EventKind::kFree) {
      if (live == live_.end()) return;  // was there before, for nobody knows what
      all[live->second].to = event.start_ns;
      live_.erase(live);
      return;
    }
    if (event.kind == EventKind::kAllocation || live == live_.end()) {
      live_[event.address] = all.size();
      Block& block = all.emplace_back();
      block.bytes = event.bytes;
      block.from = event.kind == EventKind::kAllocation ? event.start_ns : start_;
      if (event.kind == EventKind::kAllocation) tell_maker(block, i);
    }
    if (event.kind == EventKind::kMemoryLabel) {
      Block& block = all[live_[event.address]];
      block.use = event.use;
      block.is_labelled = true;
    }
  }

  // The innermost operation has the name; that it is within a backward or an optimizer's step tells
  // the use.
  void tell_maker(Block& block, size_t i) const {
    for (int64_t at = parents_[i]; at >= 0; at = parents_[static_cast<size_t>(at)]) {
      const Event& event = events_[static_cast<size_t>(at)];
      const bool is_op = event.kind == EventKind::kOp;
      if (!is_op && event.kind != EventKind::kBackward && event.kind != EventKind::kOptimizer) {
        continue;
      }
      if (block.op.empty()) {
        block.op = event.name;
        block.use = MemoryUse::kActivation;
      }
      if (block.module.empty()) block.module = event.module;
      if (is_op) block.op_end = event.end_ns;
      if (event.kind == EventKind::kBackward) block.use = MemoryUse::kGradient;
      if (event.kind == EventKind::kOptimizer) block.use = MemoryUse::kTemporary;
    }
  }

  const std::vector<Event>& events_;
  const std::vector<int64_t> parents_;
  const int64_t start_;
  std::map<uintptr_t, size_t> live_;
};

}  // namespace

MemoryTimeline::MemoryTimeline(const Recording& recording, Device device) : device_(device) {
  const std::vector<Block> blocks = Blocks(recording, device).all;
  std::vector<std::pair<int64_t, int64_t>> totals;  // by time
  for (const Event& event : recording.events) {
    const bool is_change = event.kind == EventKind::kAllocation || event.kind == EventKind::kFree;
    if (is_change && event.device == device) totals.emplace_back(event.start_ns, event.allocated);
  }
  std::stable_sort(totals.begin(), totals.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::tuple<int64_t, MemoryUse, int64_t>> changes;
  for (const Block& block : blocks) {
    changes.emplace_back(block.from, block.use, block.bytes);
    if (block.to != kAlways) changes.emplace_back(block.to, block.use, -block.bytes);
  }
  std::stable_sort(changes.begin(), changes.end(),
                   [](const auto& a, const auto& b) { return std::get<0>(a) < std::get<0>(b); });
  Point now;
  size_t next = 0;
  for (const auto& [time, total] : totals) {
    for (; next < changes.size() && std::get<0>(changes[next]) <= time; ++next) {
      now.bytes[static_cast<size_t>(std::get<1>(changes[next]))] += std::get<2>(changes[next]);
    }
    Point point = now;
    point.time_ns = time;
    point.total = total;
    int64_t known = 0;
    for (size_t use = 1; use < kMemoryUses; ++use) known += point.bytes[use];
    point.bytes[0] = std::max<int64_t>(total - known, 0);
    points_.push_back(point);
    if (total > points_[peak_].total) peak_ = points_.size() - 1;
  }
  if (points_.empty()) return;
  const int64_t at = points_[peak_].time_ns;
  std::map<std::tuple<MemoryUse, std::string_view, std::string_view>, Holder> holders;
  for (const Block& block : blocks) {
    if (block.from > at || block.to <= at) continue;
    Holder& holder = holders[{block.use, block.op, block.module}];
    holder.use = block.use;
    holder.op = block.op;
    holder.module = block.module;
    holder.bytes += block.bytes;
    ++holder.blocks;
  }
  for (const auto& entry : holders) holders_.push_back(entry.second);
  std::stable_sort(holders_.begin(), holders_.end(),
                   [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
}

const MemoryTimeline::Point& MemoryTimeline::peak() const {
  WICK_CHECK(!points_.empty(), "memory timeline: no memory of ", device_,
             " was taken: expected a recording with profile_memory");
  return points_[peak_];
}

std::string MemoryTimeline::text(size_t most_holders) const {
  const Point& top = peak();
  std::string text = concat("Most memory of ", device_, ": ", format_bytes(top.total), "\n");
  for (size_t use = 0; use < kMemoryUses; ++use) {
    if (top.bytes[use] == 0) continue;
    std::string name = to_string(static_cast<MemoryUse>(use));
    name.resize(18, ' ');
    text += concat("  ", name, format_bytes(top.bytes[use]), "\n");
  }
  text += "Held then by\n";
  for (size_t i = 0; i < std::min(most_holders, holders_.size()); ++i) {
    const Holder& holder = holders_[i];
    std::string bytes = format_bytes(holder.bytes);
    bytes.resize(12, ' ');
    text += concat("  ", bytes, to_string(holder.use), ", ", holder.blocks, " of ",
                   holder.op.empty() ? std::string_view("before") : holder.op);
    if (!holder.module.empty()) text += concat(" in ", holder.module);
    text += "\n";
  }
  return text;
}

}  // namespace wick::profile
