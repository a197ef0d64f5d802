#include "wick/tools/wick/tune.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "wick/core/base/parallel.h"
#include "wick/core/ops/random.h"

namespace wick::tool {

namespace {

std::shared_ptr<nn::Module> make_tuned_model(const TrainConfig& config, const data::TrainTest& data,
                                             Device device) {
  set_num_threads(static_cast<int>(*config.threads));
  set_arithmetic(config);
  auto model = make_seeded_model(config, data, device);
  checkpoint_activations(config, *model, data.sample(), device);
  return model;
}

}  // namespace

Tuning::Tuning(const TrainConfig& config)
    : config_(config),
      device_(choose_device(config.device)),
      data_(open_train_data(config)),
      model_(make_tuned_model(config, data_, device_)),
      optimizer_(make_optimizer(config, *model_)),
      loader_(data::load_ahead(data_.train, train_loader_options(config, data_, device_), device_)),
      training_(train_data(config, data_, device_)),
      step_(model_, *optimizer_, classification_loss(model_, config.label_smoothing),
            step_options(config, device_)) {
  check_uses(config, data_, *model_);
}

void prepare_tuning(TrainConfig& config) {
  if (config.resume) throw UsageError("--resume: not with wick tune, whose trials begin anew");
  check_config(config);
  config = resolve(config);
}

data::Batch next_batch(data::Prefetcher& loader) {
  std::optional<data::Batch> batch = loader.next();
  if (!batch) batch = loader.next();  // of the next epoch
  if (!batch) throw Error(train::no_samples(loader));
  return std::move(*batch);
}

double Tuning::step() { return step_on(next_batch()).item(); }

Tensor Tuning::step_on(const data::Batch& batch) { return step_.take(mixed(batch)).loss; }

void Tuning::backward() {
  const data::Batch inputs = mixed(next_batch());
  amp::GradScaler& scaler = step_.scaler();
  for (bool is_finite = false; !is_finite;) {  // the scale backs off until it is
    optimizer_->zero_grad();
    step_.backpropagate(inputs);
    if (!scaler.enabled()) return;
    scaler.unscale_(*optimizer_);
    is_finite = scaler.found_inf(*optimizer_).item() == 0;
    scaler.update();
  }
}

data::Batch Tuning::mixed(const data::Batch& batch) {
  if (!training_.prepare) return batch;
  return training_.prepare(batch, loader_.epoch(), loader_.batch() - 1);
}

void Tuning::step_on_noise(int64_t batch) {
  if (!noise_.defined() || noise_.size(0) != batch) {
    noise_ = noise_target_ = Tensor();
    noise_ = noise_samples(data_.sample(), batch, device_);
    noise_target_ = zeros({batch}, kInt64, device_);
  }
  step_on({{noise_, noise_target_}});
}

optim::TrainingParts Tuning::parts() {
  optim::TrainingParts parts;
  parts.scaler = &step_.scaler();
  parts.ema = step_.ema();
  parts.rest = [this, epoch = loader_.epoch(), batch = loader_.batch()] {
    loader_.seek(epoch, batch);
  };
  return parts;
}

train::RunFolder tuning_folder(const TrainConfig& config) {
  auto folder = train::RunFolder::plan(config.run_dir);
  folder.claim(/*is_new=*/true);
  TrainConfig lasting = config;
  lasting.resume = false;
  folder.write_config(to_json(lasting).dump(2));
  return folder;
}

void add_tune(CLI::App& app, Command& command) {
  CLI::App* tune = app.add_subcommand("tune",
                                      "Finds a learning rate, the largest and the fastest batch, "
                                      "or how to load data, by short trials");
  tune->callback([&command] {
    if (command) return;  // that of lr, batch or loader
    command = []() -> int {
      throw UsageError("tune: expected lr, batch or loader. See wick tune --help");
    };
  });
  add_tune_lr(*tune, command);
  add_tune_batch(*tune, command);
  add_tune_loader(*tune, command);
  for (CLI::App* sub : tune->get_subcommands({})) sub->allow_extras();
}

}  // namespace wick::tool
