// `wick bench`: every kernel against what the hardware can do at best. docs/benchmarking.md.
#include <fmt/core.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "wick/bench/runner/against.h"
#include "wick/bench/runner/baseline.h"
#include "wick/bench/runner/counts.h"
#include "wick/bench/runner/options.h"
#include "wick/bench/runner/result.h"
#include "wick/bench/runner/serve.h"
#include "wick/core/base/parallel.h"
#include "wick/core/file.h"
#include "wick/core/random.h"
#include "wick/core/stream.h"
#include "wick/tools/common/command_line.h"
#include "wick/tools/common/standard_files.h"

namespace wick::bench {
namespace {

constexpr double kCeilingSeconds = 2, kQuickCeilingSeconds = 0.05;
constexpr double kSaveEverySeconds = 10;

// A row's result, or why there is none.
Result run_row(const Row& row, const Setting& setting, const MeasureOptions& options,
               const Ceilings& ceilings) {
  Result result;
  result.name = row.name;
  try {
    manual_seed(0);
    const Work work = row.prepare(setting);
    if (work.check) result.error = work.check();
    if (!result.error.empty()) return result;
    result.bytes = work.bytes;
    result.flops = work.flops;
    result.bound = ceilings.bound(work.bytes, work.flops, row.dtype);
    result.timing = measure(work.call, options, interrupted);
  } catch (const std::exception& error) {
    result.error = concat("failed: ", error.what());
  }
  return result;
}

// Finds out before anything is measured.
void check_writable(const std::string& path) {
  if (std::filesystem::is_directory(path)) throw UsageError("--json " + path + ": is a folder");
  try {
    const AtomicFile probe(path);  // without commit it leaves nothing
  } catch (const Error& error) {
    throw UsageError(std::string("--json: ") + error.what());
  }
}

class Run {
 public:
  explicit Run(const Options& options)
      : options_(options),
        table_(options.format == "console" ? stdout : stderr),
        setting_(setting_of(options)),
        measure_(measure_options(options, setting_.device)),
        rows_(choose_rows(options, setting_.device)) {
    if (!options.json.empty()) check_writable(options.json);
    if (!options.baseline.empty()) load_baseline();
    report_.device = setting_.device.is_cuda() ? device_properties(setting_.device).name : "cpu";
    report_.shrink = setting_.shrink;
  }

  int all() {
    measure_hardware();
    int failed = 0;
    fmt::print(table_, "{}\n", table_heading());
    for (const Row* row : rows_) {
      Result result = run_row(*row, setting_, measure_, report_.ceilings);
      if (interrupted()) break;  // in the middle of it
      fmt::print(table_, "{}\n", table_row(result));
      std::fflush(table_);
      failed += !result.error.empty();
      report_.results.push_back(std::move(result));
      if (now() - saved_ > kSaveEverySeconds) save();
    }
    save();
    if (options_.format == "json") fmt::print("{}", to_json(report_));
    if (options_.format == "csv") fmt::print("{}", to_csv(report_));
    if (interrupted()) {
      fmt::print(table_, "interrupted: {} of {} rows measured\n", report_.results.size(),
                 rows_.size());
      return tool::kInterruptedExit;
    }
    if (failed > 0) fmt::print(table_, "{} of {} rows failed\n", failed, rows_.size());
    const int slower = compare();
    return failed > 0 ? tool::kFailedExit : slower > 0 ? tool::kSlowerExit : 0;
  }

 private:
  void load_baseline() {
    baseline_ = read_baseline(options_.baseline, setting_.shrink);
    missing_ = std::count_if(rows_.begin(), rows_.end(), [&](const Row* row) {
      return baseline_.find(row->name) == baseline_.end();
    });
    WICK_CHECK(missing_ < static_cast<int64_t>(rows_.size()), "--baseline ", options_.baseline,
               ": it has none of the ", rows_.size(), " rows that are to be compared with it");
  }

  void measure_hardware() {
    const double seconds = options_.quick ? kQuickCeilingSeconds : kCeilingSeconds;
    report_.ceilings = measure_ceilings(setting_.device, seconds, report_.ceiling_lines);
    fmt::print(table_, "ceilings of this {}:\n", setting_.device.is_cuda() ? "GPU" : "CPU");
    for (const std::string& line : report_.ceiling_lines) fmt::print(table_, "  {}\n", line);
  }

  void save() {
    if (!options_.json.empty()) write_json(report_, options_.json);
    saved_ = now();
  }

