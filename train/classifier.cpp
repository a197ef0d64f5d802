#include "wick/train/classifier.h"

#include "wick/core/base/parallel.h"
#include "wick/core/ops/loss.h"
#include "wick/core/ops/random.h"
#include "wick/core/random.h"
#include "wick/nn/activation_offload.h"
#include "wick/nn/norm.h"
#include "wick/train/device.h"

namespace wick::train {

namespace {

bool has_batch_norm(nn::Module& model) {
  bool found = false;
  model.apply([&](const std::string&, nn::Module& part) {
    found |= dynamic_cast<const nn::BatchNorm*>(&part) != nullptr;
  });
  return found;
}

void check_uses(const Recipe& recipe, const data::TrainTest& data, nn::Module& model) {
  data::check_uses(recipe.data, data);
  for (const auto& [option, value] :
       {std::pair("mixup", recipe.mix.mixup), std::pair("cutmix", recipe.mix.cutmix)}) {
    require(value == 0 || data.images, option, "not with data ", recipe.data.name,
            ", whose samples are no images");
  }
  require(!recipe.ranks.sync_batch_norm || has_batch_norm(model), "sync_batch_norm",
          "not with model ", recipe.model.name, ", which has no batch normalisation");
}

data::TrainTest open_data(const Recipe& recipe) {
  set_num_threads(static_cast<int>(*recipe.run.threads));
  set_arithmetic(recipe.arithmetic);
  return data::open_data(recipe.data);
}

std::shared_ptr<nn::Module> make_model(const Recipe& recipe, const data::TrainTest& data,
                                       Device device) {
  manual_seed(static_cast<uint64_t>(recipe.run.seed));
  auto model = nn::find_model(recipe.model.name).make(data.sample().shape, data.num_classes());
  model->to(device);
  return model;
}

}  // namespace

LossFunction classification_loss(std::shared_ptr<nn::Module> model, double label_smoothing) {
  return [model = std::move(model), label_smoothing](const data::Batch& batch) {
    const Tensor logits = (*model)(batch[0]);
    const Tensor loss =
        cross_entropy(logits, batch[1], {.label_smoothing = label_smoothing, .in_place = true});
    return BatchLoss{loss, {{"accuracy", count_correct(logits, batch[1])}}};
  };
}

Classifier::Classifier(const Recipe& recipe, const Ranks& ranks)
    : recipe_(recipe),
      ranks_(ranks),
      device_(choose_device(recipe.run.device, ranks.local_rank())),
      data_(open_data(recipe)),
      model_(make_model(recipe, data_, device_)) {
  if (!recipe.run.resume) check_uses(recipe, data_, *model_);  // else as the run began
  recipe_.record = {.world_size = ranks_.size(), .data = data_.fingerprint};
  optimizer_ = make_optimizer(recipe.optimizer, model_->parameters());
}

LossFunction Classifier::loss() const {
  return classification_loss(model_, recipe_.label_smoothing);
}

LossFunction Classifier::evaluation_loss() const { return classification_loss(model_); }

data::DataLoaderOptions Classifier::test_loading() const {
  return loader_options(recipe_.loading, device_, recipe_.run.seed);
}

data::DataLoaderOptions Classifier::loading() const {
  data::DataLoaderOptions options = test_loading();
  options.shuffle = true;
  options.drop_last = data_.train->size() >= *options.batch_size;
  return options;
}

TrainData Classifier::train_data() const {
  TrainData all;
  all.train = data_.train;
  all.loading = loading();
  all.test = data_.test;
  all.test_loading = test_loading();
  data::BatchMixOptions options = recipe_.mix;
  options.seed = static_cast<uint64_t>(recipe_.run.seed);
  const data::BatchMix mix(data_.num_classes(), options);
  if (!mix.enabled()) return all;
  all.prepare = [mix](data::Batch batch, int64_t epoch, int64_t number) {
    const auto mixed = mix.mix(batch[0], batch[1], epoch, number);
    return data::Batch{{mixed.images, mixed.targets}};
  };
  return all;
}

StepOptions Classifier::step_options() const {
  StepOptions options = recipe_.step;
  options.autocast = autocast_dtype(recipe_.arithmetic);
  return options;
}

TrainerOptions Classifier::trainer_options(const std::string& folder) const {
  Recipe lasting = recipe_;
  lasting.run.resume = false;
  const RunOptions& run = recipe_.run;
  TrainerOptions options;
  options.epochs = *run.epochs;
  options.max_steps = run.max_steps;
  options.step = step_options();
  options.schedule = recipe_.schedule;
  options.eval_every = run.eval_every;
  options.eval_every_steps = run.eval_every_steps;
  options.evaluation = evaluation_loss();
  options.folder = folder;
  options.config = to_json(lasting);
  options.log_every = run.log_every;
  const SaveInterval interval = parse_interval(run.checkpoint_every);
  options.checkpoint_every = interval.steps;
  options.checkpoint_seconds = interval.seconds;
  options.keep_best = run.keep_best;
  options.stop_on_failed_save = run.on_failed_save == "fail";
  options.unit = "images";
  options.ranks = ranks_;
  options.sync_batch_norm = recipe_.ranks.sync_batch_norm;
  options.zero = recipe_.ranks.zero;
  options.detect_anomaly = run.detect_anomaly;
  return options;
}

int64_t Classifier::largest_piece() const {
  const int64_t pieces = recipe_.step.accumulate;
  return (*recipe_.loading.batch_size / ranks_.size() + pieces - 1) / pieces;
}

Tensor Classifier::noise(int64_t count) const {
  const data::Field& sample = data_.sample();
  Shape shape{count};
  for (const int64_t size : sample.shape) shape.push_back(size);
  Generator generator;
  if (is_floating(sample.dtype)) return randn(shape, kFloat32, device_, &generator);
  return zeros(shape, sample.dtype, device_);
}

void Classifier::pass_noise(int64_t count) {
  const Tensor samples = noise(count);
  const Tensor target = zeros({count}, kInt64, device_);
  Tensor loss;
  {
    const amp::Autocast autocast = make_autocast(autocast_dtype(recipe_.arithmetic), device_);
    std::optional<nn::OffloadActivations> offload;
    if (recipe_.step.offload_activations) offload.emplace();
    loss = cross_entropy((*model_)(samples), target);
  }
  loss.backward();
}

std::optional<nn::ActivationFit> Classifier::checkpoint_activations() {
  if (recipe_.memory.checkpoint_activations == "on") nn::checkpoint_every_child(*model_);
  const std::optional<int64_t> budget = activation_budget(recipe_.memory);
  if (!budget) return {};
  return nn::fit_activations(*model_, device_, *budget, [this] { pass_noise(largest_piece()); });
}

std::optional<nn::MemoryAdvice> Classifier::advise_on_memory() {
  try {
    return nn::advise_on_memory(*model_, device_, largest_piece(),
                                [this](int64_t count) { pass_noise(count); });
  } catch (const Error&) {  // the error that is being explained says enough
    return {};
  }
}

void check_shares(const Recipe& recipe, int64_t ranks) {
  if (ranks == 1) return;
  const int64_t batch = *recipe.loading.batch_size;
  const int64_t below = batch / ranks * ranks;
  require(batch % ranks == 0, "batch_size", batch,
          " images of a step cannot be shared evenly among ", ranks, " ranks: expected ",
          below > 0 ? concat(below, " or ") : "", below + ranks);
  require(recipe.loading.on_bad_sample != "skip", "on_bad_sample",
          "skip is not possible with several ranks, whose batches must be of one size: find the "
          "images by wick data check and take them out");
}

}  // namespace wick::train
