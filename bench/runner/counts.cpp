#include "wick/bench/runner/counts.h"

#ifdef WICK_SIM_COUNT
#include <fmt/core.h>

#include "wick/core/random.h"
#include "wick/core/stream.h"
#include "wick/kernels/sim/count.h"
#endif

namespace wick::bench {

#ifdef WICK_SIM_COUNT

namespace {

double ratio(int64_t a, int64_t b) {
  return b == 0 ? 1 : static_cast<double>(a) / static_cast<double>(b);
}

void print_kernel(const sim::CountedKernel& kernel) {
  const sim::AccessCounts& c = kernel.counts;
  fmt::print("  {:<40.40} {:>10} {:>7.2f} {:>10} {:>7.2f} {:>6.1f}\n", kernel.name,
             c.global_accesses, ratio(c.global_sectors, c.least_sectors), c.shared_accesses,
             ratio(c.shared_passes, c.least_passes), ratio(c.lanes, c.accesses()));
}

// What is wrong with the row's result, or empty.
std::string count_row(const Row& row, const Setting& setting) {
  manual_seed(0);
  const Work work = row.prepare(setting);
  const std::string wrong = work.check ? work.check() : "";
  synchronize(setting.device);
  sim::count_accesses(true);
  work.call();
  synchronize(setting.device);
  sim::count_accesses(false);
  fmt::print("{}\n", row.name);
  for (const sim::CountedKernel& kernel : sim::counted_kernels()) print_kernel(kernel);
  return wrong;
}

}  // namespace

int run_counts(const Options& options) {
  const Setting setting = setting_of(options);
  fmt::print("device: simulated (counts, never times)\n{:<42} {:>10} {:>7} {:>10} {:>7} {:>6}\n",
             "row, and its kernels", "accesses", "/ least", "shared", "/ least", "lanes");
  int code = 0;
  for (const Row* row : choose_rows(options, setting.device)) {
    if (interrupted()) return tool::kInterruptedExit;
    std::string wrong;
    try {
      wrong = count_row(*row, setting);
    } catch (const Error& error) {
      wrong = error.what();
    }
    if (wrong.empty()) continue;
    fmt::print("{}: {}\n", row->name, wrong);
    code = tool::kFailedExit;
  }
  return code;
}

#else

int run_counts(const Options&) {
  throw UsageError(
      "--sim: this build does not count what kernels do with memory: ./wick bench --sim builds one "
      "that does (cmake --preset count && cmake --build --preset count --target wick_bench)");
}

#endif

}  // namespace wick::bench
