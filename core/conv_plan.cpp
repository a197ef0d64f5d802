#include "wick/core/conv_plan.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "wick/core/base/check.h"
#include "wick/core/file.h"
#include "wick/core/stream.h"
#include "wick/kernels/conv_key.h"

namespace wick {

namespace {

constexpr std::string_view kHeader = "wick convolution plans 1\n";
constexpr std::array<std::string_view, kConvAlgorithms> kAlgorithmNames = {
    "direct", "winograd", "im2col", "library", "amx"};
constexpr std::array<std::string_view, 3> kDirectionNames = {"forward", "backward_input",
                                                             "backward_weight"};
constexpr int kTimedRuns = 2;
constexpr size_t kMostKnown = 4096;

struct Plans {
  std::mutex mutex;
  std::map<std::string, std::string, std::less<>> texts;         // as the file has them
  std::unordered_map<ConvKey, ConvPlan, HashOfConvKey> meaning;  // and what they come to
  std::atomic<bool> any{false};
  std::atomic<bool> benchmark{false};
};
Plans& plans() {
  static Plans instance;
  return instance;
}

std::string times(const Shape& shape) {
  std::string text;
  for (const int64_t size : shape) text += (text.empty() ? "" : "x") + concat(size);
  return text;
}

// What a plan is for, in words: the part of its line before the plan.
std::string words_for(const Conv2dProblem& problem, Device device) {
  const Conv2dParams& p = problem.params;
  std::string words = concat(
      device.is_cuda() ? "cuda " : "cpu ", kDirectionNames[static_cast<size_t>(problem.direction)],
      " ", to_string(problem.dtype), " x=", times(problem.x), " weight=", times(problem.weight),
      " y=", times(problem.y), " stride=", p.stride[0], "x", p.stride[1], " padding=", p.padding[0],
      "x", p.padding[1], " dilation=", p.dilation[0], "x", p.dilation[1], " groups=", p.groups);
  if (device.is_cuda() && problem.dtype == kFloat32 && allow_tf32()) words += " tf32";
  if (device.is_cuda() && deterministic()) words += " deterministic";
  return words;
}

// The plans that a problem has on a device, the one that a fixed rule prefers first.
struct Candidates {
  ConvAlgorithm algorithms[kConvAlgorithms];
  ConvEngine engines[kMostConvEngines];
  int count = 0, engine_count = 0;

  Candidates(const Conv2dProblem& problem, Device device) {
    WICK_DISPATCH(device, conv2d_algorithms(problem, device, algorithms, &count));
    if (contain(ConvAlgorithm::kLibrary)) {
      WICK_DISPATCH(device, conv2d_engines(problem, device, engines, &engine_count));
    }
  }

  bool contain(ConvAlgorithm algorithm) const {
    return std::find(algorithms, algorithms + count, algorithm) != algorithms + count;
  }

  std::vector<ConvPlan> all() const {
    std::vector<ConvPlan> list;
    for (int i = 0; i < count; ++i) {
      if (algorithms[i] != ConvAlgorithm::kLibrary || engine_count == 0) {
        list.emplace_back(algorithms[i]);
        continue;
      }
      for (int e = 0; e < engine_count; ++e) list.emplace_back(algorithms[i], e);
    }
    return list;
  }

  std::string text_of(const ConvPlan& plan) const {
    const std::string_view name = kAlgorithmNames[static_cast<size_t>(plan.algorithm)];
    return plan.engine < 0 ? std::string(name)
                           : concat(name, "/", std::string_view(engines[plan.engine].name));
  }