  // How many rows are much slower than in the baseline, twice in a row.
  int compare() {
    if (options_.baseline.empty()) return 0;
    int slower = 0, compared = 0;
    for (const Result& result : report_.results) {
      const auto before = baseline_.find(result.name);
      if (before == baseline_.end() || !result.error.empty()) continue;
      ++compared;
      double times = slowdown(result, before->second);
      if (times > kMuchSlower) {
        const Result again = run_row(*row_of(result.name), setting_, measure_, report_.ceilings);
        if (!again.error.empty() || interrupted()) continue;
        times = std::min(times, slowdown(again, before->second));
      }
      if (times <= kMuchSlower) continue;
      ++slower;
      fmt::print(table_, "{}: takes {:.2f} times as long as in {}, ceilings accounted for\n",
                 result.name, times, options_.baseline);
    }
    fmt::print(table_, "{} of {} rows are more than 30 % slower than in {}\n", slower, compared,
               options_.baseline);
    if (missing_ > 0) fmt::print(table_, "{} rows are not in {}\n", missing_, options_.baseline);
    return slower;
  }

  const Row* row_of(const std::string& name) const {
    return *std::find_if(rows_.begin(), rows_.end(),
                         [&](const Row* row) { return row->name == name; });
  }

  Options options_;
  std::FILE* table_;  // where people read; JSON and CSV have standard output for themselves
  Setting setting_;
  MeasureOptions measure_;
  std::vector<const Row*> rows_;
  Baseline baseline_;
  int64_t missing_ = 0;  // rows that the baseline lacks
  Report report_;
  double saved_ = now();
};

// Those that Google Benchmark has too go by its names as well.
void add_options(CLI::App& app, Options& options) {
  app.add_option(
      "--filter,--benchmark_filter", options.filter,
      "only rows whose name this regular expression finds; with a - before it, the rest");
  app.add_option("--device", options.device, "cpu, cuda, cuda:N, or auto: a GPU if there is one")
      ->capture_default_str();
  app.add_option("--threads", options.threads, "threads of the CPU")->check(CLI::Range(1, 4096));
  app.add_option("--repetitions,--benchmark_repetitions", options.repetitions,
                 "samples of each row (default: until its median is known to 2 %)")
      ->check(CLI::Range(1, 1000000));
  app.add_option(
         "--format,--benchmark_format", options.format,
         "console: a table; json, csv: that on standard output, the table on standard error")
      ->check(CLI::IsMember({"console", "json", "csv"}))
      ->capture_default_str();
  app.add_option("--json,--benchmark_out", options.json,
                 "write this file, as Google Benchmark does");
  app.add_option("--baseline", options.baseline,
                 "say what is 30 % slower than in this file that --json wrote");
  app.add_option("--against", options.against,
                 "take turns with this other wick or wick-bench, and say what differs");
  app.add_flag("--sim", options.sim,
               "count what kernels do with memory, on the simulated GPU, instead of times");
  app.add_flag("--list,--benchmark_list_tests", options.list, "name the rows and end");
  app.add_flag("--quick", options.quick, "small sizes and few repetitions: to see that it runs");
  app.add_flag("--serve", options.serve)->group("");  // what --against starts
}

int run(const Options& options) {
  if (options.threads > 0) set_num_threads(options.threads);
  const bool plain = options.against.empty() && !options.sim && !options.list;
  if (!plain && !(options.json.empty() && options.baseline.empty() && options.format == "console" &&
                  options.repetitions == 0)) {
    throw UsageError(
        "--json, --format, --repetitions and --baseline are about times of this build alone: they "
        "do not go "
        "with --against, --sim or --list");
  }
  if (options.sim) return run_counts(options);
  const Setting setting = setting_of(options);
  if (options.serve) return serve(setting);
  if (plain) return Run(options).all();
  const std::vector<const Row*> chosen = choose_rows(options, setting.device);
  if (!options.against.empty()) return run_against(options, chosen);
  for (const Row* row : chosen) fmt::print("{}\n", row->name);
  return 0;
}

int fail(int code, const std::string& message) { return tool::fail(code, "bench: " + message); }

int parse_and_run(int argc, char** argv) {
  CLI::App app("Measures every kernel against what the hardware can do at best.", "wick bench");
  Options options;
  add_options(app, options);
  try {
    tool::check_words(app, {argv + 1, argv + argc});
    app.parse(argc, argv);
    return run(options);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return fail(tool::kUsageExit, std::string(error.what()) + ". See wick bench --help");
  } catch (const std::exception& error) {
    return fail(tool::exit_code_of(error), error.what());
  }
}

}  // namespace
}  // namespace wick::bench

int main(int argc, char** argv) {
  wick::tool::open_standard_files();
  wick::bench::handle_interrupts();
  std::signal(SIGXFSZ, SIG_IGN);
  const int code = wick::bench::parse_and_run(argc, argv);
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  return code == 0 ? wick::bench::fail(wick::tool::kFileExit, "cannot write to standard output")
                   : code;
}
