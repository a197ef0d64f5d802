#include "wick/tools/wick/classification.h"

#include "wick/core/ops/loss.h"
#include "wick/core/ops/random.h"
#include "wick/data/batch_mix.h"
#include "wick/nn/activation_offload.h"

namespace wick::tool {

train::LossFunction classification_loss(std::shared_ptr<nn::Module> model, double label_smoothing) {
  return [model = std::move(model), label_smoothing](const data::Batch& batch) {
    const Tensor logits = (*model)(batch[0]);
    const Tensor loss =
        cross_entropy(logits, batch[1], {.label_smoothing = label_smoothing, .in_place = true});
    return train::BatchLoss{loss, {{"accuracy", train::count_correct(logits, batch[1])}}};
  };
}

train::StepOptions step_options(const TrainConfig& config, Device device) {
  const auto refuse_on_cpu = [&](const char* flag, bool is_asked) {
    if (is_asked && device.is_cpu()) {
      throw UsageError(concat(flag, ": expected a GPU, got the CPU"));
    }
  };
  refuse_on_cpu("--offload-activations", config.offload_activations);
  refuse_on_cpu("--cuda-graph", config.cuda_graph);
  train::StepOptions options;
  options.autocast = autocast_dtype(config);
  options.clip_norm = config.clip_norm;
  options.accumulate = config.accumulate;
  options.ema = config.ema;
  options.offload_activations = config.offload_activations;
  options.cuda_graph = config.cuda_graph;
  return options;
}

train::ScheduleOptions schedule_options(const TrainConfig& config) {
  train::ScheduleOptions options;
  options.name = config.schedule;
  options.warmup = config.warmup;
  options.epochs = schedule_epochs(config);
  options.gamma = config.schedule_gamma;
  options.power = config.schedule_power;
  return options;
}

train::TrainData train_data(const TrainConfig& config, const data::TrainTest& data, Device device) {
  train::TrainData all;
  all.train = data.train;
  all.loading = train_loader_options(config, data, device);
  all.test = data.test;
  all.test_loading = loader_options(config, device);
  const data::BatchMix mix(
      data.num_classes(),
      {.mixup = config.mixup, .cutmix = config.cutmix, .seed = static_cast<uint64_t>(config.seed)});
  if (!mix.enabled()) return all;
  all.prepare = [mix](data::Batch batch, int64_t epoch, int64_t number) {
    const auto mixed = mix.mix(batch[0], batch[1], epoch, number);
    return data::Batch{{mixed.images, mixed.targets}};
  };
  return all;
}

int64_t largest_piece(const TrainConfig& config, int64_t ranks) {
  return (*config.batch_size / ranks + config.accumulate - 1) / config.accumulate;
}

Tensor noise_samples(const data::Field& sample, int64_t count, Device device) {
  Shape shape{count};
  for (const int64_t size : sample.shape) shape.push_back(size);
  Generator generator;
  if (is_floating(sample.dtype)) return randn(shape, kFloat32, device, &generator);
  return zeros(shape, sample.dtype, device);
}

void pass_noise(const TrainConfig& config, nn::Module& model, const data::Field& sample,
                Device device, int64_t count) {
  const Tensor noise = noise_samples(sample, count, device);
  const Tensor target = zeros({count}, kInt64, device);
  Tensor loss;
  {
    const amp::Autocast autocast = train::make_autocast(autocast_dtype(config), device);
    std::optional<nn::OffloadActivations> offload;
    if (step_options(config, device).offload_activations) offload.emplace();
    loss = cross_entropy(model(noise), target);
  }
  loss.backward();
}

std::optional<nn::ActivationFit> checkpoint_activations(const TrainConfig& config,
                                                        nn::Module& model,
                                                        const data::Field& sample, Device device,
                                                        int64_t ranks) {
  if (config.checkpoint_activations == "on") nn::checkpoint_every_child(model);
  const std::optional<int64_t> budget = activation_budget(config);
  if (!budget) return {};
  const int64_t count = largest_piece(config, ranks);
  return nn::fit_activations(model, device, *budget,
                             [&] { pass_noise(config, model, sample, device, count); });
}

}  // namespace wick::tool
