#include "wick/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "wick/core/anomaly.h"
#include "wick/core/file.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/options.h"
#include "wick/core/profile/profiler.h"
#include "wick/core/random.h"
#include "wick/dist/zero.h"
#include "wick/train/detail/checkpoint_writer.h"

namespace wick::train {

namespace {

// How long the host goes on without waiting for a GPU's figures.
constexpr std::chrono::milliseconds kReadEvery{200};

int64_t steps_of_run(const TrainerOptions& options, int64_t steps_per_epoch) {
  require(options.epochs >= 1, "epochs", "got ", options.epochs, ", expected 1 or more");
  require(!options.max_steps || *options.max_steps >= 1, "max_steps", "got ",
          options.max_steps.value_or(0), ", expected 1 or more");
  require(options.log_every >= 1, "log_every", "got ", options.log_every, ", expected 1 or more");
  require(options.checkpoint_every.value_or(1) >= 1, "checkpoint_every", "got ",
          options.checkpoint_every.value_or(0), ", expected 1 or more");
  require(options.checkpoint_seconds.value_or(1) > 0, "checkpoint_seconds", "got ",
          options.checkpoint_seconds.value_or(0), ", expected more than 0");
  require(!options.keep_best || options.eval_every > 0, "keep_best",
          "not with eval_every 0, by which nothing is evaluated");
  require(options.eval_every_steps.value_or(1) >= 1, "eval_every_steps", "got ",
          options.eval_every_steps.value_or(1), ", expected 1 or more");
  require(!options.eval_every_steps || options.eval_every > 0, "eval_every_steps",
          "not with eval_every 0, by which nothing is evaluated");
  require(options.eval_every >= 0, "eval_every", "got ", options.eval_every,
          ", expected 0 or more");
  WICK_CHECK(steps_per_epoch >= 1, "train: the data set has no batch: got ", steps_per_epoch,
             " steps per epoch, expected 1 or more");
  const int64_t most_epochs = std::numeric_limits<int64_t>::max() / steps_per_epoch;
  if (options.epochs <= most_epochs) {
    const int64_t all = options.epochs * steps_per_epoch;
    return options.max_steps ? std::min(all, *options.max_steps) : all;
  }
  // As good as no limit, which max_steps then is.
  require(options.max_steps.has_value(), "epochs", "got ", options.epochs, ", expected at most ",
          most_epochs, " of ", steps_per_epoch, " steps, or max_steps");
  return *options.max_steps;
}

template <class T>
T given(T value, const char* what) {
  WICK_CHECK(value != nullptr, "train: expected ", what, ", got none");
  return value;
}

TrainData checked(TrainData data) {
  given(data.train, "a data set to train on");
  return data;
}

// What a checkpoint holds under `name`.
template <class T>
const T& part(const std::map<std::string, T>& parts, const char* name) {
  const auto found = parts.find(name);
  WICK_CHECK(found != parts.end(), "checkpoint: it has no \"", name, "\"");
  return found->second;
}

}  // namespace

Trainer::~Trainer() = default;

Trainer::Trainer(std::shared_ptr<nn::Module> model, std::shared_ptr<optim::Optimizer> optimizer,
                 LossFunction loss, TrainData data, TrainerOptions options)
    : options_(std::move(options)),
      data_(checked(std::move(data))),
      model_(given(std::move(model), "a model")),
      optimizer_(given(std::move(optimizer), "an optimizer")),
      evaluation_(options_.evaluation ? options_.evaluation : given(loss, "a loss function")),
      step_(model_, *optimizer_, given(std::move(loss), "a loss function"), options_.step),
      loader_(data::load_ahead(
          data_.train, options_.ranks.share(data_.loading, data_.train->size()), step_.device())),
      total_steps_(steps_of_run(options_, loader_.size())),
      schedule_(options_.schedule, {total_steps_, loader_.size(), options_.eval_every},
                *optimizer_) {
  require(options_.ranks.alone() || !options_.step.cuda_graph, "cuda_graph",
          "not with several ranks");
  if (!options_.folder.empty() && options_.ranks.first()) {
    folder_ = RunFolder::of_other(options_.folder);
    writer_ = std::make_unique<CheckpointWriter>(options_.keep_checkpoints);
  }
}

void Trainer::begin() {
  WICK_CHECK(!begun_, "train: the run has begun already: got a second begin() or resume()");
  if (folder_) folder_->claim(/*is_new=*/true);
  if (!options_.ranks.alone()) join_models();
  start(/*is_new=*/true);
}

bool Trainer::resume(std::string* rejected) {
  WICK_CHECK(!begun_, "train: the run has begun already: got a second begin() or resume()");
  WICK_CHECK(!options_.folder.empty(), "train: resume: expected a folder, got none");
  if (folder_) folder_->claim(/*is_new=*/false);
  if (!options_.ranks.alone()) join_models();
  std::string damaged;
  const CheckpointStore store(RunFolder::of_other(options_.folder).checkpoints());
  const std::optional<Checkpoint> checkpoint = store.load_newest(&damaged);
  if (rejected != nullptr) *rejected = damaged;
  WICK_CHECK(checkpoint || damaged.empty(), "train: resume: none of the checkpoints in ",
             options_.folder, " can be used: to begin anew, remove them");
  WICK_CHECK(checkpoint || !RunFolder::of_other(options_.folder).holds_results(),
             "train: resume: ", options_.folder,
             " has metrics or weights but no checkpoint: to begin anew, remove metrics.jsonl and "
             "weights.safetensors, or name another folder");
  if (checkpoint) load(*checkpoint);
  if (folder_) folder_->drop_metrics_after(steps_);
  start(/*is_new=*/!checkpoint);
  return checkpoint.has_value();
}

void Trainer::start_from(const Checkpoint& checkpoint) {
  WICK_CHECK(!begun_, "train: the run has begun already: got a start_from() after it");
  WICK_CHECK(options_.folder.empty(), "train: start_from: got the folder ", options_.folder,
             ", expected none");
  if (!options_.ranks.alone()) join_models();
  load(checkpoint);
  start(/*is_new=*/false);
}

void Trainer::start(bool is_new) {
  if (!options_.ranks.alone()) settle_ranks();
  if (step_.scaler().enabled() && device().is_cuda()) schedule_.count_on_device();
  if (folder_) folder_->write_config(options_.config);
  begun_ = true;
  last_save_ = Clock::now();
  if (is_new) save_last_checkpoint();  // so that a run can be resumed from its first step on
}

void Trainer::join_models() {
  const auto& group = options_.ranks.group();
  if (options_.sync_batch_norm) dist::synchronize_batch_norms(*model_, group);
  // Synchronised, running statistics are the same on all ranks.
  parallel_ = std::make_unique<dist::DistributedDataParallel>(
      model_, group, dist::DataParallelOptions{.broadcast_buffers = !options_.sync_batch_norm});
  // Before a checkpoint's state is there, so that no rank ever has all of it.
  if (options_.zero) dist::shard_optimizer(*optimizer_, *parallel_);
}

void Trainer::settle_ranks() {
  const Ranks& ranks = options_.ranks;
  ranks.check_same("steps that checkpoints go on from", std::to_string(steps_));
  for (const auto& all : {model_->parameters(), buffers_of(*model_)}) ranks.broadcast(all);
  // Dropout is to differ from rank to rank. A checkpoint keeps rank 0's seed, which is any run's.
  constexpr uint64_t kSeedOfRanks = 0x9e3779b97f4a7c15;
  RandomKey random = default_generator(device()).get_state();
  random.seed ^= static_cast<uint64_t>(ranks.rank()) * kSeedOfRanks;
  default_generator(device()).set_state(random);
}

void Trainer::load(const Checkpoint& checkpoint) {
  require(checkpoint.step <= total_steps_, options_.max_steps ? "max_steps" : "epochs",
          "the run has done ", checkpoint.step, " steps, more than the ", total_steps_,
          " that are asked for");
  model_->load_state_dict(part(checkpoint.parts, "weights"));
  optimizer_->load_state_dict(part(checkpoint.parts, "optimizer"));
  if (schedule_.has_state()) schedule_.load_state_dict(part(checkpoint.parts, "schedule"));
  amp::GradScaler& scaler = step_.scaler();
  if (scaler.enabled()) scaler.load_state_dict(part(checkpoint.parts, "scaler"));
  if (optim::Ema* ema = step_.ema()) ema->load_state_dict(part(checkpoint.parts, "ema"));
  const TensorMap& position = part(checkpoint.parts, "position");
  const auto number = [&](const char* name) { return part(position, name).item<int64_t>(); };
  const int64_t epoch = number("epoch"), batch = number("batch");
  WICK_CHECK(epoch >= 0 && epoch <= checkpoint.step && batch >= 0 &&
                 epoch * steps_per_epoch() + batch == checkpoint.step,
             "checkpoint: step ", checkpoint.step, " is not at batch ", batch, " of epoch ", epoch,
             ", with ", steps_per_epoch(), " steps per epoch");
  const auto has = [&](const char* name) { return position.count(name) != 0; };
  std::optional<uint64_t> seed;
  if (has("loader_seed")) seed = static_cast<uint64_t>(number("loader_seed"));
  loader_.seek(epoch, batch, seed);
  const auto set_generator = [&](Device of, const char* seed_name, const char* offset_name) {
    default_generator(of).set_state(
        {static_cast<uint64_t>(number(seed_name)), static_cast<uint64_t>(number(offset_name))});
  };
  set_generator(device(), "random_seed", "random_offset");
  if (has("best_step")) best_ = {number("best_step"), part(position, "best_loss").item()};
  if (has("host_seed")) set_generator(kCpu, "host_seed", "host_offset");
  steps_ = checkpoint.step;
  if (writer_) writer_->trust(steps_);
}

TensorMap Trainer::position() const {
  const auto number = [](auto value) { return scalar_tensor(static_cast<int64_t>(value), kInt64); };
  const RandomKey random = default_generator(step_.device()).get_state();
  TensorMap position{{"epoch", number(loader_.epoch())},
                     {"batch", number(loader_.batch())},
                     {"random_seed", number(random.seed)},
                     {"random_offset", number(random.offset)}};
  if (best_) {
    position["best_step"] = number(best_->first);
    position["best_loss"] = scalar_tensor(best_->second, kFloat64);
  }
  // A loader without a seed draws one per epoch, from the CPU's generator.
  if (!data_.loading.seed && loader_.seed()) position["loader_seed"] = number(*loader_.seed());
  if (!data_.loading.seed && device().is_cuda()) {
    const RandomKey host = default_generator(kCpu).get_state();
    position["host_seed"] = number(host.seed);
    position["host_offset"] = number(host.offset);
  }
  return position;
}

data::Batch Trainer::prepared(const data::Batch& batch) {
  if (!data_.prepare) return batch;
  return data_.prepare(batch, loader_.epoch(), loader_.batch() - 1);
}

void Trainer::take_step(const data::Batch& batch) {
  UnreadStep unread;
  unread.lr = schedule_.lr();
  std::optional<DetectAnomaly> search;
  if (options_.detect_anomaly) search.emplace();
  const Step::Result result = step_.take_or_replay(prepared(batch), parallel_.get());
  search.reset();
  schedule_.step(result.skipped);
  ++steps_;
  unread.grad_norm = result.grad_norm;
  unread.non_finite = result.non_finite;
  unread.figures.push_back(result.loss);
  std::vector<std::string> names;
  for (const auto& [name, value] : result.sums) {
    names.push_back(name);
    unread.figures.push_back(value);
  }
  WICK_CHECK(unread_.empty() || names == sum_names_, "train: sums of step ", steps_, ": got ",
             names.size(), " of other names, expected those of the step before");
  sum_names_ = std::move(names);
  StepEvent& event = unread.event;
  event.step = steps_;
  event.epoch = epoch_of(steps_);
  event.samples = batch.size();
  if (parallel_) {
    sum_over_ranks(unread);
  } else {
    stopping_ = options_.stop.requested();
    is_time_to_save_ = wants_to_save();
  }
  epoch_samples_ += event.samples;
  const std::chrono::duration<double> elapsed = Clock::now() - epoch_start_;
  event.samples_per_second = static_cast<double>(epoch_samples_) / elapsed.count();
  event.data_wait = (loader_.wait_seconds() - epoch_wait_) / elapsed.count();
  unread_.push_back(std::move(unread));
}

std::string Trainer::first_anomaly(const data::Batch& batch) {
  if (!options_.ranks.alone()) return "";  // ranks that find nothing would wait for the others
  const DetectAnomaly search({.infinities = true});
  try {
    step_.backpropagate(prepared(batch));
  } catch (const AnomalyError& error) {
    return concat("; of the last step, ", error.what());
  }
  return "";
}

// Those of epochs' ends are saved after the evaluation.
bool Trainer::is_within_epoch() const {
  return !stopping_ && steps_ % steps_per_epoch() != 0 && steps_ < total_steps_;
}

// Whether what is done each `every` steps within an epoch is done now.
bool Trainer::is_due(std::optional<int64_t> every) const {
  return every && steps_ % *every == 0 && is_within_epoch();
}

void Trainer::train_epoch() {
  model_->train();
  epoch_start_ = last_read_ = Clock::now();
  epoch_wait_ = loader_.wait_seconds();
  epoch_samples_ = 0;
  while (steps_ < total_steps_ && !stopping_) {
    const std::optional<data::Batch> batch = loader_.next();
    if (!batch) break;
    try {
      take_step(*batch);
      if (device().is_cpu() || Clock::now() - last_read_ >= kReadEvery) report();
    } catch (const amp::NonFiniteGradients& error) {
      throw amp::NonFiniteGradients(error.what() + first_anomaly(*batch));
    }
    if (unread_.empty()) schedule_.settle();  // the device was waited for just now
    if (options_.profiler != nullptr) options_.profiler->step();
    if (data_.test && is_due(options_.eval_every_steps)) {
      report();
      const auto begin = Clock::now();
      evaluate_model();
      log_evaluation();
      if (options_.on_epoch) options_.on_epoch({steps_, epoch_of(steps_), false, last_});
      epoch_start_ += Clock::now() - begin;  // no part of training's rates
    }
    tell_of_saves();
    if (is_due(options_.checkpoint_every) || (is_time_to_save_ && is_within_epoch())) {
      report();
      save_checkpoint();
    }
  }
  report();
}

void Trainer::evaluate_model() {
  const RandomScope scope;  // training draws what it would draw without evaluations
  const Ranks& ranks = options_.ranks;
  std::optional<optim::Ema::Swap> averages;
  if (step_.ema() != nullptr) averages.emplace(*step_.ema());
  ranks.broadcast(buffers_of(*model_));
  data::Prefetcher loader = data::load_ahead(
      data_.test, ranks.evaluation_share(data_.test_loading, data_.test->size()), device());
  EvaluationOptions options;
  options.autocast = options_.step.autocast;
  options.ranks = ranks;
  options.compile = compile_mode(options_.step.compile);
  options.freeze = false;  // figures stay those of an eager run
  options.on_batch = options_.on_evaluation_batch;
  last_ = evaluate(*model_, loader, evaluation_, options);
}

void Trainer::log_evaluation() {
  nlohmann::ordered_json line;
  line["step"] = steps_;
  line["epoch"] = epoch_of(steps_);
  line["test_loss"] = last_->loss;
  for (const auto& [name, value] : last_->means) line["test_" + name] = value;
  if (last_->skipped > 0) line["test_skipped"] = last_->skipped;
  log(line.dump());
}

void Trainer::end_epoch() {
  const int64_t epoch = epoch_of(steps_);
  EpochEvent event{steps_, epoch, steps_ % steps_per_epoch() == 0};
  const bool is_due = data_.test && options_.eval_every > 0 &&
                      (epoch % options_.eval_every == 0 || steps_ == total_steps_);
  if (is_due) {
    evaluate_model();
    log_evaluation();
    event.evaluation = last_;
    if (event.is_whole && epoch % options_.eval_every == 0) schedule_.evaluated(last_->loss);
    const bool is_best = !best_ || last_->loss < best_->second;
    if (options_.keep_best && is_best && std::isfinite(last_->loss)) {
      best_ = {steps_, last_->loss};
    }
  }
  if (options_.on_epoch) options_.on_epoch(event);
}

Outcome Trainer::run() {
  if (!begun_) begin();
  stopping_ = false;
  while (steps_ < total_steps_) {
    const int64_t before = steps_;
    const bool is_whole = loader_.batch() == 0;
    train_epoch();
    if (is_whole && steps_ == before && !stopping_) throw Error(no_samples(loader_));
    if (stopping_ && steps_ < total_steps_) {
      save_last_checkpoint();
      options_.ranks.barrier();  // the first that leaves may end the others
      return Outcome::kInterrupted;
    }
    end_epoch();
    // The end of the last epoch is behind it, should the run be made longer.
    if (steps_ == total_steps_ && steps_ % steps_per_epoch() == 0) {
      loader_.seek(steps_ / steps_per_epoch(), 0);
    }
    steps_ == total_steps_ ? save_last_checkpoint() : save_checkpoint();
  }
  save_weights();
  if (!last_ && data_.test && options_.eval_every > 0) evaluate_model();
  options_.ranks.barrier();  // all is written, or all fail
  // A scaler that may skip any number of steps has not spoken.
  if (step_.scaler().enabled() && last_ && std::isnan(last_->loss)) {
    throw Diverged(concat("train: the test loss became ", last_->loss, " by the last step"));
  }
  return Outcome::kComplete;
}

}  // namespace wick::train
