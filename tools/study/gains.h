#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "wick/core/profile/verdict.h"

namespace wick::study {

/// How much faster a technique made one of its workloads in a study.
struct Gain {
  std::string technique;  // "bfloat16"
  std::string knob;       // how to have it
  std::string workload;
  double low = 1, middle = 1, high = 1;  // times
};

/// What a study measured of the techniques against one bound.
struct StudyGains {
  std::string study;        // its folder
  std::vector<Gain> gains;  // of those that made a workload faster, the largest first
};

/// From the study in `folder`; if that is empty from the newest of `runs/` which was made on this
/// machine with `device` ("cpu"), and none if there is no such study. Error if the study cannot be
/// read.
std::optional<StudyGains> find_measured(profile::Bound bound, const std::string& folder,
                                        const std::string& device);
/// A line for each gain.
std::string text_of(const std::optional<StudyGains>& measured);
nlohmann::ordered_json to_json(const StudyGains& measured);

}  // namespace wick::study
