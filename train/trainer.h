#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "wick/core/checkpoint.h"
#include "wick/train/evaluation.h"
#include "wick/train/jump_monitor.h"
#include "wick/train/ranks.h"
#include "wick/train/run_folder.h"
#include "wick/train/run_schedule.h"
#include "wick/train/step.h"

namespace wick::profile {
class Profiler;
}

namespace wick::train {

class CheckpointWriter;

/// Asks a run to stop after the step under way. Copies are the same token. Any thread may call
/// request(), and so may a signal handler.
class StopToken {
 public:
  /// Asks the run to stop. It cannot be taken back.
  void request() const { flag_->store(true, std::memory_order_relaxed); }
  /// Whether a stop was asked for.
  bool requested() const { return flag_->load(std::memory_order_relaxed); }

 private:
  std::shared_ptr<std::atomic<bool>> flag_ = std::make_shared<std::atomic<bool>>(false);
};

/// The loss or a weight became infinite or NaN.
class Diverged : public Error {
 public:
  using Error::Error;
};

/// What a step did, once the device has finished it.
struct StepEvent {
  int64_t step = 0, epoch = 0;           // from 1, `step` within the run
  int64_t samples = 0;                   // of the batch, on all ranks
  double loss = 0;                       // their mean
  Means means;                           // of the sums that the loss function gives
  double lr = 0;                         // of the optimizer's first group
  std::optional<double> grad_norm = {};  // before it was clipped; none without clip_norm
  double samples_per_second = 0;
  double data_wait = 0;  // share of the epoch's time so far spent waiting for data, 0 to 1
};

/// A figure of a step that is far above those of the steps before (JumpMonitor).
struct JumpEvent {
  int64_t step = 0, epoch = 0;  // from 1, `step` within the run
  int64_t batch = 0;            // from 1, within the epoch: what a seed makes of the data again
  const char* figure = "";      // "loss" or "gradient norm"
  double value = 0;
  double usual = 0;  // the median of the steps before
};

/// The end of an epoch, or of a run that ends within one, or an evaluation within an epoch.
struct EpochEvent {
  int64_t step = 0, epoch = 0;  // from 1, `step` within the run
  bool is_whole = true;         // false: within the epoch
  std::optional<Evaluation> evaluation = {};
};

/// A run's data. Field 0 of a batch has a sample per row, as have all others.
struct TrainData {
  std::shared_ptr<const data::Dataset> train;
  /// How `train` is loaded; of several ranks, as one process would load it.
  data::DataLoaderOptions loading = {};
  std::shared_ptr<const data::Dataset> test = {};  // null: the run evaluates nothing
  data::DataLoaderOptions test_loading = {};
  /// Changes each training batch on the device, given the epoch and the batch's number in it, both
  /// from 0. Null: no change.
  std::function<data::Batch(data::Batch, int64_t epoch, int64_t number)> prepare = {};
};

/// Options of a Trainer: how long it trains, when it evaluates, and what it writes. InvalidOption
/// for a value out of its range.
struct TrainerOptions {
  int64_t epochs = 1;
  std::optional<int64_t> max_steps = {};  // ends the run within an epoch
  StepOptions step = {};
  ScheduleOptions schedule = {};

  int64_t eval_every = 1;  // epochs between evaluations, of which one is at the end; 0: none
  std::optional<int64_t> eval_every_steps = {};  // evaluates within epochs too
  /// The loss and sums of evaluations. Null: those of training.
  LossFunction evaluation = {};

  /// Where metrics, weights and checkpoints are written. Empty: nothing is written.
  std::string folder = {};
  std::string config = "{}";     // JSON text that is kept as the folder's config.json
  int64_t log_every = 1;         // steps between lines of metrics.jsonl
  std::string unit = "samples";  // what metrics.jsonl calls samples, as in samples_per_second
  /// Steps between checkpoints beside those at the beginning and at the end of each epoch; none: no
  /// others.
  std::optional<int64_t> checkpoint_every = {};
  std::optional<double> checkpoint_seconds = {};  // the same by time
  int keep_checkpoints = 2;                       // how many of the newest are kept
  /// Keeps that of the epoch with the lowest test loss, too.
  bool keep_best = false;
  /// Whether a run ends, by FileError, as soon as a checkpoint or metrics cannot be written. If not
  /// it goes on, tries again (after `retry_seconds`, and at each checkpoint), and ends by FileError
  /// if the last checkpoint cannot be written either.
  bool stop_on_failed_save = false;
  double retry_seconds = 30;

