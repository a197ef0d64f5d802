#include "wick/core/profile/verdict.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "wick/core/base/check.h"

namespace wick::profile {

namespace {

constexpr int64_t kShortOperation = 10'000;  // nanoseconds

struct Words {
  const char* name;
  const char* what;
  const char* advice;
};
constexpr Words kWords[kBounds] = {
    {"compute", "arithmetic",
     "--amp bf16 or fp16, --benchmark (docs/mixed_precision.md, "
     "docs/optimizations/conv_autotuning.md)"},
    {"memory", "reading and writing memory",
     "--amp bf16, fused kernels, channels-last images (docs/mixed_precision.md, "
     "docs/optimizations/fused_kernels.md)"},
    {"launches", "calling operations, which are short themselves",
     "a larger --batch-size, fused operations, --cuda-graph on a GPU (docs/tuning.md, "
     "docs/optimizations/cuda_graphs.md)"},
    {"data", "waiting for batches",
     "--workers auto, a packed file, transforms on the device (docs/optimizations/workers.md, "
     "docs/optimizations/image_files.md)"},
    {"communication", "waiting for other ranks",
     "--accumulate, larger batches on each rank (docs/data_parallel.md)"},
    {"outside", "the program's own code, outside operations",
     "profile::RecordFunction around its parts to see which (docs/profiler.md)"},
};

const Words& words_of(Bound bound) { return kWords[static_cast<size_t>(bound)]; }

// The judge's look at one recording.
class Judge {
 public:
  Judge(const Recording& recording, const Ceilings& ceilings)
      : events_(recording.events),
        parents_(parents_of(recording)),
        self_(self_times(recording, parents_)),
        ceilings_(ceilings) {}

  Verdict judge() {
    verdict_.steps = count_steps();
    const uint32_t thread = thread_of_steps();
    for (size_t i = 0; i < events_.size(); ++i) {
      const Event& event = events_[i];
      if (event.device.is_cuda()) on_gpu_ = true;
      if (event.kind == EventKind::kOp) weigh(event);
    }
    for (size_t i = 0; i < events_.size(); ++i) {
      if (events_[i].thread == thread && !events_[i].is_async) place(i);
      if (events_[i].device_ns > 0 && events_[i].kind != EventKind::kDeviceWait) place_kernel(i);
    }
    place_waits();
    if (verdict_.steps == 0) verdict_.steps = 1;
    for (size_t b = 0; b < kBounds; ++b) name_most(b);
    return verdict_;
  }

 private:
  int64_t count_steps() const {
    return std::count_if(events_.begin(), events_.end(),
                         [](const Event& event) { return event.kind == EventKind::kStep; });
  }

  // That of the steps, or the one that did most.
  uint32_t thread_of_steps() const {
    std::map<uint32_t, int64_t> times;
    for (size_t i = 0; i < events_.size(); ++i) {
      if (events_[i].kind == EventKind::kStep) return events_[i].thread;
      times[events_[i].thread] += self_[i];
    }
    return std::max_element(times.begin(), times.end(),
                            [](const auto& a, const auto& b) { return a.second < b.second; })
        ->first;
  }

  bool is_arithmetic(const Event& event) const {
    return event.flops / ceilings_.flops_per_second >
           static_cast<double>(event.bytes) / ceilings_.bytes_per_second;
  }

  // What a GPU does while the host waits for it.
  void weigh(const Event& event) {
    compute_weight_ += event.flops / ceilings_.flops_per_second;
    memory_weight_ += static_cast<double>(event.bytes) / ceilings_.bytes_per_second;
  }

  // What the event, or one that it is within, waits for.
  const Event* wait_around(size_t i) const {
    for (auto at = static_cast<int64_t>(i); at >= 0; at = parents_[static_cast<size_t>(at)]) {
      const Event& event = events_[static_cast<size_t>(at)];
      const bool waits = event.kind == EventKind::kLoaderWait ||
                         event.kind == EventKind::kCollectiveWait ||
                         event.kind == EventKind::kSynchronization;
      if (waits) return &event;
    }
    return nullptr;
  }

  void add(Bound bound, std::string_view name, double ns) {
    verdict_.seconds += ns * 1e-9;
    verdict_.parts[static_cast<size_t>(bound)].seconds += ns * 1e-9;
    names_[static_cast<size_t>(bound)][name] += ns;
  }

  void place(size_t i) {
    const Event& event = events_[i];
    if (event.kind == EventKind::kOp) ++verdict_.operations;
    if (event.kind == EventKind::kSynchronization) {
      ++verdict_.synchronizations;
      names_of_waits_[event.name] += 1;
    }
    const auto ns = static_cast<double>(self_[i]);
    if (const Event* wait = wait_around(i)) {
      if (wait->kind == EventKind::kLoaderWait) return add(Bound::kData, wait->name, ns);
      if (wait->kind == EventKind::kCollectiveWait) {
        return add(Bound::kCommunication, wait->name, ns);
      }
      waited_ns_[wait->name] += ns;
      verdict_.seconds += ns * 1e-9;
      return;
    }
    switch (event.kind) {
      case EventKind::kOp:
      case EventKind::kOptimizer:
      case EventKind::kCopy: return place_work(event, ns);
      case EventKind::kStep:
      case EventKind::kFunction: return add(Bound::kOutside, event.name, ns);
      default: return add(Bound::kLaunches, event.name, ns);
    }
  }

