#include "wick/core/plans.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "wick/core/base/check.h"
#include "wick/core/conv_plan.h"
#include "wick/core/detail/capture.h"
#include "wick/core/file.h"
#include "wick/core/stream.h"
#include "wick/kernels/pause.h"

namespace wick {

namespace {

constexpr std::string_view kHeader = "wick plans 2\n";
constexpr std::string_view kFirstHeader = "wick convolution plans 1\n";  // the same lines
constexpr int kTimedRuns = 2;
constexpr size_t kMostKnown = 4096;

struct Plans {
  std::mutex mutex;
  std::map<std::string, std::string, std::less<>> texts;    // as the file has them
  std::unordered_map<PlanKey, int, HashOfPlanKey> numbers;  // and what they come to
  std::atomic<bool> any{false};
  std::atomic<bool> benchmark{false};
};
Plans& plans() {
  static auto& instance = *new Plans;  // until the program's end
  return instance;
}

// What a plan is for: the part of its line before the candidate.
std::string words_for(const PlannedProblem& problem) {
  const bool on_gpu = problem.device().is_cuda();
  std::string words = (on_gpu ? "cuda " : "cpu ") + problem.words();
  if (on_gpu && problem.dtype() == kFloat32 && allow_tf32()) words += " tf32";
  if (on_gpu && deterministic()) words += " deterministic";
  return words;
}

std::optional<std::string> find_text(const std::string& words) {
  Plans& table = plans();
  const std::lock_guard lock(table.mutex);
  const auto found = table.texts.find(words);
  return found == table.texts.end() ? std::nullopt : std::optional(found->second);
}

void add_text(const std::string& words, const std::string& candidate) {
  Plans& table = plans();
  const std::lock_guard lock(table.mutex);
  table.texts.insert_or_assign(words, candidate);
  table.numbers.clear();
  table.any = true;
}

// Milliseconds that the device takes for the fastest of kTimedRuns calls of `run`. They are queued
// behind a pause that lasts until all of them are, or a short one would take as long as its launch.
double time_on_gpu(Device device, const std::function<void()>& run) {
  constexpr double kFirstPause = 0.1, kLongestPause = 100;  // milliseconds
  std::vector<Event> marks;
  for (int i = 0; i <= kTimedRuns; ++i) marks.emplace_back(device, /*timing=*/true);
  for (double pause = kFirstPause;; pause *= 4) {
    WICK_CALL_CUDA(pause_for(device, pause));
    marks[0].record();
    for (int i = 0; i < kTimedRuns; ++i) {
      run();
      marks[static_cast<size_t>(i) + 1].record();
    }
    const bool was_queued_in_time = !marks[0].query();
    marks.back().synchronize();
    if (was_queued_in_time || pause >= kLongestPause) break;
  }
  double least = marks[0].elapsed_ms(marks[1]);
  for (size_t i = 1; i < kTimedRuns; ++i) {
    least = std::min(least, marks[i].elapsed_ms(marks[i + 1]));
  }
  return least;
}

// The same by the host's clock where the device is the host.
double time_of(Device device, const std::function<void()>& run) {
  if (device.is_cuda()) return time_on_gpu(device, run);
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kTimedRuns; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double, std::milli> passed =
        std::chrono::steady_clock::now() - start;
    least = std::min(least, passed.count());
  }
  return least;
}

// One that fails, for want of memory or because the library errs in what it offers, is no choice;
// if all do, the first one's error is thrown.
const Candidate& fastest(const PlannedProblem& problem, const std::vector<Candidate>& candidates) {
  if (candidates.size() == 1) return candidates[0];
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const Candidate* best = nullptr;
  double best_ms = kNever;
  std::exception_ptr failure;
  for (const Candidate& candidate : candidates) {
    try {
      problem.run(candidate.number);  // makes its code
      const double ms = time_of(problem.device(), [&] { problem.run(candidate.number); });
      if (ms >= best_ms) continue;
      best_ms = ms;
      best = &candidate;
    } catch (const DeviceError&) {
      throw;
    } catch (const Error&) {
      if (failure == nullptr) failure = std::current_exception();
    }
  }
  if (best == nullptr) std::rethrow_exception(failure);
  return *best;
}

// By its text, by measuring if that is on and nothing is captured, or by the rule.
int find_or_measure(const PlannedProblem& problem) {
  const std::string words = words_for(problem);
  const std::optional<std::string> text = find_text(words);
  const bool measures = benchmark() && capture_of(problem.device()) == nullptr;
  if (!text && !measures) return kAnyCandidate;
  const std::vector<Candidate> candidates = problem.candidates();
  if (text) {
    const auto named = [&](const Candidate& candidate) { return candidate.name == *text; };
    const auto found = std::find_if(candidates.begin(), candidates.end(), named);
    return found == candidates.end() ? kAnyCandidate : found->number;
  }
  if (candidates.empty()) return kAnyCandidate;
  const Candidate& best = fastest(problem, candidates);
  add_text(words, best.name);
  return best.number;
}

// Whether a line of the file can end so.
bool is_way(std::string_view text) {
  const std::string_view name = text.substr(0, text.find('/'));
  if (name.size() < text.size()) return name == "library" && name.size() + 1 < text.size();
  return std::find(kConvAlgorithmNames.begin(), kConvAlgorithmNames.end(), name) !=
         kConvAlgorithmNames.end();
}

}  // namespace

