#include "wick/tools/study/roofline.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "wick/core/base/check.h"
#include "wick/core/file.h"

namespace wick::study {

namespace {

using nlohmann::json;

constexpr uint64_t kMostBenchBytes = uint64_t{64} << 20;
constexpr double kLeastIntensity = 1e-2;

// What one row of the file says.
struct KernelRow {
  std::string name;
  double intensity = 0;         // operations for each byte
  double flops = 0, bytes = 0;  // per second
  double fraction = 0;          // of the bound
};

json read_bench(const std::string& path) {
  json file = json::parse(read_file(path, kMostBenchBytes), nullptr, /*allow_exceptions=*/false);
  const auto is_bench = [&] {
    if (!file.is_object() || !file.contains("benchmarks") || !file["benchmarks"].is_array()) {
      return false;
    }
    const auto pointer = "/context/wick/ceilings"_json_pointer;
    if (!file.contains(pointer) || !file[pointer].is_object()) return false;
    return !file[pointer].contains("memory") || file[pointer]["memory"].is_array();
  };
  WICK_CHECK(is_bench(), "study: ", path, " is not what wick bench --json writes");
  return file;
}

double number(const json& entry, const char* key) {
  const auto found = entry.find(key);
  return found != entry.end() && found->is_number() ? found->get<double>() : 0;
}

std::vector<KernelRow> read_rows(const json& file) {
  std::vector<KernelRow> rows;
  for (const json& entry : file["benchmarks"]) {
    if (!entry.is_object() || entry.value("aggregate_name", json()) != "median") continue;
    KernelRow row;
    const json name = entry.value("run_name", json());
    if (name.is_string()) row.name = name.get<std::string>();
    row.bytes = number(entry, "bytes_per_second");
    row.flops = number(entry, "flops_per_second");
    row.fraction = number(entry, "fraction_of_bound");
    if (row.bytes <= 0) continue;
    row.intensity = std::max(kLeastIntensity, row.flops / row.bytes);
    rows.push_back(row);
  }
  return rows;
}

// The best of the memory's figures: what the smallest footprints reach is the caches'.
json roof_points(double bytes_per_second, double flops_per_second, double most_intensity) {
  json points = json::array();
  for (double x = kLeastIntensity; x <= most_intensity * 1.001; x *= std::pow(10, 0.125)) {
    points.push_back({x, std::min(x * bytes_per_second, flops_per_second) / 1e9});
  }
  return points;
}

std::vector<KernelRow> shown_rows(const json& file, const std::string& path) {
  std::vector<KernelRow> rows = read_rows(file);
  WICK_CHECK(!rows.empty(), "study: ", path, " has no row with a median and bytes per second");
  return rows;
}

}  // namespace

void check_bench(const std::string& path) { shown_rows(read_bench(path), path); }

void show_roofline(Html& html, const std::string& path) {
  const json file = read_bench(path);
  const std::vector<KernelRow> rows = shown_rows(file, path);
  const json& ceilings = file["/context/wick/ceilings"_json_pointer];
  html.element("h2", "Kernels against the machine's limits", {{"id", "roofline"}});
  html.element("p",
               "Each mark is a kernel: how many operations it does for each byte that it has "
               "to move, and how many it does per second. No kernel can be above the line, "
               "which was measured in the same run: memory's rate on the left, arithmetic's "
               "on the right.");
  json chart = {{"type", "dots"},
                {"x", {{"title", "operations per byte"}, {"log", true}}},
                {"y", {{"title", "GFLOP/s"}, {"log", true}}},
                {"series", json::array()}};
  double most = 10;
  json points = json::array(), names = json::array();
  std::vector<std::vector<std::string>> table;
  for (const KernelRow& row : rows) {
    most = std::max(most, row.intensity);
    points.push_back(
        {row.intensity, std::max(1e-3, std::max(row.flops, row.bytes * kLeastIntensity) / 1e9)});
    names.push_back(row.name);
    table.push_back({row.name, fmt::format("{:.2f}", row.bytes / 1e9),
                     fmt::format("{:.1f}", row.flops / 1e9), fmt::format("{:.2f}", row.intensity),
                     row.fraction > 0 ? fmt::format("{:.0f} %", 100 * row.fraction) : "–"});
  }
  chart["series"].push_back({{"name", "kernels"}, {"points", points}, {"names", names}});
  const double flops = number(ceilings, "flops_float32");
  double memory_rate = 0;
  for (const json& entry : ceilings.value("memory", json::array())) {
    memory_rate = number(entry, "bytes_per_second");  // the last is of the largest footprint
  }
  if (flops > 0 && memory_rate > 0) {
    chart["series"].push_back({{"name", "limit, float32, from main memory"},
                               {"points", roof_points(memory_rate, flops, most)},
                               {"line", true}});
  }
  html.figure("Roofline", chart, {"Kernel", "GB/s", "GFLOP/s", "Operations/byte", "Of the limit"},
              table);
}

}  // namespace wick::study