  void place_work(const Event& event, double ns) {
    if (on_gpu_ || ns < kShortOperation) return add(Bound::kLaunches, event.name, ns);
    add(is_arithmetic(event) ? Bound::kCompute : Bound::kMemory, event.name, ns);
  }

  void place_kernel(size_t i) {
    const auto ns = static_cast<double>(events_[i].device_ns);
    const int64_t parent = parents_[i];
    const Event& op = parent < 0 ? events_[i] : events_[static_cast<size_t>(parent)];
    const bool is_compute = op.kind == EventKind::kOp && is_arithmetic(op);
    kernel_ns_[is_compute ? 0 : 1][op.name] += ns;
    kernels_ns_ += ns;
  }

  // A GPU works while the host waits for it, and where its kernels have times, at others too: what
  // is left of the step the host alone takes.
  void place_waits() {
    if (kernels_ns_ == 0) {
      const double all = compute_weight_ + memory_weight_;
      const double compute = all > 0 ? compute_weight_ / all : 0;
      for (const auto& [name, ns] : waited_ns_) {
        verdict_.seconds -= ns * 1e-9;
        add(Bound::kCompute, name, ns * compute);
        add(Bound::kMemory, name, ns * (1 - compute));
      }
      return;
    }
    double host = 0;
    for (const Verdict::Part& part : verdict_.parts) host += part.seconds;
    const double busy =
        host > 0 ? std::min(kernels_ns_ * 1e-9, verdict_.seconds) : verdict_.seconds;
    for (Verdict::Part& part : verdict_.parts) {
      part.seconds *= host > 0 ? (verdict_.seconds - busy) / host : 0;
    }
    verdict_.seconds -= busy;
    const double scale = busy * 1e9 / kernels_ns_;
    for (const auto& [name, ns] : kernel_ns_[0]) add(Bound::kCompute, name, ns * scale);
    for (const auto& [name, ns] : kernel_ns_[1]) add(Bound::kMemory, name, ns * scale);
  }

  static std::string_view largest(const std::map<std::string_view, double>& names) {
    const auto most =
        std::max_element(names.begin(), names.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    return most == names.end() ? std::string_view() : most->first;
  }

  void name_most(size_t bound) {
    verdict_.parts[bound].most = largest(names_[bound]);
    verdict_.synchronizes_most = largest(names_of_waits_);
  }

  const std::vector<Event>& events_;
  const std::vector<int64_t> parents_, self_;
  const Ceilings ceilings_;
  bool on_gpu_ = false;
  double compute_weight_ = 0, memory_weight_ = 0;
  std::map<std::string_view, double> waited_ns_;                 // for a GPU, by the wait
  std::array<std::map<std::string_view, double>, 2> kernel_ns_;  // of arithmetic, and others
  double kernels_ns_ = 0;
  std::array<std::map<std::string_view, double>, kBounds> names_;
  std::map<std::string_view, double> names_of_waits_;
  Verdict verdict_;
};

std::string percent(double share) {
  char text[16];
  std::snprintf(text, sizeof text, "%.0f %%", 100 * share);
  return text;
}

std::string milliseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g ms", 1e3 * seconds);
  return text;
}

}  // namespace

const char* to_string(Bound bound) { return words_of(bound).name; }

Bound Verdict::bound() const {
  size_t most = 0;
  for (size_t i = 1; i < kBounds; ++i) {
    if (parts[i].seconds > parts[most].seconds) most = i;
  }
  return static_cast<Bound>(most);
}

double Verdict::share(Bound bound) const {
  return seconds > 0 ? parts[static_cast<size_t>(bound)].seconds / seconds : 0;
}

std::string Verdict::text() const {
  const Bound most = bound();
  const auto each = static_cast<double>(steps);
  const Part& part = parts[static_cast<size_t>(most)];
  std::string text = concat("Bound by ", to_string(most), ": ", percent(share(most)),
                            " of a step (", milliseconds(part.seconds / each), " of ",
                            milliseconds(seconds / each), ") is ", words_of(most).what);
  if (!part.most.empty()) text += concat(", most of it in ", part.most);
  text += ".\n";
  std::string others;
  for (size_t i = 0; i < kBounds; ++i) {
    const auto other = static_cast<Bound>(i);
    if (other == most || share(other) < 0.005) continue;
    others +=
        concat(others.empty() ? "The rest: " : ", ", to_string(other), " ", percent(share(other)));
    if (!parts[i].most.empty()) others += concat(" (", parts[i].most, ")");
  }
  if (!others.empty()) text += others + ".\n";
  text += concat("What helps: ", words_of(most).advice, ".\n");
  text += concat("Operations per step: ", operations / steps, ".\n");
  if (synchronizations > 0) {
    text += concat("Waits of the host for the GPU per step: ", synchronizations / steps,
                   ", most by ", synchronizes_most, ".\n");
  }
  return text;
}

Verdict judge(const Recording& recording, const Ceilings& ceilings) {
  WICK_CHECK(!recording.events.empty(),
             "judge: the recording has no events, expected those of a step");
  WICK_CHECK(ceilings.flops_per_second > 0 && ceilings.bytes_per_second > 0,
             "judge: ceilings: got ", ceilings.flops_per_second, " FLOP/s and ",
             ceilings.bytes_per_second, " B/s, expected more than 0");
  return Judge(recording, ceilings).judge();
}

}  // namespace wick::profile
