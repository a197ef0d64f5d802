#pragma once

#include <string>
#include <vector>

#include "wick/core/profile/verdict.h"
#include "wick/tools/study/settings.h"

namespace wick::study {

using Change = void (*)(Settings& settings);

/// A workload to measure a technique on.
struct Case {
  const char* name;  // "ResNet-20, 32x32, batch 64"
  Change change;     // makes the default settings this workload
};

/// One piece of advice of the articles, and how to measure what it is worth.
struct Technique {
  const char* id;        // "fused-optimizer"
  const char* title;     // "Update all parameters in a few passes"
  const char* articles;  // "000, 004": see article_titles
  const char* page;      // of docs/: "memory.md"
  const char* what;      // what it does, and why it may help
  const char* knob;      // how to have it, or not, with `wick train` or the library
  Change off;            // without it; null: the default settings
  Change on;
  std::vector<Case> cases;  // where it should matter; then where it should not
  bool needs_gpu = false;
  /// Where it may change what is learned: the training to compare the losses of.
  std::vector<Case> learning = {};
  /// What may bound a step that it makes faster.
  std::vector<profile::Bound> against = {};
};

/// All of them, in the order of the articles' subjects.
const std::vector<Technique>& techniques();
/// The one of that name, or null.
const Technique* find_technique(const std::string& id);

/// "Article 000: How to make your PyTorch code run faster"
const char* article_title(const std::string& number);

// Each file's own.
const std::vector<Technique>& data_techniques();
const std::vector<Technique>& step_techniques();
const std::vector<Technique>& training_techniques();
const std::vector<Technique>& device_techniques();

// Workloads that several use.
inline constexpr Case kResNet = {"ResNet-20, 32x32 images, batches of 64", [](Settings&) {}};
inline constexpr Case kSmallMlp = {"MLP of 512 units, batches of 64",
                                   [](Settings& s) { s.model = "mlp"; }};
inline constexpr Case kLearnLenet = {"LeNet, batches of 64", [](Settings& s) {
                                       s.model = "lenet";
                                       s.source = "data";
                                       s.augment = "none";
                                       s.lr = 0.001;
                                     }};

}  // namespace wick::study