bool benchmark() { return plans().benchmark; }
void set_benchmark(bool on) {
  Plans& table = plans();
  const std::lock_guard lock(table.mutex);
  table.benchmark = on;
  table.numbers.clear();
}

void plans_save(const std::string& path) {
  std::string text(kHeader);
  {
    Plans& table = plans();
    const std::lock_guard lock(table.mutex);
    for (const auto& [words, candidate] : table.texts) text += concat(words, " ", candidate, "\n");
  }
  write_file(path, text);
}

void plans_load(const std::string& path) {
  constexpr uint64_t kMaxBytes = uint64_t{64} << 20;
  const std::string text = read_file(path, kMaxBytes);
  const std::string_view header = text.starts_with(kFirstHeader) ? kFirstHeader : kHeader;
  WICK_CHECK(text.starts_with(header), "plans_load: not a file of plans: ", path,
             ": expected it to begin with \"", kHeader.substr(0, kHeader.size() - 1), "\"");
  std::map<std::string, std::string, std::less<>> loaded;
  int64_t number = 1;
  for (size_t start = header.size(); start < text.size();) {
    ++number;
    const size_t end = text.find('\n', start);
    const std::string_view line = std::string_view(text).substr(start, end - start);
    const size_t space = line.rfind(' ');
    WICK_CHECK(end != std::string::npos && space != std::string_view::npos, "plans_load: line ",
               number, " of ", path, " is cut short: got \"", line, "\"");
    WICK_CHECK(is_way(line.substr(space + 1)), "plans_load: line ", number, " of ", path,
               " names no way to compute: got \"", line.substr(space + 1),
               "\", expected direct, winograd, im2col, amx, library or library/ENGINE");
    loaded.insert_or_assign(std::string(line.substr(0, space)),
                            std::string(line.substr(space + 1)));
    start = end + 1;
  }
  for (const auto& [words, candidate] : loaded) add_text(words, candidate);
}

void plans_clear() {
  Plans& table = plans();
  const std::lock_guard lock(table.mutex);
  table.texts.clear();
  table.numbers.clear();
  table.any = false;
}

void plan_set(const PlannedProblem& problem, const std::string& candidate) {
  add_text(words_for(problem), candidate);
}

int planned_candidate(const PlannedProblem& problem) {
  Plans& table = plans();
  if (!table.any && !table.benchmark) return kAnyCandidate;
  const PlanKey key = problem.key();
  {
    const std::lock_guard lock(table.mutex);
    const auto found = table.numbers.find(key);
    if (found != table.numbers.end()) return found->second;
  }
  const int candidate = find_or_measure(problem);
  const std::lock_guard lock(table.mutex);
  if (table.numbers.size() >= kMostKnown) table.numbers.clear();
  table.numbers.insert_or_assign(key, candidate);
  return candidate;
}

std::string in_words(const Shape& sizes) {
  std::string text;
  for (const int64_t size : sizes) text += (text.empty() ? "" : "x") + concat(size);
  return text;
}

std::vector<Candidate> library_candidates(const std::vector<std::string>& engines) {
  std::vector<Candidate> candidates;
  for (const std::string& name : engines) {
    candidates.push_back({static_cast<int>(candidates.size()), "library/" + name});
  }
  return candidates;
}

}  // namespace wick
