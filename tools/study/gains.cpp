#include "wick/tools/study/gains.h"
#include "wick/tools/common/as_typed.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "wick/core/base/check.h"
#include "wick/tools/study/cards.h"
#include "wick/tools/study/run.h"
#include "wick/tools/study/store.h"
#include "wick/tools/study/technique.h"

namespace wick::study {

namespace fs = std::filesystem;

namespace {

using nlohmann::json;

bool is_of_this_machine(const std::vector<json>& lines, const std::string& device) {
  return !lines.empty() && lines[0]["kind"] == "start" && lines[0].value("device", "") == device &&
         lines[0].value("machine", json()) == describe_machine();
}

// The gain of a line of a technique; none if it was not faster.
std::optional<Gain> gain_of(const json& line, profile::Bound bound) {
  const Technique* technique = find_technique(line.value("id", ""));
  if (line["kind"] != "technique" || technique == nullptr) return {};
  const auto& against = technique->against;
  if (std::find(against.begin(), against.end(), bound) == against.end()) return {};
  const json& first = line.at("cases").at(0);  // where the technique should matter
  const auto comparison = first.at("comparison").get<Comparison>();
  if (speed_verdict(comparison) != Verdict::kGain) return {};
  const Interval& speed = comparison.speed;
  return Gain{technique->id, technique->knob, first.at("workload").get<std::string>(),
              speed.low,     speed.middle,    speed.high};
}

std::optional<std::string> newest_study(const std::string& device) {
  std::vector<std::string> folders;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator("runs", error)) {
    if (entry.path().filename().string().starts_with("study-")) folders.push_back(entry.path());
  }
  std::sort(folders.rbegin(), folders.rend());  // names end with the time
  for (const std::string& folder : folders) {
    try {
      if (is_of_this_machine(read_study(folder), device)) return folder;
    } catch (const Error&) {  // damaged: an older one may do
    }
  }
  return {};
}

std::vector<Gain> gains_against(profile::Bound bound, const std::string& folder) {
  const std::vector<json> lines = read_study(folder);
  WICK_CHECK(!lines.empty(), "study: ", folder, " holds no study: expected a study.jsonl");
  std::vector<Gain> gains;
  for (const json& line : lines) {
    try {
      if (const auto gain = gain_of(line, bound)) gains.push_back(*gain);
    } catch (const json::exception&) {
      throw Error(concat("study: ", folder, ": a line of kind technique lacks its figures"));
    }
  }
  std::stable_sort(gains.begin(), gains.end(),
                   [](const Gain& a, const Gain& b) { return a.middle > b.middle; });
  return gains;
}

}  // namespace

std::optional<StudyGains> find_measured(profile::Bound bound, const std::string& folder,
                                        const std::string& device) {
  std::optional<std::string> study = folder;
  if (folder.empty()) study = newest_study(device);
  if (!study) return {};
  return StudyGains{*study, gains_against(bound, *study)};
}

std::string text_of(const std::optional<StudyGains>& measured) {
  if (!measured) {
    return "Not measured here yet: " + tool::as_typed("wick study --quick") +
           " shows what each technique gains.\n";
  }
  if (measured->gains.empty()) {
    return fmt::format("Measured here: no gain in {}.\n", measured->study);
  }
  std::string text = fmt::format("Measured here, in {}:\n", measured->study);
  for (const Gain& gain : measured->gains) {
    text += fmt::format("  {:<22} {:.2f}x ({:.2f} to {:.2f}), {}: {}\n", gain.technique,
                        gain.middle, gain.low, gain.high, gain.workload, gain.knob);
  }
  return text;
}

nlohmann::ordered_json to_json(const StudyGains& measured) {
  nlohmann::ordered_json values;
  values["study"] = measured.study;
  values["gains"] = nlohmann::ordered_json::array();
  for (const Gain& gain : measured.gains) {
    values["gains"].push_back({{"technique", gain.technique},
                               {"workload", gain.workload},
                               {"low", gain.low},
                               {"middle", gain.middle},
                               {"high", gain.high}});
  }
  return values;
}

}  // namespace wick::study