  Ranks ranks = {};
  bool sync_batch_norm = false;  // batch normalisation by the batches of all ranks together
  bool zero = false;             // ranks share the optimizer's state (ZeRO stage 1)

  /// The first op whose result is not finite ends the run, with its name. Slow.
  bool detect_anomaly = false;

  /// Its step() is called behind each training step, which begins with the wait for its batch. The
  /// caller starts and stops it; it outlives the run.
  profile::Profiler* profiler = nullptr;

  // Called from the thread that runs, on every rank, or never where null.
  std::function<void(const StepEvent& event)> on_step = {};
  std::function<void(const JumpEvent& event)> on_jump = {};
  std::function<void(int64_t samples)> on_evaluation_batch = {};  // seen so far
  std::function<void(const EpochEvent& event)> on_epoch = {};
  /// A checkpoint is written, by a thread of its own, since a step or more. Rank 0's, as are those
  /// below.
  std::function<void(int64_t step, const std::string& path)> on_checkpoint = {};
  std::function<void(const std::string& problem)> on_failed_save = {};
  std::function<void(const std::string& json)> on_log = {};  // each line of metrics.jsonl
  StopToken stop = {};
};

/// How a run ended.
enum class Outcome { kComplete, kInterrupted };

/// Trains a model on a data set: epochs of steps, evaluations, metrics, checkpoints. A run that was
/// stopped, or killed, goes on from its newest checkpoint to the same bytes.
///
///   train::Trainer trainer(model, optimizer, loss, {.train = digits, .loading = {.batch_size =
///   64}},
///                          {.epochs = 5, .folder = "runs/digits"});
///   trainer.resume();
///   trainer.run();
///
/// Prints nothing and handles no signals. Without a folder it writes nothing.
class Trainer {
 public:
  /// The model is on the device that trains it, and `optimizer` updates its parameters. Draws
  /// nothing at random.
  Trainer(std::shared_ptr<nn::Module> model, std::shared_ptr<optim::Optimizer> optimizer,
          LossFunction loss, TrainData data, TrainerOptions options = {});
  /// Waits for a checkpoint that is being written.
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Claims the folder for a new run. Error if the folder holds a run or is in use. run() does it
  /// where neither this nor resume() was called.
  void begin();
  /// Claims the folder and goes on from its newest good checkpoint; begins where there is nothing.
  /// Returns whether there was one. `rejected` gets a line about each damaged one. Error if all
  /// checkpoints are damaged, if there are metrics or weights without one, or if the newest is past
  /// the end of the run.
  bool resume(std::string* rejected = nullptr);
  /// Goes on from a state that another run with the same model, optimizer and data left. For a
  /// trainer without a folder.
  void start_from(const Checkpoint& checkpoint);
  /// Trains to the end, or until the stop token asks to stop; leaves a checkpoint either way.
  Outcome run();

  /// The model that is trained.
  nn::Module& model() { return *model_; }
  /// The device of the model.
  Device device() const { return step_.device(); }
  /// Optimizer steps of an epoch: one for each batch of all ranks together.
  int64_t steps_per_epoch() const { return loader_.size(); }
  /// Steps of the whole run.
  int64_t total_steps() const { return total_steps_; }
  /// Steps taken, those of earlier processes included.
  int64_t step() const { return steps_; }
  /// Why some steps run eagerly in spite of `step.compile`; empty otherwise.
  std::string why_eager() const { return step_.why_eager(); }
  /// The newest evaluation of this process.
  const std::optional<Evaluation>& evaluation() const { return last_; }
  const data::DataLoader& loader() const { return loader_.loader(); }  // of training data
  /// The step and the test loss of the best checkpoint, with keep_best.
  const std::optional<std::pair<int64_t, double>>& best() const { return best_; }
  /// Where its files are: options.folder, or where that was moved to.
  const std::string& folder() const { return options_.folder; }

