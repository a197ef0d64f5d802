#include "wick/tools/study/training.h"

#include "wick/core/core.h"
#include "wick/core/ops/random.h"
#include "wick/nn/nn.h"
#include "wick/tools/study/article_net.h"

namespace wick::study {

namespace {

constexpr double kClipNorm = 1;
constexpr int64_t kNoiseClasses = 10;

Shape image_shape(const Settings& settings, const Images& images) {
  return images.train ? images.shape : Shape{3, settings.image, settings.image};
}

train::StepOptions step_options(const Settings& settings) {
  train::StepOptions options;
  if (settings.amp != "off") options.autocast = settings.amp == "fp16" ? kFloat16 : kBFloat16;
  if (settings.clip == "fused") options.clip_norm = kClipNorm;
  options.accumulate = settings.accumulate;
  if (settings.ema > 0) options.ema = settings.ema;
  options.cuda_graph = settings.cuda_graph;
  options.compile = settings.compile;
  return options;
}

// Whether train::Step cannot be told to take a step so.
bool is_unusual(const Settings& settings) {
  return !settings.fused_optimizer || !settings.set_to_none || settings.clip == "separate";
}

// The loss as it is written down: what the fused one is compared with.
Tensor composed_cross_entropy(const Tensor& logits, const Tensor& labels) {
  return -gather(log_softmax(logits, 1), 1, labels.unsqueeze(1)).mean();
}

}  // namespace

data::DataLoaderOptions loader_options(const Settings& settings, Device device) {
  data::DataLoaderOptions options;
  options.batch_size = settings.batch / settings.ranks;
  options.shuffle = settings.shuffle;
  options.num_workers = static_cast<int>(settings.workers);
  if (settings.workers != 0) options.persistent_workers = settings.persistent;
  if (settings.collate) {
    options.collate_fn = [](std::vector<data::Sample> samples) {
      std::vector<Tensor> first, second;
      for (const data::Sample& sample : samples) {
        first.push_back(sample[0]);
        second.push_back(sample[1]);
      }
      return data::Batch{{stack(first), stack(second)}};
    };
  }
  options.pin_memory = settings.pinned && device.is_cuda();
  options.drop_last = true;
  options.seed = static_cast<uint64_t>(settings.seed);
  return options;
}

std::shared_ptr<nn::Module> make_model(const Settings& settings, const Shape& shape,
                                       int64_t classes) {
  std::shared_ptr<nn::Module> model;
  if (settings.model == "article") {
    model = std::make_shared<ArticleNet>(ArticleNetOptions{.in_channels = shape[0],
                                                           .classes = classes,
                                                           .bias = settings.bias,
                                                           .norm = settings.norm,
                                                           .fused = settings.fused});
  } else {
    model = nn::find_model(settings.model).make({shape[0], shape[1], shape[2]}, classes);
  }
  if (settings.checkpoint) nn::checkpoint_every_child(*model);
  return model;
}

Training::Training(const Settings& settings, int64_t total_steps,
                   std::shared_ptr<dist::ProcessGroup> group)
    : settings_(settings), device_(parse_device(settings.device)) {
  if (settings.source != "memory") images_ = open_images(settings);
  manual_seed(static_cast<uint64_t>(settings.seed));
  const Shape shape = image_shape(settings, images_);
  const int64_t classes = images_.train ? images_.classes : kNoiseClasses;
  model_ = make_model(settings, shape, classes);
  model_->to(device_);
  if (group) parallel_ = std::make_unique<dist::DistributedDataParallel>(model_, std::move(group));
  optimizer_ = train::make_optimizer(
      {.name = settings.optimizer, .lr = settings.lr, .weight_decay = settings.weight_decay},
      model_->parameters());
  if (!settings.fused_optimizer) {
    plain_ = std::make_unique<PlainAdamW>(model_->parameters(), settings.lr, settings.weight_decay);
  }
  const auto loss = [this](const data::Batch& batch) { return loss_of(batch); };
  step_ = std::make_unique<train::Step>(model_, *optimizer_, loss, step_options(settings));
  schedule_ = std::make_unique<train::RunSchedule>(
      train::ScheduleOptions{.name = settings.schedule},
      train::RunLength{.total_steps = total_steps, .steps_per_epoch = total_steps}, *optimizer_);
  if (images_.train) {
    const data::DataLoaderOptions options = loader_options(settings, device_);
    if (settings.ahead) {
      loader_.emplace(data::load_ahead(images_.train, options, device_));
    } else {
      loader_.emplace(data::DataLoader(images_.train, options), kCpu);
    }
    const auto channel = [&](const std::vector<float>& values) {
      return tensor(values, Shape{shape[0], 1, 1}, device_);
    };
    mean_ = channel(images_.normalize.mean()) * 255;
    std_ = channel(images_.normalize.std()) * 255;
  } else {
    const int64_t batch = settings.batch / settings.ranks;
    Generator generator(static_cast<uint64_t>(settings.seed));
    resident_ = {{randn({batch, shape[0], shape[1], shape[2]}, kFloat32, device_, &generator)
                      .contiguous(settings.channels_last ? MemoryFormat::kChannelsLast
                                                         : MemoryFormat::kContiguous),
                  randint(0, classes, {batch}, kInt64, device_, &generator)}};
  }
  model_->train();
}

Tensor Training::normalized(const Tensor& bytes) const {
  if (settings_.normalize == "loader" || !images_.train) return bytes;
  const Tensor images = bytes.to(kFloat32);
  return settings_.normalize == "step" ? (images - mean_) / std_ : images;
}

data::Batch Training::next() {
  if (!loader_) return resident_;
  const data::Batch batch = train::next_batch(*loader_);
  return {{normalized(batch[0].to(device_)), batch[1].to(device_)}};
}

train::BatchLoss Training::loss_of(const data::Batch& batch) {
  const Tensor logits = (*model_)(batch[0]);
  if (settings_.second_forward) (*model_)(batch[0]);
  if (!settings_.fused_loss) return {composed_cross_entropy(logits, batch[1])};
  return {cross_entropy(logits, batch[1], {.label_smoothing = settings_.label_smoothing})};
}

train::Step::Result Training::take_unusual_step(const data::Batch& batch) {
  optimizer_->zero_grad(settings_.set_to_none);
  train::Step::Result result = step_->backpropagate(batch, parallel_.get());
  if (settings_.clip == "separate") optim::clip_grad_norm_(model_->parameters(), kClipNorm);
  if (plain_) {
    plain_->step();
  } else {
    optimizer_->step();
  }
  if (step_->ema() != nullptr) step_->ema()->update();
  return result;
}

void Training::step() {
  std::optional<DetectAnomaly> search;
  if (settings_.detect_anomaly) search.emplace();
  const data::Batch batch = next();
  const train::Step::Result result = is_unusual(settings_)
                                         ? take_unusual_step(batch)
                                         : step_->take_or_replay(batch, parallel_.get());
  loss_ = result.loss;
  schedule_->step(result.skipped);
  if (settings_.read_loss) loss();
  if (settings_.empty_cache) empty_cache(device_);
}

void Training::drop_loaded() {
  if (!loader_) return;
  const int64_t count = kLoadedAhead * loader_->loader().num_workers() + loader_->held();
  for (int64_t i = 0; i < count; ++i) loader_->next();
}

double Training::accuracy(int64_t count) {
  const InferenceMode inference;
  std::optional<optim::Ema::Swap> averages;
  if (step_->ema() != nullptr) averages.emplace(*step_->ema());
  model_->eval();
  data::DataLoader loader(images_.test, {.batch_size = 100, .seed = 0});
  int64_t right = 0, seen = 0;
  while (seen < count) {
    const std::optional<data::Batch> batch = loader.next();
    if (!batch) break;
    const Tensor logits = (*model_)(normalized((*batch)[0].to(device_)));
    right += (logits.argmax(1) == (*batch)[1].to(device_)).sum().item<int64_t>();
    seen += batch->size();
  }
  model_->train();
  return seen == 0 ? 0 : static_cast<double>(right) / static_cast<double>(seen);
}

}  // namespace wick::study
