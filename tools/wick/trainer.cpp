#include "wick/tools/wick/trainer.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>

#include "wick/core/autograd.h"
#include "wick/core/base/parallel.h"
#include "wick/core/memory/stats.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/loss.h"
#include "wick/core/random.h"

namespace wick::tool {

namespace {

std::atomic<bool> stop_requested{false};

int64_t count_correct(const Tensor& logits, const Tensor& target) {
  return eq(logits.detach().argmax(1), target).sum().item<int64_t>();
}

data::DataLoader make_loader(const TrainConfig& config, const data::TrainTest& data) {
  const int64_t batch_size = *config.batch_size;
  return data::DataLoader(data.train, {.batch_size = batch_size,
                                       .shuffle = true,
                                       .num_workers = static_cast<int>(config.workers),
                                       .drop_last = data.train->size() >= batch_size,
                                       .seed = static_cast<uint64_t>(config.seed)});
}

int64_t steps_of_run(const TrainConfig& config, int64_t steps_per_epoch) {
  const int64_t all = *config.epochs * steps_per_epoch;
  return config.max_steps ? std::min(all, *config.max_steps) : all;
}

std::shared_ptr<nn::Module> seeded_model(const TrainConfig& config, const data::TrainTest& data,
                                         Device device) {
  // The model's initial weights and everything drawn later follow from the seed.
  manual_seed(static_cast<uint64_t>(config.seed));
  auto model = make_model(config, data);
  model->to(device);
  return model;
}

}  // namespace

void stop_on_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { stop_requested = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // a second signal ends the process at once
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

Evaluation evaluate(nn::Module& model, const std::shared_ptr<const data::Dataset>& dataset,
                    int64_t batch_size, int workers, Device device) {
  const InferenceMode inference;
  const bool was_training = model.is_training();
  model.eval();
  data::DataLoader loader(dataset, {.batch_size = batch_size, .num_workers = workers});
  double loss = 0;
  int64_t correct = 0;
  for (const data::Batch& batch : loader) {
    const Tensor target = batch[1].to(device);
    const Tensor logits = model(batch[0].to(device));
    loss += cross_entropy(logits, target).item() * static_cast<double>(batch.size());
    correct += count_correct(logits, target);
  }
  model.train(was_training);
  const auto n = static_cast<double>(dataset->size());
  return {loss / n, static_cast<double>(correct) / n};
}

Trainer::Trainer(const TrainConfig& config, RunFolder folder, bool json)
    : config_(config),
      folder_(std::move(folder)),
      json_(json),
      device_(choose_device(config.device)),
      data_(data::open_data(config.data, config.data_dir, config.image_size)),
      model_(seeded_model(config, data_, device_)),
      optimizer_(make_optimizer(config, *model_)),
      loader_(make_loader(config, data_)),
      total_steps_(steps_of_run(config, loader_.size())),
      schedule_(make_schedule(config, total_steps_, *optimizer_)),
      store_(folder_.checkpoints()),
      progress_(json) {}

void Trainer::resume() {
  std::string rejected;
  const std::optional<Checkpoint> checkpoint = store_.load_newest(&rejected);
  if (!rejected.empty()) fmt::print(stderr, "{}", rejected);
  if (checkpoint) {
    model_->load_state_dict(checkpoint->parts.at("weights"));
    optimizer_->load_state_dict(checkpoint->parts.at("optimizer"));
    const TensorMap& position = checkpoint->parts.at("position");
    if (schedule_) schedule_->load_state_dict(checkpoint->parts.at("schedule"));
    loader_.seek(position.at("epoch").item<int64_t>(), position.at("batch").item<int64_t>());
    default_generator(device_).set_state(
        {static_cast<uint64_t>(position.at("random_seed").item<int64_t>()),
         static_cast<uint64_t>(position.at("random_offset").item<int64_t>())});
    step_ = checkpoint->step;
  }
  folder_.drop_metrics_after(step_);
}

void Trainer::save_checkpoint() {
  Checkpoint checkpoint;
  checkpoint.step = step_;
  for (const auto& [name, tensor] : model_->state_dict()) {
    checkpoint.parts["weights"][name] = tensor;
  }
  checkpoint.parts["optimizer"] = optimizer_->state_dict();
  if (schedule_) checkpoint.parts["schedule"] = schedule_->state_dict();
  const RandomKey random = default_generator(device_).get_state();
  checkpoint.parts["position"] = {
      {"epoch", scalar_tensor(loader_.epoch(), kInt64)},
      {"batch", scalar_tensor(loader_.batch(), kInt64)},
      {"random_seed", scalar_tensor(static_cast<int64_t>(random.seed), kInt64)},
      {"random_offset", scalar_tensor(static_cast<int64_t>(random.offset), kInt64)}};
  store_.save(checkpoint);
}

double Trainer::train_step(const data::Batch& batch, int64_t* correct) {
  const Tensor target = batch[1].to(device_, /*non_blocking=*/true);
  optimizer_->zero_grad();
  const Tensor logits = (*model_)(batch[0].to(device_, /*non_blocking=*/true));
  const Tensor loss = cross_entropy(logits, target, {.label_smoothing = config_.label_smoothing});
  loss.backward();
  optimizer_->step();
  *correct = count_correct(logits, target);
  const double value = loss.item();
  WICK_CHECK(std::isfinite(value), "train: the loss became ", value, " at step ", step_ + 1,
             ": lower --lr (it was ", *config_.lr, " at its peak)");
  return value;
}

void Trainer::print_json(const nlohmann::ordered_json& values) const {
  if (!json_) return;
  fmt::print("{}\n", values.dump());
  std::fflush(stdout);
}

void Trainer::report(const data::Batch& batch, double loss, int64_t correct) {
  epoch_images_ += batch.size();
  epoch_correct_ += correct;
  const std::chrono::duration<double> elapsed = Clock::now() - epoch_start_;
  const double rate = static_cast<double>(epoch_images_) / elapsed.count();
  const double wait = (loader_.wait_seconds() - epoch_wait_) / elapsed.count();
  const int64_t epoch = (step_ - 1) / steps_per_epoch() + 1;

  StepReport shown;
  shown.epoch = epoch;
  shown.epochs = *config_.epochs;
  shown.step = (step_ - 1) % steps_per_epoch() + 1;
  shown.steps = std::min(steps_per_epoch(), total_steps_ - (epoch - 1) * steps_per_epoch());
  shown.loss = loss;
  shown.accuracy = static_cast<double>(epoch_correct_) / static_cast<double>(epoch_images_);
  shown.images_per_second = rate;
  shown.data_wait = wait;
  shown.seconds_left = static_cast<double>((total_steps_ - step_) * *config_.batch_size) / rate;
  shown.memory_bytes = static_cast<int64_t>(max_memory_allocated(device_));
  progress_.show(shown);

  if (step_ % config_.log_every != 0 && step_ != total_steps_) return;
  nlohmann::ordered_json line;
  line["step"] = step_;
  line["epoch"] = epoch;
  line["loss"] = loss;
  line["lr"] = optimizer_->lr();
  line["images_per_second"] = rate;
  line["data_wait"] = wait;
  line["accuracy"] = static_cast<double>(correct) / static_cast<double>(batch.size());
  line["memory_bytes"] = shown.memory_bytes;
  folder_.log(line);
  print_json(line);
}

void Trainer::train_epoch(bool& interrupted) {
  model_->train();
  epoch_start_ = Clock::now();
  epoch_wait_ = loader_.wait_seconds();
  epoch_images_ = epoch_correct_ = 0;
  while (step_ < total_steps_) {
    const std::optional<data::Batch> batch = loader_.next();
    if (!batch) return;
    int64_t correct = 0;
    const double loss = train_step(*batch, &correct);
    ++step_;
    report(*batch, loss, correct);
    if (schedule_) schedule_->step();
    if (stop_requested) {
      interrupted = true;
      return;
    }
  }
}

void Trainer::evaluate_and_log(int64_t epoch) {
  last_ = evaluate(*model_, data_.test, *config_.batch_size, static_cast<int>(config_.workers),
                   device_);
  nlohmann::ordered_json line;
  line["step"] = step_;
  line["epoch"] = epoch;
  line["test_loss"] = last_->loss;
  line["test_accuracy"] = last_->accuracy;
  folder_.log(line);
  print_json(line);
  progress_.finish_line();
  if (!json_) {
    fmt::print("epoch {}/{}  test loss {:.4f}  test accuracy {:.2f} %\n", epoch, *config_.epochs,
               last_->loss, 100 * last_->accuracy);
    std::fflush(stdout);
  }
}

Outcome Trainer::run() {
  bool interrupted = false;
  while (step_ < total_steps_) {
    train_epoch(interrupted);
    if (interrupted && step_ < total_steps_) {
      progress_.finish_line();
      save_checkpoint();
      return Outcome::kInterrupted;
    }
    evaluate_and_log((step_ + steps_per_epoch() - 1) / steps_per_epoch());
    save_checkpoint();
  }
  TensorMap weights;
  for (const auto& [name, tensor] : model_->state_dict()) weights[name] = tensor;
  save_safetensors(folder_.weights_file(), weights);
  if (!last_) {
    last_ = evaluate(*model_, data_.test, *config_.batch_size, static_cast<int>(config_.workers),
                     device_);
  }
  nlohmann::ordered_json line;
  line["event"] = "end";
  line["step"] = step_;
  line["test_loss"] = last_->loss;
  line["test_accuracy"] = last_->accuracy;
  line["run_dir"] = folder_.path();
  print_json(line);
  return Outcome::kComplete;
}

}  // namespace wick::tool
