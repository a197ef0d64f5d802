#pragma once

#include "wick/tools/study/compare.h"
#include "wick/tools/study/html.h"
#include "wick/tools/study/store.h"
#include "wick/tools/study/technique.h"

namespace wick::study {

struct CaseResult {
  std::string workload;
  Comparison comparison;
};

struct LearningSide {
  double loss = 0, accuracy = 0;
  std::vector<double> curve;
};

struct LearningResult {
  std::string workload;
  int64_t steps = 0, seeds = 0;
  LearningSide off, on;
  Interval gain;  // of accuracy, 0 to 1, over seeds
};

/// What is known of a technique.
struct Measured {
  const Technique* technique = nullptr;
  std::vector<CaseResult> cases;
  std::vector<LearningResult> learning;
};

/// kSame: any difference is too small to be worth saying. kUnclear: the interval holds both that
/// and more, or is of too few measurements.
enum class Verdict { kGain, kLoss, kSame, kUnclear };
/// "gain", "loss" or "same": names of colours.
const char* kind_of(Verdict verdict);

Verdict speed_verdict(const Comparison& comparison);
Verdict memory_verdict(const Comparison& comparison);
Verdict learning_verdict(const LearningResult& learning);

/// "1.23×"
std::string ratio_text(double ratio);

/// All techniques, those that were not measured with no results.
std::vector<Measured> read_measured(const Store& store);

/// A card for each technique.
void show_cards(Html& html, const std::vector<Measured>& all);
/// The loss curves of both sides.
void learning_figure(Html& html, const Measured& measured, const LearningResult& learning);

}  // namespace wick::study
