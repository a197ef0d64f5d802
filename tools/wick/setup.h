#pragma once

#include <memory>
#include <string>
#include <vector>

#include "wick/data/dataset.h"
#include "wick/nn/models/registry.h"
#include "wick/optim/optim.h"
#include "wick/tools/wick/config.h"

namespace wick::tool {

/// The data of a run.
struct TrainingData {
  std::shared_ptr<const data::Dataset> train;
  std::shared_ptr<const data::Dataset> test;
  std::vector<std::string> class_names;
  nn::ImageShape image{};
};

/// Reads or draws the data that `config` names. With `test_only`, `train` stays null.
TrainingData make_data(const TrainConfig& config, bool test_only = false);

/// `config` with every open choice made to suit its model and data.
TrainConfig resolve(TrainConfig config);

/// The device that --device means: `auto` is a GPU if there is one this build can use, else the CPU
/// (`why` then says in one sentence why not a GPU), never a simulated one.
Device choose_device(const std::string& name, std::string* why = nullptr);

std::unique_ptr<optim::Optimizer> make_optimizer(const TrainConfig& config,
                                                 const nn::Module& model);

/// Null for a constant rate.
std::unique_ptr<optim::Schedule> make_schedule(const TrainConfig& config, int64_t total_steps,
                                               optim::Optimizer& optimizer);

}  // namespace wick::tool
