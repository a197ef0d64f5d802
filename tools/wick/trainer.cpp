#include "wick/tools/wick/trainer.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "wick/core/anomaly.h"
#include "wick/core/autograd.h"
#include "wick/core/base/parallel.h"
#include "wick/core/memory/stats.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/loss.h"
#include "wick/core/ops/random.h"
#include "wick/core/random.h"
#include "wick/dist/zero.h"
#include "wick/nn/activation_plan.h"
#include "wick/tools/interrupt.h"

namespace wick::tool {

namespace {

std::atomic<bool> stop_requested{false};

// How long the host goes on without waiting for a GPU to tell losses.
constexpr std::chrono::milliseconds kReadEvery{200};

int64_t steps_of_run(const TrainConfig& config, int64_t steps_per_epoch) {
  const int64_t all = *config.epochs * steps_per_epoch;
  return config.max_steps ? std::min(all, *config.max_steps) : all;
}

// What a checkpoint holds under `name`.
template <class T>
const T& part(const std::map<std::string, T>& parts, const char* name) {
  const auto found = parts.find(name);
  WICK_CHECK(found != parts.end(), "checkpoint: it has no \"", name, "\"");
  return found->second;
}

}  // namespace

void stop_on_signals() {
  on_interrupt([](int) { stop_requested = true; }, /*once=*/true);
}

Evaluation evaluate(nn::Module& model, const std::shared_ptr<const data::Dataset>& dataset,
                    const data::DataLoaderOptions& options, Device device, Progress& progress,
                    const Ranks& ranks) {
  const InferenceMode inference;
  const bool was_training = model.is_training();
  model.eval();
  data::Prefetcher loader =
      data::load_ahead(dataset, ranks.evaluation_share(options, dataset->size()), device);
  // Sums stay on the device, which is waited for once.
  const Tensor loss = zeros({}, kFloat64, device), correct = zeros({}, kInt64, device);
  int64_t done = 0;
  while (const std::optional<data::Batch> batch = loader.next()) {
    const Tensor logits = model((*batch)[0]), target = (*batch)[1];
    loss.add_(cross_entropy(logits, target).to(kFloat64), batch->size());
    correct.add_(count_correct(logits, target));
    done += batch->size();
    progress.show_evaluation(done * ranks.size(), dataset->size());
  }
  model.train(was_training);
  const std::vector<double> sums =
      ranks.sum({loss.item(), correct.item(), static_cast<double>(done)});
  if (sums[2] == 0) throw Error(no_images(loader));
  return {sums[0] / sums[2], sums[1] / sums[2]};
}

Trainer::Trainer(const TrainConfig& config, RunFolder folder, bool json, Ranks ranks)
    : config_(config),
      folder_(std::move(folder)),
      ranks_(std::move(ranks)),
      json_(json && ranks_.first()),
      text_(!json && ranks_.first()),
      device_(choose_device(config.device, ranks_.local_rank())),
      data_(open_train_data(config)),
      model_(make_seeded_model(config, data_, device_)),
      optimizer_(make_optimizer(config, *model_)),
      loader_(data::load_ahead(
          data_.train,
          ranks_.share(train_loader_options(config, data_, device_), data_.train->size()),
          device_)),
      total_steps_(steps_of_run(config, loader_.size())),
      rates_(config, total_steps_, loader_.size(), *optimizer_),
      train_step_(config, data_, device_, model_, *optimizer_),
      store_(folder_.checkpoints()),
      progress_(!text_) {}

void Trainer::begin() {
  if (!config_.resume) check_uses(config_, data_, *model_);  // else as the run began
  spare_activations();
  if (ranks_.first()) folder_.claim(/*is_new=*/!config_.resume);
  if (!ranks_.alone()) join_models();
  if (config_.resume) resume();
  if (!ranks_.alone()) settle_ranks();
  if (train_step_.scaler().enabled() && device_.is_cuda()) rates_.count_on_device();
  if (!ranks_.first()) return;
  TrainConfig lasting = config_;
  if (!ranks_.alone()) lasting.threads.reset();  // these suit that many ranks
  folder_.write_config(lasting);
}

void Trainer::join_models() {
  if (config_.sync_batch_norm) dist::synchronize_batch_norms(*model_, ranks_.group());
  // Synchronised, running statistics are the same on all ranks.
  parallel_ = std::make_unique<dist::DistributedDataParallel>(
      model_, ranks_.group(),
      dist::DataParallelOptions{.broadcast_buffers = !config_.sync_batch_norm});
  // Before a checkpoint's state is there, so that no rank ever has all of it.
  if (config_.zero) dist::shard_optimizer(*optimizer_, *parallel_);
}

void Trainer::settle_ranks() {
  ranks_.check_same("steps that checkpoints go on from", std::to_string(step_));
  for (const auto& all : {model_->parameters(), buffers_of(*model_)}) ranks_.broadcast(all);
  // Dropout is to differ from rank to rank. A checkpoint keeps rank 0's seed, which is any run's.
  constexpr uint64_t kSeedOfRanks = 0x9e3779b97f4a7c15;
  RandomKey random = default_generator(device_).get_state();
  random.seed ^= static_cast<uint64_t>(ranks_.rank()) * kSeedOfRanks;
  default_generator(device_).set_state(random);
}

void Trainer::spare_activations() {
  const std::optional<nn::ActivationFit> fit =
      checkpoint_activations(config_, *model_, data_.image_shape(), device_, ranks_.size());
  if (!fit || !text_) return;
  fmt::print("activations  {} of {} blocks are made again: a step holds {}, without {}\n",
             fit->recomputed, fit->units, bytes_text(fit->peak), bytes_text(fit->plain_peak));
}

void Trainer::resume() {
  std::string rejected;
  const std::optional<Checkpoint> checkpoint = store_.load_newest(&rejected);
  if (!rejected.empty() && ranks_.first()) fmt::print(stderr, "{}", rejected);
  if (!checkpoint && !rejected.empty()) {
    throw Error(concat("--resume: none of the checkpoints in ", folder_.checkpoints(),
                       " can be used: to begin anew, remove them"));
  }
  if (checkpoint) {
    if (checkpoint->step > total_steps_) {
      throw UsageError(fmt::format(
          "--resume: the run has done {} steps, more than the {} that --epochs and --max-steps ask "
          "for",
          checkpoint->step, total_steps_));
    }
    model_->load_state_dict(part(checkpoint->parts, "weights"));
    optimizer_->load_state_dict(part(checkpoint->parts, "optimizer"));
    if (rates_.has_state()) rates_.load_state_dict(part(checkpoint->parts, "schedule"));
    amp::GradScaler& scaler = train_step_.scaler();
    if (scaler.enabled()) scaler.load_state_dict(part(checkpoint->parts, "scaler"));
    if (optim::Ema* ema = train_step_.ema()) ema->load_state_dict(part(checkpoint->parts, "ema"));
    const TensorMap& position = part(checkpoint->parts, "position");
    const auto number = [&](const char* name) { return part(position, name).item<int64_t>(); };
    const int64_t epoch = number("epoch"), batch = number("batch");
    WICK_CHECK(epoch >= 0 && epoch <= checkpoint->step && batch >= 0 &&
                   epoch * steps_per_epoch() + batch == checkpoint->step,
               "checkpoint: step ", checkpoint->step, " is not at batch ", batch, " of epoch ",
               epoch, ", with ", steps_per_epoch(), " steps per epoch");
    loader_.seek(epoch, batch);
    default_generator(device_).set_state({static_cast<uint64_t>(number("random_seed")),
                                          static_cast<uint64_t>(number("random_offset"))});
    step_ = checkpoint->step;
  }
  if (ranks_.first()) folder_.drop_metrics_after(step_);
}

void Trainer::save_checkpoint() {
  rates_.settle();
  Checkpoint checkpoint;
  checkpoint.step = step_;
  // All ranks have a part of a shared one.
  if (ranks_.first() || config_.zero) checkpoint.parts["optimizer"] = optimizer_->state_dict();
  if (!ranks_.first()) return;
  checkpoint.parts["weights"] = model_->state_dict();
  if (rates_.has_state()) checkpoint.parts["schedule"] = rates_.state_dict();
  const amp::GradScaler& scaler = train_step_.scaler();
  if (scaler.enabled()) checkpoint.parts["scaler"] = scaler.state_dict();
  if (const optim::Ema* ema = train_step_.ema()) checkpoint.parts["ema"] = ema->state_dict();
  const RandomKey random = default_generator(device_).get_state();
  checkpoint.parts["position"] = {
      {"epoch", scalar_tensor(loader_.epoch(), kInt64)},
      {"batch", scalar_tensor(loader_.batch(), kInt64)},
      {"random_seed", scalar_tensor(static_cast<int64_t>(random.seed), kInt64)},
      {"random_offset", scalar_tensor(static_cast<int64_t>(random.offset), kInt64)}};
  store_.save(checkpoint);
}

TrainStep::Inputs Trainer::mixed(const data::Batch& batch) {
  return train_step_.mixed(batch, loader_.epoch(), loader_.batch() - 1);
}

void Trainer::add_up(Tensor& loss, Tensor& correct, int64_t& images) {
  const auto own = static_cast<double>(images);
  const std::vector<double> sums =
      ranks_.sum({loss.item() * own, correct.item(), own, stop_requested ? 1.0 : 0.0});
  loss = scalar_tensor(sums[0] / sums[2]);
  correct = scalar_tensor(static_cast<int64_t>(sums[1]), kInt64);
  images = static_cast<int64_t>(sums[2]);
  stopping_ = sums[3] > 0;
}

Trainer::UnreadStep Trainer::take_step(const data::Batch& batch) {
  const Tensor lr = rates_.lr();
  std::optional<DetectAnomaly> search;
  if (config_.detect_anomaly) search.emplace();
  auto [loss, correct, skipped] = train_step_.take_or_replay(mixed(batch), parallel_.get());
  search.reset();
  rates_.step(skipped);
  ++step_;
  int64_t images = batch.size();
  if (parallel_) {
    add_up(loss, correct, images);
  } else {
    stopping_ = stop_requested;
  }
  epoch_images_ += images;
  const std::chrono::duration<double> elapsed = Clock::now() - epoch_start_;
  return {step_,
          images,
          static_cast<double>(epoch_images_) / elapsed.count(),
          (loader_.wait_seconds() - epoch_wait_) / elapsed.count(),
          lr,
          loss,
          correct};
}

std::string Trainer::first_anomaly(const data::Batch& batch) {
  if (!ranks_.alone()) return "";  // those that find nothing would wait for the others
  const DetectAnomaly search({.infinities = true});
  try {
    train_step_.backpropagate(mixed(batch));
  } catch (const AnomalyError& error) {
    return concat("; of the last step, ", error.what());
  }
  return "";
}

void Trainer::print_json(const nlohmann::ordered_json& values) const {
  if (!json_) return;
  fmt::print("{}\n", values.dump());
  std::fflush(stdout);
}

void Trainer::log(const nlohmann::ordered_json& values) {
  if (!ranks_.first()) return;
  folder_.log(values);
  print_json(values);
}

void Trainer::log_step(const UnreadStep& step, double lr, double loss, int64_t correct) {
  if (step.step % config_.log_every != 0 && step.step != total_steps_) return;
  nlohmann::ordered_json line;
  line["step"] = step.step;
  line["epoch"] = epoch_of(step.step);
  line["loss"] = loss;
  line["lr"] = lr;
  line["images_per_second"] = step.images_per_second;
  line["data_wait"] = step.data_wait;
  line["accuracy"] = static_cast<double>(correct) / static_cast<double>(step.images);
  line["memory_bytes"] = static_cast<int64_t>(max_memory_allocated(device_));
  log(line);
}

void Trainer::show(const UnreadStep& step, double loss) {
  StepReport shown;
  shown.epoch = epoch_of(step.step);
  shown.epochs = *config_.epochs;
  shown.step = (step.step - 1) % steps_per_epoch() + 1;
  shown.steps = steps_per_epoch();
  shown.last = shown.step == shown.steps || step.step == total_steps_;
  shown.loss = loss;
  shown.accuracy = static_cast<double>(read_correct_) / static_cast<double>(read_images_);
  shown.images_per_second = step.images_per_second;
  shown.data_wait = step.data_wait;
  const int64_t images_left = (total_steps_ - step.step) * *config_.batch_size;
  shown.seconds_left = static_cast<double>(images_left) / step.images_per_second;
  shown.memory_bytes = static_cast<int64_t>(max_memory_allocated(device_));
  progress_.show(shown);
}

void Trainer::report() {
  if (unread_.empty()) return;
  train_step_.scaler().check_skips();
  std::vector<Tensor> each_lr, each_loss, each_correct;
  for (const UnreadStep& step : unread_) {
    each_lr.push_back(step.lr);
    each_loss.push_back(step.loss);
    each_correct.push_back(step.correct);
  }
  const auto rates = stack(each_lr).to_vector<double>();
  const auto losses = stack(each_loss).to_vector<float>();
  const auto corrects = stack(each_correct).to_vector<int64_t>();
  for (size_t i = 0; i < unread_.size(); ++i) {
    const UnreadStep& step = unread_[i];
    // With float16, infinities are the scaler's to judge.
    WICK_CHECK(train_step_.scaler().enabled() || std::isfinite(losses[i]),
               "train: the loss became ", losses[i], " at step ", step.step,
               ": lower --lr (it was ", *config_.lr,
               " at its peak), or see with --detect-anomaly where it begins");
    read_images_ += step.images;
    read_correct_ += corrects[i];
    log_step(step, rates[i], losses[i], corrects[i]);
  }
  show(unread_.back(), losses.back());
  unread_.clear();
  last_read_ = Clock::now();
}

void Trainer::train_epoch(bool& interrupted) {
  model_->train();
  epoch_start_ = last_read_ = Clock::now();
  epoch_wait_ = loader_.wait_seconds();
  epoch_images_ = read_images_ = read_correct_ = 0;
  while (step_ < total_steps_ && !interrupted) {
    const std::optional<data::Batch> batch = loader_.next();
    if (!batch) break;
    try {
      unread_.push_back(take_step(*batch));
      if (device_.is_cpu() || Clock::now() - last_read_ >= kReadEvery) report();
    } catch (const amp::NonFiniteGradients& error) {
      throw amp::NonFiniteGradients(error.what() + first_anomaly(*batch));
    }
    if (unread_.empty()) rates_.settle();  // it was waited for just now
    interrupted = stopping_;
  }
  report();
}

void Trainer::evaluate_model() {
  const amp::Autocast autocast = make_autocast(config_, device_);
  std::optional<optim::Ema::Swap> averages;
  if (train_step_.ema() != nullptr) averages.emplace(*train_step_.ema());
  ranks_.broadcast(buffers_of(*model_));
  last_ =
      evaluate(*model_, data_.test, loader_options(config_, device_), device_, progress_, ranks_);
}

void Trainer::evaluate_and_log() {
  const int64_t epoch = epoch_of(step_);
  const bool due =
      config_.eval_every > 0 && (epoch % config_.eval_every == 0 || step_ == total_steps_);
  if (due) evaluate_model();
  progress_.finish_line();
  if (!due) return;
  nlohmann::ordered_json line;
  line["step"] = step_;
  line["epoch"] = epoch;
  line["test_loss"] = last_->loss;
  line["test_accuracy"] = last_->accuracy;
  log(line);
  const bool whole = step_ % steps_per_epoch() == 0;
  if (whole && epoch % config_.eval_every == 0) rates_.evaluated(last_->loss);
  if (!text_) return;
  const std::string when = whole ? concat("epoch ", epoch, "/", *config_.epochs)
                                 : concat("step ", step_, ", in epoch ", epoch);
  fmt::print("{}  test loss {:.4f}  test accuracy {:.2f} %\n", when, last_->loss,
             100 * last_->accuracy);
  std::fflush(stdout);
}

Outcome Trainer::run() {
  bool interrupted = false;
  while (step_ < total_steps_) {
    const int64_t before = step_;
    const bool whole = loader_.batch() == 0;
    train_epoch(interrupted);
    if (whole && step_ == before && !interrupted) throw Error(no_images(loader_));
    if (interrupted && step_ < total_steps_) {
      progress_.finish_line();
      save_checkpoint();
      ranks_.barrier();  // whoever leaves first may be the end of the others
      return Outcome::kInterrupted;
    }
    evaluate_and_log();
    // The end of the last epoch is behind it, should the run be made longer.
    if (step_ == total_steps_ && step_ % steps_per_epoch() == 0) {
      loader_.seek(step_ / steps_per_epoch(), 0);
    }
    save_checkpoint();
  }
  if (ranks_.first()) {
    std::optional<optim::Ema::Swap> averages;
    if (train_step_.ema() != nullptr) averages.emplace(*train_step_.ema());
    save_safetensors(folder_.weights_file(), model_->state_dict());
  }
  if (!last_ && config_.eval_every > 0) evaluate_model();
  ranks_.barrier();  // all is written, or all fail
  progress_.finish_line();
  nlohmann::ordered_json line;
  line["event"] = "end";
  line["step"] = step_;
  if (last_) {
    line["test_loss"] = last_->loss;
    line["test_accuracy"] = last_->accuracy;
  }
  line["run_dir"] = folder_.path();
  line["optimizer_state_bytes"] = optimizer_->state_bytes();
  if (const int64_t skipped = loader_.loader().skipped(); skipped > 0) {
    line["skipped_images"] = skipped;
    if (text_) {
      fmt::print("left out {} times an image that cannot be read, the last: {}\n", skipped,
                 loader_.loader().last_skipped());
    }
  }
  print_json(line);
  // A scaler that may skip any number of steps has not spoken.
  WICK_CHECK(!train_step_.scaler().enabled() || !last_ || !std::isnan(last_->loss),
             "train: the test loss became ", last_->loss, " by the last step: lower --lr (it was ",
             *config_.lr, " at its peak)");
  return Outcome::kComplete;
}

}  // namespace wick::tool
