// The rows of `wick bench`, timed by Google Benchmark: wick-gbench --benchmark_filter=softmax
#include <benchmark/benchmark.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "wick/bench/kernels/row.h"
#include "wick/core/random.h"
#include "wick/core/stream.h"
#include "wick/tools/common/exit_codes.h"

namespace wick::bench {
namespace {

void run_row(benchmark::State& state, const Row& row, const Setting& setting) {
  try {
    manual_seed(0);
    const Work work = row.prepare(setting);
    const std::string wrong = work.check ? work.check() : "";
    if (!wrong.empty()) return state.SkipWithError(wrong.c_str());
    for (auto _ : state) {
      work.call();
      synchronize(setting.device);
    }
    const auto per_call = [](double amount) {
      return benchmark::Counter(amount, benchmark::Counter::kIsIterationInvariantRate);
    };
    if (work.bytes > 0) state.counters["bytes_per_second"] = per_call(work.bytes);
    if (work.flops > 0) state.counters["flops_per_second"] = per_call(work.flops);
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
}

int run(int argc, char** argv) {
  CLI::App app("The rows of wick bench, timed by Google Benchmark, whose flags it takes too.");
  std::string device_name = "cpu";
  int64_t shrink = 1;
  app.add_option("--device", device_name, "cpu, cuda or cuda:N")->capture_default_str();
  app.add_option("--shrink", shrink, "divide sizes by this number")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.allow_extras();
  Setting setting;
  try {
    app.parse(argc, argv);
    setting = {parse_device(device_name), shrink};
  } catch (const CLI::CallForHelp& help) {
    app.exit(help);
    const char* words[] = {argv[0], "--help"};
    int count = 2;
    benchmark::Initialize(&count, const_cast<char**>(words));  // prints its own, and ends
    return 0;
  } catch (const std::exception& error) {
    return tool::fail(tool::kUsageExit, std::string("gbench: ") + error.what());
  }
  std::vector<std::string> rest = app.remaining();
  std::vector<char*> words{argv[0]};
  for (std::string& word : rest) words.push_back(word.data());
  int count = static_cast<int>(words.size());
  benchmark::Initialize(&count, words.data());
  if (benchmark::ReportUnrecognizedArguments(count, words.data())) return tool::kUsageExit;
  for (const Row& row : rows()) {
    if (setting.device.is_cuda() && row.cpu_only) continue;
    benchmark::RegisterBenchmark(row.name.c_str(), run_row, row, setting)->UseRealTime();
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace wick::bench

int main(int argc, char** argv) { return wick::bench::run(argc, argv); }
