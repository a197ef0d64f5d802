#include "wick/bench/runner/baseline.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "wick/core/file.h"

namespace wick::bench {

namespace {

using nlohmann::json;

constexpr uint64_t kMostBytes = uint64_t{1} << 28;

// A number of `entry` in [0, 10^15].
double number(const json& entry, const char* key) {
  const double value = entry.at(key).get<double>();
  if (!(value >= 0 && value <= 1e15)) throw Error(concat(key, " is out of range"));
  return value;
}

double seconds_per_unit(const std::string& unit) {
  for (const auto& [name, seconds] :
       {std::pair{"ns", 1e-9}, std::pair{"us", 1e-6}, std::pair{"ms", 1e-3}, std::pair{"s", 1.0}}) {
    if (unit == name) return seconds;
  }
  throw Error(concat("unknown time_unit \"", unit, "\""));
}

Baseline parse(const std::string& text, int64_t shrink) {
  const json all = json::parse(text);
  const auto before = all.at("context").at("wick").at("shrink").get<int64_t>();
  WICK_CHECK(before == shrink, "its sizes were divided by ", before, ", these by ", shrink,
             ": give --quick to both or to neither");
  Baseline rows;
  for (const json& entry : all.at("benchmarks")) {
    if (entry.value("aggregate_name", "") != "median") continue;
    BaselineRow row;
    row.seconds =
        number(entry, "real_time") * seconds_per_unit(entry.at("time_unit").get<std::string>());
    row.bound_seconds = number(entry, "bound_seconds");
    WICK_CHECK(row.seconds > 0, "a real_time is 0");
    rows[entry.at("run_name").get<std::string>()] = row;
  }
  return rows;
}

}  // namespace

Baseline read_baseline(const std::string& path, int64_t shrink) {
  const std::string text = read_file(path, kMostBytes);
  try {
    return parse(text, shrink);
  } catch (const json::parse_error& error) {
    throw Error(concat("--baseline ", path, ": not what wick bench --json writes: no JSON at byte ",
                       error.byte));
  } catch (const json::exception&) {
    throw Error(concat("--baseline ", path, ": not what wick bench --json writes"));
  } catch (const Error& error) {
    throw Error(concat("--baseline ", path, ": ", error.what()));
  }
}

double slowdown(const Result& result, const BaselineRow& before) {
  const bool scaled = result.bound.seconds > 0 && before.bound_seconds > 0;
  const double hardware = scaled ? result.bound.seconds / before.bound_seconds : 1;
  return result.seconds() / (before.seconds * hardware);
}

}  // namespace wick::bench
