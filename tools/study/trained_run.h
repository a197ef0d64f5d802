#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "wick/core/graph/graph.h"
#include "wick/data/image_io.h"

namespace wick::study {

/// A figure over the steps of a run.
using Curve = std::vector<std::pair<double, double>>;

/// What a run's folder says.
struct TrainedRun {
  std::string name;  // of the folder
  std::string folder;
  nlohmann::ordered_json config;
  std::map<std::string, std::string> environment;  // as far as it is known
  std::map<std::string, Curve> curves;  // by the key in metrics.jsonl: loss, test_accuracy, ...
};

/// Reads config.json and metrics.jsonl; a torn last line is passed over. Error that names file and
/// line if they are not what a run writes.
TrainedRun read_run(const std::string& folder);

/// A test image, and what the model made of it.
struct Mistake {
  data::Image image;
  std::string name, label, guess;
  double loss = 0, confidence = 0;  // probability of the guess
};

/// What the weights of a run do with its test images.
struct Examination {
  std::vector<std::string> classes;
  std::vector<std::vector<int64_t>> confusion;  // by label, then by guess
  int64_t images = 0, right = 0;
  std::vector<Mistake> worst;  // by loss, the worst first
  data::Image augmented;       // training images by row, each as several epochs see it
  graph::Graph graph;          // of the model, for a batch of test images
  std::string why_no_graph;    // where the model cannot be traced
};

/// Runs the model of a run over its test images; `data_dir` says where they are now, if not where
/// they were. Error if model, weights or data are not to be had.
Examination examine(const std::string& folder, const std::string& data_dir);

}  // namespace wick::study