 private:
  using Clock = std::chrono::steady_clock;

  // A step whose figures are still on the device.
  struct UnreadStep {
    StepEvent event;
    Tensor lr;
    Tensor grad_norm;             // undefined without clip_norm
    Tensor non_finite;            // undefined with allow_non_finite
    std::vector<Tensor> figures;  // the loss, then the sums
  };

  void start(bool is_new);
  /// Makes the ranks' models one, and with `zero` their optimizers.
  void join_models();
  void load(const Checkpoint& checkpoint);
  /// Where the run stands in its data and its random numbers.
  TensorMap position() const;
  /// Gives the ranks what they must have in common from here on, and random states of their own.
  void settle_ranks();
  void train_epoch();
  bool is_within_epoch() const;
  bool is_due(std::optional<int64_t> every) const;
  void take_step(const data::Batch& batch);
  data::Batch prepared(const data::Batch& batch);
  /// The op that first gives a non-finite result when `batch` is computed again; empty if none.
  std::string first_anomaly(const data::Batch& batch);
  /// Sums the ranks' figures of a step, and their requests to stop.
  void sum_over_ranks(UnreadStep& step);
  void evaluate_model();
  void log_evaluation();
  void end_epoch();
  /// Returns false, and sets unsaved_, if those of a rank cannot be written.
  bool save_plans();
  Checkpoint state();
  /// A copy of all state is made; another thread writes it. If it cannot be written, that is told
  /// of, and with `is_last` a FileError.
  void save_checkpoint(bool is_last = false);
  /// That of the run's end, or beginning. Waits until it is written.
  void save_last_checkpoint();
  /// Whether it is time to save, by the clock, says rank 0.
  bool wants_to_save() const;
  /// Tells of checkpoints that have been written, or not.
  void tell_of_saves();
  void wait_for_save();
  void could_not_save();
  void save_weights();
  void tell_of_failure(const std::string& problem);
  /// Waits for the unread steps, logs them and tells of them.
  void report();
  /// Diverged if the loss or a weight is not finite.
  void check_finite(const StepEvent& event, bool weights_are_finite) const;
  void log_step(const StepEvent& event);
  void watch(JumpMonitor& monitor, const char* figure, double value, const StepEvent& event);
  void log(const std::string& json);
  int64_t epoch_of(int64_t step) const { return (step - 1) / steps_per_epoch() + 1; }

  TrainerOptions options_;
  TrainData data_;
  std::optional<RunFolder> folder_;  // rank 0's
  std::shared_ptr<nn::Module> model_;
  std::unique_ptr<dist::DistributedDataParallel> parallel_;  // around it, with several ranks
  std::shared_ptr<optim::Optimizer> optimizer_;
  LossFunction evaluation_;
  Step step_;
  data::Prefetcher loader_;
  int64_t total_steps_;
  RunSchedule schedule_;

  int64_t steps_ = 0;
  bool begun_ = false, stopping_ = false;
  // Of saving, where rank 0 has a folder:
  std::unique_ptr<CheckpointWriter> writer_;
  Clock::time_point last_save_;
  std::optional<Clock::time_point> retry_at_;
  std::string unsaved_;  // why the newest is not written; empty if it is, or will be
  bool is_time_to_save_ = false, is_last_save_ = false, has_told_of_metrics_ = false;
  std::optional<std::pair<int64_t, double>> best_;
  // Of the epoch under way in this process:
  Clock::time_point epoch_start_, last_read_;
  double epoch_wait_ = 0;
  int64_t epoch_samples_ = 0;
  std::vector<std::string> sum_names_;
  std::vector<UnreadStep> unread_;
  JumpMonitor losses_, grad_norms_;
  std::optional<Evaluation> last_;
};

}  // namespace wick::train
