#include "wick/train/peak_memory.h"

#include <algorithm>
#include <vector>

#include "wick/core/memory/stats.h"
#include "wick/core/stream.h"

namespace wick::train {

namespace {

constexpr size_t kMostEvents = size_t{1} << 20;  // of a step

// What one step did with memory.
struct StepMemory {
  int64_t before = 0;  // bytes held when the step began
  int64_t peak = 0;
  std::vector<MemoryEvent> events;  // allocations and frees, in order
};

// The history of a device, for as long as this lives. Then the limit of before is back.
class HistoryScope {
 public:
  explicit HistoryScope(Device device) : device_(device), limit_(memory_history_limit(device)) {
    record_memory_history(device, kMostEvents);
  }
  ~HistoryScope() { record_memory_history(device_, limit_); }
  HistoryScope(const HistoryScope&) = delete;
  HistoryScope& operator=(const HistoryScope&) = delete;

 private:
  Device device_;
  size_t limit_;
};

StepMemory measure(Device device, int64_t samples, const std::function<void(int64_t)>& step) {
  step(samples);
  synchronize(device);
  StepMemory memory;
  memory.before = memory_allocated(device);
  reset_peak_memory_stats(device);
  const HistoryScope history(device);
  step(samples);
  synchronize(device);
  memory.peak = max_memory_allocated(device);
  for (const MemoryEvent& event : memory_history(device)) {
    if (event.action == MemoryAction::kAllocate || event.action == MemoryAction::kFree) {
      memory.events.push_back(event);
    }
  }
  return memory;
}

bool same_blocks(const StepMemory& a, const StepMemory& b) {
  return a.events.size() < kMostEvents &&
         std::equal(
             a.events.begin(), a.events.end(), b.events.begin(), b.events.end(),
             [](const MemoryEvent& x, const MemoryEvent& y) { return x.action == y.action; });
}

// The value at `batch` of a line through the values at two sizes.
class Line {
 public:
  Line(int64_t few, int64_t more, int64_t batch) : span_(more - few), way_(batch - few) {}
  int64_t at(int64_t few, int64_t more) const {
    return std::max<int64_t>(few + (more - few) * way_ / span_, 0);
  }
  int64_t at(size_t few, size_t more) const {
    return at(static_cast<int64_t>(few), static_cast<int64_t>(more));
  }

 private:
  int64_t span_, way_;
};

int64_t replay(const StepMemory& few, const StepMemory& more, const Line& line) {
  int64_t held = line.at(few.before, more.before), peak = held;
  for (size_t i = 0; i < few.events.size(); ++i) {
    const int64_t size = line.at(few.events[i].size, more.events[i].size);
    held += few.events[i].action == MemoryAction::kAllocate ? size : -size;
    peak = std::max(peak, held);
  }
  return peak;
}

}  // namespace

PeakPrediction predict_peak_memory(nn::Module& model, optim::Optimizer& optimizer, Device device,
                                   int64_t batch, const std::function<void(int64_t)>& step,
                                   const TrainingParts& parts) {
  WICK_CHECK(batch >= 1, "predict_peak_memory: wrong batch: got ", batch, ", expected 1 or more");
  PeakPrediction prediction;
  prediction.few = std::max<int64_t>(batch / 2, 1);
  prediction.more = std::max(batch / 4 * 3, prediction.few + 1);
  const TrainingSnapshot snapshot(model, optimizer, parts);
  return snapshot.around([&] {
    const StepMemory few = measure(device, prediction.few, step);
    const StepMemory more = measure(device, prediction.more, step);
    const Line line(prediction.few, prediction.more, batch);
    prediction.by_block = same_blocks(few, more);
    prediction.bytes = prediction.by_block ? replay(few, more, line) : line.at(few.peak, more.peak);
    return prediction;
  });
}

}  // namespace wick::train
