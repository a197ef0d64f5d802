#pragma once

#include <functional>
#include <memory>
#include <string>

#include "wick/tools/wick/classification.h"
#include "wick/tools/wick/commands.h"
#include "wick/tools/wick/config.h"
#include "wick/tools/wick/setup.h"

namespace wick::tool {

/// Checks the configuration of a trial and makes it whole. Throws UsageError.
void prepare_tuning(TrainConfig& config);

/// The next batch, after the last that of the next epoch. Error if that has none.
data::Batch next_batch(data::Prefetcher& loader);

/// What the trials of `wick tune` run on: the same model, optimizer and batches as a training run
/// of that configuration begins with.
class Tuning {
 public:
  /// `config` is resolved.
  explicit Tuning(const TrainConfig& config);

  /// One optimizer step on the next batch of the data, epoch after epoch; returns its loss.
  double step();
  /// The next batch of the data, on the device.
  data::Batch next_batch() { return tool::next_batch(loader_); }
  /// One optimizer step on a batch on the device; returns its mean loss.
  Tensor step_on(const data::Batch& batch);
  /// One optimizer step on `batch` images of noise that stay on the device.
  void step_on_noise(int64_t batch);
  /// Forward and backward of the next batch; gradients are not scaled.
  void backward();

  nn::Module& model() { return *model_; }
  optim::Optimizer& optimizer() { return *optimizer_; }
  Device device() const { return device_; }
  int64_t train_size() const { return data_.train->size(); }
  const data::TrainTest& data() const { return data_; }
  /// What steps move on beside model and optimizer.
  optim::TrainingParts parts();

 private:
  data::Batch mixed(const data::Batch& batch);

  TrainConfig config_;
  Device device_;
  data::TrainTest data_;
  std::shared_ptr<nn::Module> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  data::Prefetcher loader_;
  train::TrainData training_;
  train::Step step_;
  Tensor noise_, noise_target_;
};

/// One line of `wick tune`'s plots.
struct Curve {
  std::vector<double> x, y;
  std::string x_name, y_name;
  std::optional<double> mark;  // a value of x to point out
};

/// The curve in characters, x by powers, `height` lines high.
std::string text_plot(const Curve& curve, int width = 64, int height = 12);
/// The curve as an SVG file that needs nothing else.
std::string svg_plot(const Curve& curve);

/// The folder for what a trial writes, claimed.
train::RunFolder tuning_folder(const TrainConfig& config);

void add_tune_lr(CLI::App& tune, Command& command);
void add_tune_batch(CLI::App& tune, Command& command);
void add_tune_loader(CLI::App& tune, Command& command);

}  // namespace wick::tool