  // None: the text speaks of what this device, or this version of its library, does not have.
  std::optional<ConvPlan> plan_of(std::string_view text) const {
    for (const ConvPlan& plan : all()) {
      if (text == text_of(plan)) return plan;
    }
    for (int i = 0; i < count; ++i) {
      if (text == text_of(algorithms[i])) return algorithms[i];
    }
    return std::nullopt;
  }
};

ConvPlan plan_by_rule(const Conv2dProblem& problem, Device device) {
  ConvAlgorithm algorithms[kConvAlgorithms];
  int count = 0;
  WICK_DISPATCH(device, conv2d_algorithms(problem, device, algorithms, &count));
  return algorithms[0];
}

std::optional<std::string> find_text(const std::string& words) {
  Plans& table = plans();
  const std::lock_guard lock(table.mutex);
  const auto found = table.texts.find(words);
  return found == table.texts.end() ? std::nullopt : std::optional(found->second);
}

void add_text(const std::string& words, const std::string& text) {
  Plans& table = plans();
  const std::lock_guard lock(table.mutex);
  table.texts.insert_or_assign(words, text);
  table.meaning.clear();
  table.any = true;
}

// Milliseconds that the device takes for `run`; the host's clock where the device is the host.
double time_of(Device device, const std::function<void()>& run) {
  if (device.is_cuda()) {
    Event start(device, /*timing=*/true), end(device, /*timing=*/true);
    start.record();
    run();
    end.record();
    end.synchronize();
    return start.elapsed_ms(end);
  }
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

// One that fails, for want of memory or because the library errs in what it offers, is no choice;
// if all do, the first one's error is thrown.
ConvPlan fastest(const std::vector<ConvPlan>& candidates, Device device,
                 const std::function<void(const ConvPlan&)>& run) {
  if (candidates.size() == 1) return candidates[0];
  constexpr double kNever = std::numeric_limits<double>::infinity();
  ConvPlan best;
  double best_ms = kNever;
  std::exception_ptr failure;
  for (const ConvPlan& plan : candidates) {
    try {
      run(plan);  // makes its code
      double ms = kNever;
      for (int i = 0; i < kTimedRuns; ++i) {
        ms = std::min(ms, time_of(device, [&] { run(plan); }));
      }
      if (ms >= best_ms) continue;
      best_ms = ms;
      best = plan;
    } catch (const DeviceError&) {
      throw;
    } catch (const Error&) {
      if (failure == nullptr) failure = std::current_exception();
    }
  }
  if (best_ms == kNever) std::rethrow_exception(failure);
  return best;
}

// The plan by its text, by measuring if that is on, or by the rule.
ConvPlan find_or_make(const Conv2dProblem& problem, Device device,
                      const std::function<void(const ConvPlan&)>& run) {
  const std::string words = words_for(problem, device);
  const std::optional<std::string> text = find_text(words);
  if (!text && !benchmark()) return plan_by_rule(problem, device);
  const Candidates candidates(problem, device);
  if (text) return candidates.plan_of(*text).value_or(plan_by_rule(problem, device));
  const ConvPlan best = fastest(candidates.all(), device, run);
  add_text(words, candidates.text_of(best));
  return best;
}

// Whether a line of the file can end so: an algorithm, or the library and an engine.
bool is_plan(std::string_view text) {
  const std::string_view name = text.substr(0, text.find('/'));
  if (name.size() < text.size()) return name == "library" && name.size() + 1 < text.size();
  return std::find(kAlgorithmNames.begin(), kAlgorithmNames.end(), name) != kAlgorithmNames.end();
}

}  // namespace

bool benchmark() { return plans().benchmark; }
void set_benchmark(bool on) {
  Plans& table = plans();
  const std::lock_guard lock(table.mutex);
  table.benchmark = on;
  table.meaning.clear();
}

void conv_plans_save(const std::string& path) {
  std::string text(kHeader);
  {
    Plans& table = plans();
    const std::lock_guard lock(table.mutex);
    for (const auto& [words, plan] : table.texts) text += concat(words, " ", plan, "\n");
  }
  write_file(path, text);
}

void conv_plans_load(const std::string& path) {
  constexpr uint64_t kMaxBytes = uint64_t{64} << 20;
  const std::string text = read_file(path, kMaxBytes);
  WICK_CHECK(text.starts_with(kHeader), "conv_plans_load: not a file of convolution plans: ", path);
  std::map<std::string, std::string, std::less<>> loaded;
  int64_t number = 1;
  for (size_t start = kHeader.size(); start < text.size();) {
    ++number;
    const size_t end = text.find('\n', start);
    const std::string_view line = std::string_view(text).substr(start, end - start);
    const size_t space = line.rfind(' ');
    WICK_CHECK(end != std::string::npos && space != std::string_view::npos,
               "conv_plans_load: line ", number, " of ", path, " is cut short: got \"", line, "\"");
    WICK_CHECK(is_plan(line.substr(space + 1)), "conv_plans_load: line ", number, " of ", path,
               " names no algorithm: got \"", line.substr(space + 1),
               "\", expected direct, winograd, im2col, amx, library or library/ENGINE");
    loaded.insert_or_assign(std::string(line.substr(0, space)),
                            std::string(line.substr(space + 1)));
    start = end + 1;
  }
  for (const auto& [words, plan] : loaded) add_text(words, plan);
}

void conv_plans_clear() {
  Plans& table = plans();
  const std::lock_guard lock(table.mutex);
  table.texts.clear();
  table.meaning.clear();
  table.any = false;
}

void conv_plan_set(const Conv2dProblem& problem, Device device, const ConvPlan& plan) {
  const Candidates candidates(problem, device);
  const std::string words = words_for(problem, device);
  WICK_CHECK(candidates.contain(plan.algorithm) && plan.engine < candidates.engine_count,
             "conv_plan_set: ", kAlgorithmNames[static_cast<size_t>(plan.algorithm)],
             " cannot compute ", words);
  add_text(words, candidates.text_of(plan));
}

ConvPlan conv_plan(const Conv2dProblem& problem, Device device,
                   const std::function<void(const ConvPlan&)>& run) {
  Plans& table = plans();
  if (!table.any && !table.benchmark) return plan_by_rule(problem, device);
  const ConvKey key(device, problem);
  {
    const std::lock_guard lock(table.mutex);
    const auto found = table.meaning.find(key);
    if (found != table.meaning.end()) return found->second;
  }
  const ConvPlan plan = find_or_make(problem, device, run);
  const std::lock_guard lock(table.mutex);
  if (table.meaning.size() >= kMostKnown) table.meaning.clear();
  table.meaning.insert_or_assign(key, plan);
  return plan;
}

}  // namespace wick
