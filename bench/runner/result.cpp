#include "wick/bench/runner/result.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

#include "wick/core/base/parallel.h"
#include "wick/core/file.h"
#include "wick/kernels/declare.h"

namespace wick::bench {

namespace {

using nlohmann::ordered_json;

std::string date() {
  const std::time_t time = std::time(nullptr);
  std::tm local{};
  localtime_r(&time, &local);
  char text[64];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S%z", &local)};
}

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

ordered_json ceilings_json(const Ceilings& ceilings) {
  ordered_json memory = ordered_json::array();
  for (const Ceilings::Memory& m : ceilings.memory) {
    memory.push_back({{"footprint", m.footprint}, {"bytes_per_second", m.bytes_per_second}});
  }
  return {{"memory", memory},
          {"flops_float32", ceilings.flops_float32},
          {"flops_bfloat16", ceilings.flops_bfloat16}};
}

ordered_json context_json(const Report& report) {
  double load[3] = {0, 0, 0};
  const int loads = getloadavg(load, 3);
  ordered_json context = {{"date", date()},
                          {"host_name", host_name()},
                          {"executable", "wick-bench"},
                          {"num_cpus", sysconf(_SC_NPROCESSORS_ONLN)},
                          {"mhz_per_cpu", 0},
                          {"cpu_scaling_enabled", false},
                          {"caches", ordered_json::array()},
                          {"load_avg", ordered_json::array()},
                          {"library_build_type", "release"}};
  for (int i = 0; i < loads; ++i) context["load_avg"].push_back(load[i]);
  context["wick"] = {{"device", report.device},
                     {"threads", num_threads()},
                     {"isa", cpu_isa() == CpuIsa::kAvx512 ? "avx512" : "avx2"},
                     {"shrink", report.shrink},
                     {"ceilings", ceilings_json(report.ceilings)}};
  return context;
}

// What every entry of a row has.
ordered_json entry(const Result& r, size_t row, const std::string& suffix) {
  return {{"name", r.name + suffix},
          {"family_index", row},
          {"per_family_instance_index", 0},
          {"run_name", r.name},
          {"run_type", suffix.empty() ? "iteration" : "aggregate"},
          {"repetitions", r.timing.seconds.size()}};
}

void add_times(ordered_json& to, const Result& r, double seconds, double cpu_seconds) {
  to["real_time"] = 1e9 * seconds;
  to["cpu_time"] = 1e9 * cpu_seconds;
  to["time_unit"] = "ns";
  to["bytes"] = r.bytes;
  to["flops"] = r.flops;
  to["bytes_per_second"] = r.bytes / seconds;
  to["flops_per_second"] = r.flops / seconds;
  to["bound_seconds"] = r.bound.seconds;
  to["fraction_of_bound"] = r.bound.seconds / seconds;
  to["label"] = r.bound.by;
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double stddev_of(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const double mean = mean_of(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

void add_aggregate(ordered_json& to, const Result& r, size_t row, const char* name,
                   double (*of)(const std::vector<double>&)) {
  ordered_json next = entry(r, row, std::string("_") + name);
  next["threads"] = 1;
  next["aggregate_name"] = name;
  next["aggregate_unit"] = "time";
  next["iterations"] = r.timing.seconds.size();
  if (name == std::string("stddev")) {
    next["real_time"] = 1e9 * of(r.timing.seconds);
    next["cpu_time"] = 1e9 * of(r.timing.cpu_seconds);
    next["time_unit"] = "ns";
  } else {
    add_times(next, r, of(r.timing.seconds), of(r.timing.cpu_seconds));
  }
  if (name == std::string("median")) {
    next["interval_low"] = 1e9 * r.interval().low;
    next["interval_high"] = 1e9 * r.interval().high;
  }
  to.push_back(next);
}

double median_of(const std::vector<double>& values) { return median(values); }

void add_result(ordered_json& to, const Result& r, size_t row) {
  if (!r.error.empty()) {
    ordered_json failed = entry(r, row, "");
    failed["repetitions"] = 1;
    failed["repetition_index"] = 0;
    failed["threads"] = 1;
    failed["error_occurred"] = true;
    failed["error_message"] = r.error;
    failed["iterations"] = 0;
    failed["real_time"] = failed["cpu_time"] = 0;
    failed["time_unit"] = "ns";
    to.push_back(failed);
    return;
  }
  for (size_t i = 0; i < r.timing.seconds.size(); ++i) {
    ordered_json next = entry(r, row, "");
    next["repetition_index"] = i;
    next["threads"] = 1;
    next["iterations"] = r.timing.calls;
    add_times(next, r, r.timing.seconds[i], r.timing.cpu_seconds[i]);
    to.push_back(next);
  }
  add_aggregate(to, r, row, "mean", mean_of);
  add_aggregate(to, r, row, "median", median_of);
  add_aggregate(to, r, row, "stddev", stddev_of);
}

ordered_json entries(const Report& report) {
  ordered_json all = ordered_json::array();
  for (size_t i = 0; i < report.results.size(); ++i) add_result(all, report.results[i], i);
  return all;
}

// Google Benchmark's, and what rows have beside them.
constexpr std::array kColumns = {"name",
                                 "iterations",
                                 "real_time",
                                 "cpu_time",
                                 "time_unit",
                                 "bytes_per_second",
                                 "items_per_second",
                                 "label",
                                 "error_occurred",
                                 "error_message",
                                 "flops_per_second",
                                 "bound_seconds",
                                 "fraction_of_bound"};

// Texts in quotes, in which a quote is doubled; units are no texts there.
std::string cell_of(const ordered_json& value) {
  if (!value.is_string()) return value.dump();
  std::string text;
  for (const char c : value.get<std::string>()) text += c == '"' ? "\"\"" : std::string(1, c);
  return text == "ns" ? text : '"' + text + '"';
}

}  // namespace

std::string duration(double seconds) {
  for (const auto& [unit, name] :
       {std::pair{1.0, "s"}, std::pair{1e-3, "ms"}, std::pair{1e-6, "us"}}) {
    if (seconds >= unit) return fmt::format("{:.3g} {}", seconds / unit, name);
  }
  return fmt::format("{:.3g} ns", seconds * 1e9);
}

std::string table_heading() {
  return fmt::format("{:<52} {:>8} {:>5} {:>7} {:>7} {:>8} {:>6}", "row", "time", "+-", "GB/s",
                     "GFLOP/s", "bound", "of it");
}

std::string table_row(const Result& r) {
  if (!r.error.empty()) return fmt::format("{:<52} {}", r.name, r.error);
  const Interval interval = r.interval();
  const double spread = std::min(9.99, (interval.high - interval.low) / 2 / r.seconds());
  const auto rate = [&](double amount) {
    return amount > 0 ? fmt::format("{:.3g}", amount / r.seconds() / 1e9) : std::string("-");
  };
  std::string gflops = rate(r.flops);
  if (r.flops / r.seconds() >= 1e12) gflops = fmt::format("{:.0f}", r.flops / r.seconds() / 1e9);
  return fmt::format("{:<52} {:>8} {:>5} {:>7} {:>7} {:>8} {:>6}", r.name, duration(r.seconds()),
                     fmt::format("{:.{}f}%", 100 * spread, spread < 0.1 ? 1 : 0), rate(r.bytes),
                     gflops, r.bound.by,
                     r.bound.seconds > 0 ? fmt::format("{:.0f}%", 100 * r.fraction()) : "-");
}

std::string to_json(const Report& report) {
  const ordered_json all = {{"context", context_json(report)}, {"benchmarks", entries(report)}};
  return all.dump(1) + "\n";
}

std::string to_csv(const Report& report) {
  std::string text;
  const auto add = [&](const std::string& cell, const char* column) {
    text += cell + (column == kColumns.back() ? "\n" : ",");
  };
  for (const char* column : kColumns) add(column, column);
  for (const ordered_json& one : entries(report)) {
    for (const char* column : kColumns) {
      const auto found = one.find(column);
      add(found == one.end() ? "" : cell_of(*found), column);
    }
  }
  return text;
}

void write_json(const Report& report, const std::string& path) {
  write_file(path, to_json(report));
}

}  // namespace wick::bench
