#include "wick/bench/runner/options.h"

#include <atomic>
#include <csignal>
#include <regex>

#include "wick/core/stream.h"
#include "wick/tools/common/interrupt.h"

namespace wick::bench {

namespace {

// --quick: sizes divided by this, and hardly any repetitions.
constexpr int64_t kQuickShrink = 64;
// The simulated GPU runs thousands of instructions for each of a real one.
constexpr int64_t kSimShrink = 256;

std::atomic<bool> was_interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free);

Device chosen_device(const Options& options) {
  if (options.sim) return cuda_device(0);
  const bool has_gpu = cuda_device_count() > 0;
  if (options.device == "auto") {
    const bool real = has_gpu && !device_properties(cuda_device(0)).simulated;
    return real ? cuda_device(0) : kCpu;
  }
  Device device;
  try {
    device = parse_device(options.device);
  } catch (const Error& error) {
    throw UsageError(std::string("--device: ") + error.what());
  }
  if (device.is_cpu()) return device;
  if (!has_gpu) throw UsageError("--device " + options.device + ": " + why_no_cuda());
  if (device_properties(device).simulated) {
    throw UsageError("--device " + options.device +
                     ": this GPU is simulated, which has no speed: use --sim to count what "
                     "kernels do with memory");
  }
  return device;
}

}  // namespace

Setting setting_of(const Options& options) {
  return {chosen_device(options), options.sim ? kSimShrink : options.quick ? kQuickShrink : 1};
}

MeasureOptions measure_options(const Options& options, Device device) {
  MeasureOptions result;
  result.device = device;
  if (options.quick) {
    result.min_sample = 2e-4;
    result.min_total = 2e-3;
    result.max_total = 5e-3;
  }
  result.repetitions = options.repetitions;
  return result;
}

std::vector<const Row*> choose_rows(const Options& options, Device device) {
  const bool negative = options.filter.starts_with('-');
  std::regex filter;
  try {
    filter = std::regex(options.filter.substr(negative ? 1 : 0),
                        std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error&) {
    throw UsageError("--filter: not a regular expression: got \"" + options.filter + "\"");
  }
  std::vector<const Row*> chosen;
  for (const Row& row : rows()) {
    if (device.is_cuda() && row.cpu_only) continue;
    if (std::regex_search(row.name, filter) != negative) chosen.push_back(&row);
  }
  if (chosen.empty()) {
    throw UsageError("--filter: no row matches \"" + options.filter +
                     "\": wick bench --list shows all");
  }
  return chosen;
}

bool interrupted() { return was_interrupted; }

void handle_interrupts() {
  tool::on_interrupt([](int) { was_interrupted = true; }, /*once=*/false);
  std::signal(SIGPIPE, SIG_IGN);
}

}  // namespace wick::bench
