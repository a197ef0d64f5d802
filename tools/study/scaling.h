#pragma once

#include "wick/tools/study/html.h"
#include "wick/tools/study/run.h"
#include "wick/tools/study/scaling_rank.h"
#include "wick/tools/study/store.h"

namespace wick::study {

/// The word of `wick study` that asks for it.
inline constexpr const char* kScaling = "scaling";

/// Measures how data parallelism over slow links compares with what dist/scaling.h predicts, where
/// network namespaces can be made, and prints both; the line for the store.
nlohmann::json measure_scaling(const StudyOptions& options, const Settings& base,
                               const Thoroughness& how);

/// The step that a rank's own measurements make.
dist::StepModel step_model(const RankResult& result, double first_bucket, double bucket);

/// What was predicted and measured, and predictions up to 10,000 ranks.
void show_scaling(Html& html, const Store& store);

}  // namespace wick::study
