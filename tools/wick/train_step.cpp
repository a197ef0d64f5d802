#include "wick/tools/wick/train_step.h"

#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/loss.h"
#include "wick/core/ops/random.h"

namespace wick::tool {

namespace {

// Skips in a row that mean that no scale will help: it backs off from 2^16.
constexpr int64_t kMaxSkips = 40;

}  // namespace

Tensor count_correct(const Tensor& logits, const Tensor& target) {
  const Tensor label = is_floating(target.dtype()) ? target.argmax(1) : target;
  return (logits.detach().argmax(1) == label).sum();
}

std::vector<Tensor> buffers_of(const nn::Module& model) {
  std::vector<Tensor> buffers;
  for (const auto& [name, buffer] : model.named_buffers()) {
    if (buffer.defined()) buffers.push_back(buffer);
  }
  return buffers;
}

TrainStep::TrainStep(const TrainConfig& config, const data::TrainTest& data, Device device,
                     std::shared_ptr<nn::Module> model, optim::Optimizer& optimizer)
    : config_(config),
      device_(device),
      model_(std::move(model)),
      optimizer_(optimizer),
      mix_(data.num_classes(), {.mixup = config.mixup,
                                .cutmix = config.cutmix,
                                .seed = static_cast<uint64_t>(config.seed)}),
      scaler_({.enabled = config.amp == "fp16", .max_skips = kMaxSkips}),
      rollback_(scaler_.enabled() ? buffers_of(*model_) : std::vector<Tensor>()),
      ema_(make_ema(config, *model_)) {
  make_offload(config_, device_);  // ends here if it cannot be
  scaler_.name_parameters(model_->named_parameters());
  if (!config_.cuda_graph) return;
  if (device_.is_cpu()) throw UsageError("--cuda-graph: expected a GPU, got the CPU");
  optimizer_.make_capturable();
  captured_.emplace(device_, [this](const std::vector<Tensor>& inputs) -> std::vector<Tensor> {
    const Result result = take({inputs[0], inputs[1]});
    return {result.loss, result.correct, result.skipped};
  });
}

TrainStep::Inputs TrainStep::mixed(const data::Batch& batch, int64_t epoch, int64_t number) {
  if (!mix_.enabled()) return {batch[0], batch[1]};
  const auto mixed = mix_.mix(batch[0], batch[1], epoch, number);
  return {mixed.images, mixed.targets};
}

TrainStep::Result TrainStep::backpropagate(const Inputs& inputs,
                                           dist::DistributedDataParallel* parallel) {
  const Tensor& images = inputs.images;
  const Tensor& target = inputs.target;
  nn::Module& model = parallel == nullptr ? *model_ : *parallel;
  Result sums;
  optim::accumulate(
      images.size(0), config_.accumulate, [&](int64_t begin, int64_t end, double share) {
        const bool whole = share == 1;
        std::optional<dist::DistributedDataParallel::NoSync> gathering;
        if (parallel != nullptr && end < images.size(0)) gathering.emplace(*parallel);
        const Tensor own_target = whole ? target : target.slice(0, begin, end);
        Tensor logits, loss;
        {
          const amp::Autocast autocast = make_autocast(config_, device_);
          const auto offload = make_offload(config_, device_);
          logits = model(whole ? images : images.slice(0, begin, end));
          loss = cross_entropy(logits, own_target,
                               {.label_smoothing = config_.label_smoothing, .in_place = true});
        }
        const Tensor correct = count_correct(logits, own_target);
        if (!whole) loss = loss * share;
        scaler_.scale(loss).backward();
        sums.loss = sums.loss.defined() ? sums.loss + loss.detach() : loss.detach();
        sums.correct = sums.correct.defined() ? sums.correct + correct : correct;
      });
  return sums;
}

TrainStep::Result TrainStep::take(const Inputs& inputs, dist::DistributedDataParallel* parallel) {
  optimizer_.zero_grad();
  if (scaler_.enabled()) rollback_.remember();
  Result result = backpropagate(inputs, parallel);
  scaler_.step(optimizer_, config_.clip_norm);
  if (scaler_.enabled()) {
    result.skipped = scaler_.found_inf(optimizer_);
    rollback_.restore(result.skipped);
  }
  if (ema_) ema_->update(result.skipped);
  scaler_.update();
  return result;
}

TrainStep::Result TrainStep::take_or_replay(const Inputs& inputs,
                                            dist::DistributedDataParallel* parallel) {
  if (!captured_) return take(inputs, parallel);
  const std::vector<Tensor> result = (*captured_)({inputs.images, inputs.target});
  // The loss is read some steps later, when others have been replayed.
  return {result[0].clone(), result[1].clone(), result[2]};
}

int64_t largest_piece(const TrainConfig& config, int64_t ranks) {
  return (*config.batch_size / ranks + config.accumulate - 1) / config.accumulate;
}

void pass_noise(const TrainConfig& config, nn::Module& model, const Shape& image, Device device,
                int64_t count) {
  Generator generator;
  const Tensor noise = randn({count, image[0], image[1], image[2]}, kFloat32, device, &generator);
  const Tensor target = zeros({count}, kInt64, device);
  Tensor loss;
  {
    const amp::Autocast autocast = make_autocast(config, device);
    const auto offload = make_offload(config, device);
    loss = cross_entropy(model(noise), target);
  }
  loss.backward();
}

std::optional<nn::ActivationFit> checkpoint_activations(const TrainConfig& config,
                                                        nn::Module& model, const Shape& image,
                                                        Device device, int64_t ranks) {
  if (config.checkpoint_activations == "on") nn::checkpoint_every_child(model);
  const std::optional<int64_t> budget = activation_budget(config);
  if (!budget) return {};
  const int64_t count = largest_piece(config, ranks);
  return nn::fit_activations(model, device, *budget,
                             [&] { pass_noise(config, model, image, device, count); });
}

}  // namespace wick::tool
