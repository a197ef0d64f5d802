#include "wick/tools/wick/setup.h"

#include "wick/core/base/deterministic.h"
#include "wick/core/base/parallel.h"
#include "wick/core/base/tf32.h"
#include "wick/core/plans.h"
#include "wick/core/random.h"
#include "wick/core/stream.h"
#include "wick/nn/models/registry.h"
#include "wick/nn/norm.h"

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
  refuse("--data-dir", !config.data_dir.empty(), config.data != "shapes10",
         concat(of_data, ", whose images are drawn on the spot"));
  refuse("--image-size", config.image_size.has_value(), data.photographs,
         concat(of_data, ", whose images are all of one size: ", data.image_shape()[1], " x ",
                data.image_shape()[2]));
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
  const Shape& image = data.image_shape();
  return nn::find_model(config.model).make({image[0], image[1], image[2]}, data.num_classes());
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

std::string no_images(const data::Prefetcher& loader) {
  const std::string& last = loader.loader().last_skipped();
  return concat("data loader: no image of an epoch could be read",
                last.empty() ? "" : concat(", the last: ", last));
}

void set_arithmetic(const TrainConfig& config) {
  set_benchmark(config.benchmark);
  set_deterministic(config.deterministic);
  set_allow_tf32(config.tf32);
}

amp::Autocast make_autocast(const TrainConfig& config, Device device) {
  const bool enabled = config.amp != "off";
  return amp::Autocast(device, config.amp == "fp16" ? kFloat16 : kBFloat16, enabled);
}

std::unique_ptr<nn::OffloadActivations> make_offload(const TrainConfig& config, Device device) {
  if (!config.offload_activations) return nullptr;
  if (device.is_cpu()) throw UsageError("--offload-activations: expected a GPU, got the CPU");
  return std::make_unique<nn::OffloadActivations>();
}

namespace {

using Params = std::vector<Tensor>;

// What --optimizer may name, and what it is unless told otherwise.
struct OptimizerEntry {
  const char* name;
  double lr, weight_decay;  // 0: the model's
  bool cycles;              // see cycles_momentum
  std::unique_ptr<optim::Optimizer> (*make)(const Params& params, double lr, double decay);
};

template <class O>
std::unique_ptr<optim::Optimizer> plain(const Params& params, double lr, double decay) {
  typename O::Options options;
  options.lr = lr;
  options.weight_decay = decay;
  if constexpr (requires { options.decoupled_weight_decay; }) {
    // As AdamW's, where the textbook adds it to the gradient that the step then divides by.
    options.decoupled_weight_decay =
        !std::is_same_v<O, optim::SGD> && !std::is_same_v<O, optim::NovoGrad>;
  }
  if constexpr (std::is_same_v<O, optim::SGD>) options.momentum = 0.9;
  return std::make_unique<O>(params, options);
}

template <class O>
std::unique_ptr<optim::Optimizer> adapting(const Params& params, double lr, double decay) {
  using Group = optim::ParamGroup<typename O::Options>;
  Group all, rest;
  all.options.lr = rest.options.lr = lr;
  all.options.weight_decay = decay;
  rest.options.weight_decay = 0;
  if constexpr (std::is_same_v<O, optim::LARS>) rest.options.trust_coefficient = 0;
  for (const Tensor& param : params) (param.rank() > 1 ? all : rest).params.push_back(param);
  std::vector<Group> groups;
  for (Group* group : {&all, &rest}) {
    if (!group->params.empty()) groups.push_back(std::move(*group));
  }
  return std::make_unique<O>(std::move(groups));
}

constexpr OptimizerEntry kOptimizers[] = {
    {"adamw", 0, 0, true, plain<optim::AdamW>},
    {"adam", 0, 0, true, plain<optim::Adam>},
    {"sgd", 0.1, 5e-4, true, plain<optim::SGD>},
    {"adamax", 0, 0, true, plain<optim::Adamax>},
    {"nadam", 0, 0, true, plain<optim::NAdam>},
    {"radam", 0, 0, true, plain<optim::RAdam>},
    {"rmsprop", 0, 0, false, plain<optim::RMSprop>},
    {"adagrad", 0.01, 0, false, plain<optim::Adagrad>},
    {"adadelta", 1, 0, false, plain<optim::Adadelta>},
    {"asgd", 0.1, 5e-4, false, plain<optim::ASGD>},
    {"lars", 1, 5e-4, true, adapting<optim::LARS>},
    {"lamb", 0.01, 0, true, adapting<optim::LAMB>},
    {"novograd", 0.01, 1e-3, true, plain<optim::NovoGrad>},
};

const OptimizerEntry& find_optimizer(const std::string& name) {
  for (const OptimizerEntry& entry : kOptimizers) {
    if (name == entry.name) return entry;
  }
  throw Error("optimizer: unknown name: got " + name);
}

}  // namespace

TrainConfig resolve(TrainConfig config) {
  const nn::ModelEntry& entry = nn::find_model(config.model);
  if (!config.batch_size) config.batch_size = entry.batch_size;
  if (!config.epochs) config.epochs = config.data == "shapes10" || config.data == "mnist" ? 5 : 10;
  if (config.warmup > 0 && config.warmup >= static_cast<double>(*config.epochs)) {
    throw UsageError(concat("--warmup: longer than the run: got ", config.warmup,
                            " epochs, expected less than --epochs ", *config.epochs));
  }
  const OptimizerEntry& optimizer = find_optimizer(config.optimizer);
  if (!config.lr) config.lr = optimizer.lr > 0 ? optimizer.lr : entry.lr;
  if (!config.weight_decay) {
    config.weight_decay = optimizer.weight_decay > 0 ? optimizer.weight_decay : entry.weight_decay;
  }
  if (!config.threads) config.threads = num_threads();
  return config;
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const OptimizerEntry& entry : kOptimizers) names.emplace_back(entry.name);
  return names;
}

bool is_elementwise(const std::string& optimizer) {
  return find_optimizer(optimizer).make({zeros({1}).set_requires_grad()}, 1, 0)->is_elementwise();
}

bool cycles_momentum(const std::string& optimizer) { return find_optimizer(optimizer).cycles; }

std::unique_ptr<optim::Optimizer> make_optimizer(const TrainConfig& config,
                                                 const nn::Module& model) {
  return find_optimizer(config.optimizer)
      .make(model.parameters(), *config.lr, *config.weight_decay);
}

std::unique_ptr<optim::Ema> make_ema(const TrainConfig& config, const nn::Module& model) {
  if (!config.ema) return nullptr;
  std::vector<Tensor> tensors = model.parameters();
  for (const auto& [name, buffer] : model.named_buffers()) {
    if (buffer.defined() && is_floating(buffer.dtype())) tensors.push_back(buffer);
  }
  return std::make_unique<optim::Ema>(std::move(tensors), *config.ema);
}

}  // namespace wick::tool
