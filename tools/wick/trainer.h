#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "wick/core/checkpoint.h"
#include "wick/data/catalog.h"
#include "wick/dist/data_parallel.h"
#include "wick/tools/wick/progress.h"
#include "wick/tools/wick/ranks.h"
#include "wick/tools/wick/rates.h"
#include "wick/tools/wick/run_folder.h"
#include "wick/tools/wick/setup.h"
#include "wick/tools/wick/train_step.h"

namespace wick::tool {

/// Loss and share of right answers over a data set.
struct Evaluation {
  double loss = 0;
  double accuracy = 0;  // 0 to 1
};

/// Runs `model` in evaluation mode over all of `dataset`, loaded as `options` say, each rank over
/// its part. Gives all ranks the same.
Evaluation evaluate(nn::Module& model, const std::shared_ptr<const data::Dataset>& dataset,
                    const data::DataLoaderOptions& options, Device device, Progress& progress,
                    const Ranks& ranks = {});

/// How a run ended.
enum class Outcome { kComplete, kInterrupted };

/// One training run: its model, optimizer, schedule and position, and the steps that move them on.
class Trainer {
 public:
  /// `config` is resolved. Output goes to standard output unless `json`, when every line is a JSON
  /// object there too. Of several ranks, which all call the same, the first alone prints and
  /// writes.
  Trainer(const TrainConfig& config, RunFolder folder, bool json, Ranks ranks = {});

  /// Claims the folder, goes on from its newest good checkpoint if the run is resumed and there is
  /// one, and writes the configuration. Error if the checkpoint is past the end of the run.
  void begin();
  /// Trains to the end, or until a signal asks to stop; leaves a checkpoint either way.
  Outcome run();

  nn::Module& model() { return *model_; }
  const data::TrainTest& data() const { return data_; }
  Device device() const { return device_; }
  const RunFolder& folder() const { return folder_; }
  int64_t steps_per_epoch() const { return loader_.size(); }
  /// Steps of the whole run.
  int64_t total_steps() const { return total_steps_; }
  int64_t step() const { return step_; }

 private:
  using Clock = std::chrono::steady_clock;

  // What is known of a step that the device may not have finished yet.
  struct UnreadStep {
    int64_t step;
    int64_t images;  // of all ranks, as what follows
    double images_per_second, data_wait;
    Tensor lr, loss, correct;
  };

  /// Does what --checkpoint-activations asks for, and tells.
  void spare_activations();
  /// Makes the ranks' models one, and with --zero their optimizers.
  void join_models();
  void resume();
  /// What ranks must have in common from here on, and what not.
  void settle_ranks();
  void train_epoch(bool& interrupted);
  UnreadStep take_step(const data::Batch& batch);
  /// The loader's newest batch, mixed if it is to be.
  TrainStep::Inputs mixed(const data::Batch& batch);
  /// Where `batch`, gone through again, first gives what is not finite; empty if nowhere.
  std::string first_anomaly(const data::Batch& batch);
  /// Makes what this rank has seen in a step what all have seen; and one that is to stop stops all.
  void add_up(Tensor& loss, Tensor& correct, int64_t& images);
  void evaluate_model();
  void evaluate_and_log();
  void save_checkpoint();
  /// Waits for the unread steps, shows and logs them.
  void report();
  void log_step(const UnreadStep& step, double lr, double loss, int64_t correct);
  void show(const UnreadStep& step, double loss);
  int64_t epoch_of(int64_t step) const { return (step - 1) / steps_per_epoch() + 1; }
  void print_json(const nlohmann::ordered_json& values) const;
  void log(const nlohmann::ordered_json& values);

  TrainConfig config_;
  RunFolder folder_;
  Ranks ranks_;
  bool json_, text_;
  Device device_;
  data::TrainTest data_;
  std::shared_ptr<nn::Module> model_;
  std::unique_ptr<dist::DistributedDataParallel> parallel_;  // around it, with several ranks
  std::unique_ptr<optim::Optimizer> optimizer_;
  data::Prefetcher loader_;
  int64_t total_steps_;
  Rates rates_;
  TrainStep train_step_;
  CheckpointStore store_;
  Progress progress_;

  int64_t step_ = 0;
  bool stopping_ = false;
  // Of the epoch under way in this process:
  Clock::time_point epoch_start_;
  double epoch_wait_ = 0;
  int64_t epoch_images_ = 0;                    // begun
  int64_t read_images_ = 0, read_correct_ = 0;  // known
  std::vector<UnreadStep> unread_;
  Clock::time_point last_read_;
  std::optional<Evaluation> last_;
};

/// Makes SIGINT and SIGTERM end training after the step under way.
void stop_on_signals();

}  // namespace wick::tool
