#include "wick/core/conv_plan.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <map>
#include <mutex>
#include <optional>

#include "wick/core/base/check.h"
#include "wick/core/file.h"
#include "wick/core/stream.h"

namespace wick {

namespace {

constexpr std::string_view kHeader = "wick convolution plans 1\n";
constexpr std::array<std::string_view, kConvAlgorithms> kAlgorithmNames = {"direct", "winograd",
                                                                           "im2col", "library"};
constexpr std::array<std::string_view, 3> kDirectionNames = {"forward", "backward_input",
                                                             "backward_weight"};
constexpr int kTimedRuns = 2;

struct Plans {
  std::mutex mutex;
  std::map<std::string, ConvAlgorithm, std::less<>> algorithms;
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

// What a plan is for, in words: the part of its line before the algorithm.
std::string plan_key(const Conv2dProblem& problem, Device device) {
  const Conv2dParams& p = problem.params;
  return concat(
      device.is_cuda() ? "cuda " : "cpu ", kDirectionNames[static_cast<size_t>(problem.direction)],
      " ", to_string(problem.dtype), " x=", times(problem.x), " weight=", times(problem.weight),
      " y=", times(problem.y), " stride=", p.stride[0], "x", p.stride[1], " padding=", p.padding[0],
      "x", p.padding[1], " dilation=", p.dilation[0], "x", p.dilation[1], " groups=", p.groups);
}

struct Candidates {
  ConvAlgorithm algorithms[kConvAlgorithms];
  int count = 0;

  Candidates(const Conv2dProblem& problem, Device device) {
    WICK_DISPATCH(device, conv2d_algorithms(problem, device, algorithms, &count));
  }
  bool contain(ConvAlgorithm algorithm) const {
    return std::find(algorithms, algorithms + count, algorithm) != algorithms + count;
  }
};

std::optional<ConvAlgorithm> find_plan(std::string_view key) {
  Plans& table = plans();
  const std::lock_guard lock(table.mutex);
  const auto found = table.algorithms.find(key);
  if (found == table.algorithms.end()) return std::nullopt;
  return found->second;
}

void add_plan(const std::string& key, ConvAlgorithm algorithm) {
  Plans& table = plans();
  const std::lock_guard lock(table.mutex);
  table.algorithms.insert_or_assign(key, algorithm);
  table.any = true;
}

ConvAlgorithm fastest(const Candidates& candidates, Device device,
                      const std::function<void(ConvAlgorithm)>& run) {
  using Clock = std::chrono::steady_clock;
  ConvAlgorithm best = candidates.algorithms[0];
  Clock::duration best_time = Clock::duration::max();
  for (int i = 0; i < candidates.count; ++i) {
    const ConvAlgorithm algorithm = candidates.algorithms[i];
    run(algorithm);  // makes its code
    synchronize(device);
    for (int repeat = 0; repeat < kTimedRuns; ++repeat) {
      const Clock::time_point start = Clock::now();
      run(algorithm);
      synchronize(device);
      const Clock::duration time = Clock::now() - start;
      if (time >= best_time) continue;
      best_time = time;
      best = algorithm;
    }
  }
  return best;
}

}  // namespace

bool benchmark() { return plans().benchmark; }
void set_benchmark(bool on) { plans().benchmark = on; }

void conv_plans_save(const std::string& path) {
  std::string text(kHeader);
  {
    Plans& table = plans();
    const std::lock_guard lock(table.mutex);
    for (const auto& [key, algorithm] : table.algorithms) {
      text += concat(key, " ", kAlgorithmNames[static_cast<size_t>(algorithm)], "\n");
    }
  }
  write_file(path, text);
}

void conv_plans_load(const std::string& path) {
  constexpr uint64_t kMaxBytes = uint64_t{64} << 20;
  const std::string text = read_file(path, kMaxBytes);
  WICK_CHECK(text.starts_with(kHeader), "conv_plans_load: not a file of convolution plans: ", path);
  std::map<std::string, ConvAlgorithm, std::less<>> loaded;
  int64_t number = 1;
  for (size_t start = kHeader.size(); start < text.size();) {
    ++number;
    const size_t end = text.find('\n', start);
    const std::string_view line = std::string_view(text).substr(start, end - start);
    const size_t space = line.rfind(' ');
    WICK_CHECK(end != std::string::npos && space != std::string_view::npos,
               "conv_plans_load: line ", number, " of ", path, " is cut short: got \"", line, "\"");
    const auto name =
        std::find(kAlgorithmNames.begin(), kAlgorithmNames.end(), line.substr(space + 1));
    WICK_CHECK(name != kAlgorithmNames.end(), "conv_plans_load: line ", number, " of ", path,
               " names no algorithm: got \"", line.substr(space + 1),
               "\", expected direct, winograd, im2col or library");
    loaded.insert_or_assign(std::string(line.substr(0, space)),
                            static_cast<ConvAlgorithm>(name - kAlgorithmNames.begin()));
    start = end + 1;
  }
  for (const auto& [key, algorithm] : loaded) add_plan(key, algorithm);
}

void conv_plans_clear() {
  Plans& table = plans();
  const std::lock_guard lock(table.mutex);
  table.algorithms.clear();
  table.any = false;
}

void conv_plan_set(const Conv2dProblem& problem, Device device, ConvAlgorithm algorithm) {
  const std::string key = plan_key(problem, device);
  WICK_CHECK(Candidates(problem, device).contain(algorithm),
             "conv_plan_set: ", kAlgorithmNames[static_cast<size_t>(algorithm)], " cannot compute ",
             key);
  add_plan(key, algorithm);
}

ConvAlgorithm conv_algorithm(const Conv2dProblem& problem, Device device,
                             const std::function<void(ConvAlgorithm)>& run) {
  const Plans& table = plans();
  const Candidates candidates(problem, device);
  if (!table.any && !table.benchmark) return candidates.algorithms[0];
  const std::string key = plan_key(problem, device);
  const std::optional<ConvAlgorithm> plan = find_plan(key);
  if (plan && candidates.contain(*plan)) return *plan;
  if (!table.benchmark || plan) return candidates.algorithms[0];
  const ConvAlgorithm best = fastest(candidates, device, run);
  add_plan(key, best);
  return best;
}

}  // namespace wick
