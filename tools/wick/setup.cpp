#include "wick/tools/wick/setup.h"

#include <algorithm>
#include <charconv>

#include "wick/core/base/deterministic.h"
#include "wick/core/base/parallel.h"
#include "wick/core/base/tf32.h"
#include "wick/core/plans.h"
#include "wick/core/random.h"
#include "wick/core/stream.h"
#include "wick/nn/models/registry.h"
#include "wick/nn/norm.h"
#include "wick/tools/common/number_flag.h"
#include "wick/train/optimizers.h"

namespace wick::tool {

Device choose_device(const std::string& name, std::string* why) {
  if (name != "auto") {
    const Device device = parse_device(name);
    WICK_CHECK(device.is_cpu() || cuda_is_available(), "--device ", name,
               ": no GPU to use: ", why_no_cuda(), ": use --device cpu");
    WICK_CHECK(device.is_cpu() || device.index < cuda_device_count(), "--device ", name,
               ": no such GPU: got ", device.index, ", expected less than ", cuda_device_count());
    return device;
  }
  const bool usable = cuda_is_available();
  if (usable && !device_properties(cuda_device(0)).simulated) return cuda_device(0);
  if (why != nullptr) *why = usable ? "the only GPU is a simulated one" : why_no_cuda();
  return kCpu;
}

Device choose_device(const std::string& name, int local_rank, std::string* why) {
  const Device device = choose_device(name, why);
  if (device.is_cpu() || name.find(':') != std::string::npos) return device;
  return cuda_device(local_rank % cuda_device_count());
}

data::TrainTest open_train_data(const TrainConfig& config) {
  data::set_image_limits({config.max_image_pixels, config.max_image_seconds});
  return data::open_data(config.data, config.data_dir, config.image_size,
                         {.policy = config.augment, .erasing = config.random_erasing});
}

void check_uses(const TrainConfig& config, const data::TrainTest& data, nn::Module& model) {
  static const TrainConfig kUntold;
  const auto refuse = [&](const char* flag, bool is_told, bool is_used, const std::string& why) {
    if (is_told && !is_used) throw UsageError(concat(flag, ": not with --", why));
  };
  const std::string of_data = concat("data ", config.data);
  refuse("--data-dir", !config.data_dir.empty(), data::find_data(config.data).needs_files,
         concat(of_data, ", which reads no files"));
  const Shape& sample = data.sample().shape;
  const std::string no_images = concat(of_data, ", whose samples are no images");
  refuse("--augment", config.augment != kUntold.augment, data.images, no_images);
  refuse("--random-erasing", config.random_erasing > 0, data.images, no_images);
  refuse("--mixup", config.mixup > 0, data.images, no_images);
  refuse("--cutmix", config.cutmix > 0, data.images, no_images);
  refuse("--image-size", config.image_size.has_value(), data.photographs,
         data.images
             ? concat(of_data, ", whose images are all of one size: ", sample[1], " x ", sample[2])
             : no_images);
  const bool in_files = config.data == "imagefolder" || config.data == "packed";
  const std::string in_memory = concat(of_data, ", whose images need no decoding");
  refuse("--max-image-pixels", config.max_image_pixels != kUntold.max_image_pixels, in_files,
         in_memory);
  refuse("--max-image-seconds", config.max_image_seconds != kUntold.max_image_seconds, in_files,
         in_memory);
  bool normalizes = false;
  model.apply([&](const std::string&, nn::Module& part) {
    normalizes |= dynamic_cast<const nn::BatchNorm*>(&part) != nullptr;
  });
  refuse("--sync-batch-norm", config.sync_batch_norm, normalizes,
         concat("model ", config.model, ", which has no batch normalisation"));
}

std::shared_ptr<nn::Module> make_model(const TrainConfig& config, const data::TrainTest& data) {
  return nn::find_model(config.model).make(data.sample().shape, data.num_classes());
}

std::shared_ptr<nn::Module> make_seeded_model(const TrainConfig& config,
                                              const data::TrainTest& data, Device device) {
  manual_seed(static_cast<uint64_t>(config.seed));
  auto model = make_model(config, data);
  model->to(device);
  return model;
}

data::DataLoaderOptions loader_options(const TrainConfig& config, Device device) {
  data::DataLoaderOptions options;
  options.seed = static_cast<uint64_t>(config.seed);  // so that nothing is drawn for it
  options.batch_size = *config.batch_size;
  options.num_workers = static_cast<int>(config.workers.number.value_or(data::kAuto));
  if (options.num_workers != 0) options.timeout = config.data_timeout;
  options.pin_memory = device.is_cuda();
  if (config.on_bad_sample == "skip") options.on_error = data::OnError::kSkip;
  return options;
}

data::DataLoaderOptions train_loader_options(const TrainConfig& config, const data::TrainTest& data,
                                             Device device) {
  data::DataLoaderOptions options = loader_options(config, device);
  options.shuffle = true;
  options.drop_last = data.train->size() >= *options.batch_size;
  return options;
}

void set_arithmetic(const TrainConfig& config) {
  set_benchmark(config.benchmark);
  set_deterministic(config.deterministic);
  set_allow_tf32(config.tf32);
}

std::optional<Dtype> autocast_dtype(const TrainConfig& config) {
  if (config.amp == "off") return {};
  return config.amp == "fp16" ? kFloat16 : kBFloat16;
}

std::vector<double> schedule_epochs(const TrainConfig& config) {
  const std::string& text = config.schedule_epochs;
  std::vector<double> epochs;
  for (size_t begin = 0; begin < text.size() + !text.empty();) {
    const size_t end = std::min(text.size(), text.find(',', begin));
    double number = 0;
    const auto parsed = std::from_chars(text.data() + begin, text.data() + end, number);
    const bool rises = number > (epochs.empty() ? 0 : epochs.back()) && number <= 1e9;
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + end || !rises) {
      throw UsageError(concat("--schedule-epochs: got \"", text.substr(0, kMaxShown),
                              "\", expected numbers above 0 that rise, such as 30,60"));
    }
    epochs.push_back(number);
    begin = end + 1;
  }
  return epochs;
}

TrainConfig resolve(TrainConfig config) {
  const nn::ModelEntry& entry = nn::find_model(config.model);
  if (!config.batch_size) config.batch_size = entry.batch_size;
  if (!config.epochs) config.epochs = config.data == "shapes10" || config.data == "mnist" ? 5 : 10;
  if (config.warmup > 0 && config.warmup >= static_cast<double>(*config.epochs)) {
    throw UsageError(concat("--warmup: longer than the run: got ", config.warmup,
                            " epochs, expected less than --epochs ", *config.epochs));
  }
  const train::OptimizerEntry& optimizer = train::find_optimizer(config.optimizer);
  if (!config.lr) config.lr = optimizer.lr > 0 ? optimizer.lr : entry.lr;
  if (!config.weight_decay) {
    config.weight_decay = optimizer.weight_decay > 0 ? optimizer.weight_decay : entry.weight_decay;
  }
  if (!config.threads) config.threads = num_threads();
  return config;
}

bool is_elementwise(const std::string& optimizer) {
  return train::find_optimizer(optimizer)
      .make({zeros({1}).set_requires_grad()}, 1, 0)
      ->is_elementwise();
}

std::unique_ptr<optim::Optimizer> make_optimizer(const TrainConfig& config,
                                                 const nn::Module& model) {
  return train::find_optimizer(config.optimizer)
      .make(model.parameters(), *config.lr, *config.weight_decay);
}

}  // namespace wick::tool
