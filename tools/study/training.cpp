#include "wick/tools/study/training.h"

#include "wick/core/core.h"
#include "wick/core/memory/stats.h"
#include "wick/core/ops/random.h"
#include "wick/dist/data_parallel.h"
#include "wick/nn/nn.h"
#include "wick/tools/study/article_net.h"
#include "wick/tools/study/plain_adamw.h"

namespace wick::study {

namespace {

constexpr double kClipNorm = 1;
constexpr int64_t kNoiseClasses = 10;

Shape image_shape(const Settings& settings, const Images& images) {
  return images.train ? images.shape : Shape{3, settings.image, settings.image};
}

std::unique_ptr<optim::Optimizer> make_optimizer(const Settings& settings,
                                                 const std::vector<Tensor>& params) {
  const double lr = settings.lr, decay = settings.weight_decay;
  if (settings.optimizer == "sgd") {
    return std::make_unique<optim::SGD>(
        params, optim::SGDOptions{.lr = lr, .momentum = 0.9, .weight_decay = decay});
  }
  if (settings.optimizer == "adam") {
    return std::make_unique<optim::Adam>(params,
                                         optim::AdamOptions{.lr = lr, .weight_decay = decay});
  }
  if (settings.optimizer == "lamb") {
    return std::make_unique<optim::LAMB>(params,
                                         optim::LAMBOptions{.lr = lr, .weight_decay = decay});
  }
  return std::make_unique<optim::AdamW>(params,
                                        optim::AdamWOptions{.lr = lr, .weight_decay = decay});
}

std::unique_ptr<optim::Schedule> make_schedule(const Settings& settings, int64_t total_steps,
                                               optim::Optimizer& optimizer) {
  if (settings.schedule == "onecycle") {
    return std::make_unique<optim::OneCycleLR>(
        optimizer, optim::OneCycleOptions{.max_lr = settings.lr, .total_steps = total_steps});
  }
  if (settings.schedule == "cosine") {
    return std::make_unique<optim::CosineAnnealingLR>(optimizer, total_steps);
  }
  return nullptr;
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
    : settings_(settings),
      device_(parse_device(settings.device)),
      scaler_({.enabled = settings.amp == "fp16"}) {
  if (settings.source != "memory") images_ = open_images(settings);
  manual_seed(static_cast<uint64_t>(settings.seed));
  const Shape shape = image_shape(settings, images_);
  const int64_t classes = images_.train ? images_.classes : kNoiseClasses;
  model_ = make_model(settings, shape, classes);
  model_->to(device_);
  if (group) {
    model_ = std::make_shared<dist::DistributedDataParallel>(model_, std::move(group));
  }
  params_ = model_->parameters();
  optimizer_ = make_optimizer(settings, params_);
  if (!settings.fused_optimizer) {
    auto plain = std::make_shared<PlainAdamW>(params_, settings.lr, settings.weight_decay);
    plain_step_ = [plain] { plain->step(); };
  }
  schedule_ = make_schedule(settings, total_steps, *optimizer_);
  if (settings.ema > 0) ema_ = std::make_unique<optim::Ema>(params_, settings.ema);
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
    resident_ = {randn({batch, shape[0], shape[1], shape[2]}, kFloat32, device_, &generator)
                     .contiguous(settings.channels_last ? MemoryFormat::kChannelsLast
                                                        : MemoryFormat::kContiguous),
                 randint(0, classes, {batch}, kInt64, device_, &generator)};
  }
  model_->train();
  if (!settings_.cuda_graph) return;
  optimizer_->make_capturable();
  captured_.emplace(device_, [this](const std::vector<Tensor>& inputs) -> std::vector<Tensor> {
    train_on({inputs[0], inputs[1]});
    return {loss_};
  });
}

Tensor Training::normalized(const Tensor& bytes) const {
  if (settings_.normalize == "loader" || !images_.train) return bytes;
  const Tensor images = bytes.to(kFloat32);
  return settings_.normalize == "step" ? (images - mean_) / std_ : images;
}

Training::Inputs Training::next() {
  if (!loader_) return resident_;
  std::optional<data::Batch> batch = loader_->next();
  if (!batch) batch = loader_->next();  // of the next epoch
  WICK_CHECK(batch, "study: the data set has fewer images than a batch of ", settings_.batch);
  return {normalized((*batch)[0].to(device_)), (*batch)[1].to(device_)};
}

Tensor Training::forward_loss(const Tensor& images, const Tensor& labels) {
  const bool mixed = settings_.amp != "off";
  const amp::Autocast autocast(device_, settings_.amp == "fp16" ? kFloat16 : kBFloat16, mixed);
  const Tensor logits = (*model_)(images);
  if (!settings_.fused_loss) return composed_cross_entropy(logits, labels);
  return cross_entropy(logits, labels, {.label_smoothing = settings_.label_smoothing});
}

void Training::backward(const Inputs& inputs) {
  optim::accumulate(
      inputs.labels.size(0), settings_.accumulate, [&](int64_t begin, int64_t end, double share) {
        if (share == 1) {
          const Tensor loss = forward_loss(inputs.images, inputs.labels);
          scaler_.scale(loss).backward();
          loss_ = loss.detach();
          return;
        }
        const Tensor loss =
            forward_loss(inputs.images.slice(0, begin, end), inputs.labels.slice(0, begin, end));
        scaler_.scale(loss * share).backward();
        loss_ = loss.detach();
      });
}

void Training::update() {
  if (settings_.clip == "separate") optim::clip_grad_norm_(params_, kClipNorm);
  if (plain_step_) {
    plain_step_();
  } else if (scaler_.enabled()) {
    scaler_.step(*optimizer_);
    scaler_.update();
  } else if (settings_.clip == "fused") {
    optimizer_->step({.max_norm = kClipNorm});
  } else {
    optimizer_->step();
  }
  if (ema_) ema_->update();
}

void Training::train_on(const Inputs& inputs) {
  optimizer_->zero_grad(settings_.set_to_none);
  backward(inputs);
  if (settings_.second_forward) (*model_)(inputs.images);
  update();
}

void Training::step() {
  std::optional<DetectAnomaly> search;
  if (settings_.detect_anomaly) search.emplace();
  const Inputs inputs = next();
  if (captured_) {
    loss_ = (*captured_)({inputs.images, inputs.labels})[0];
  } else {
    train_on(inputs);
  }
  if (schedule_) schedule_->step();
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
  if (ema_) averages.emplace(*ema_);
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
