#include "wick/tools/wick/setup.h"

#include "wick/core/base/parallel.h"
#include "wick/core/stream.h"
#include "wick/nn/models/registry.h"

namespace wick::tool {

TrainConfig resolve(TrainConfig config) {
  const nn::ModelEntry& entry = nn::find_model(config.model);
  if (!config.batch_size) config.batch_size = entry.batch_size;
  if (!config.epochs) config.epochs = config.data == "shapes10" || config.data == "mnist" ? 5 : 10;
  const bool sgd = config.optimizer == "sgd";
  if (!config.lr) config.lr = sgd ? 0.1 : entry.lr;
  if (!config.weight_decay) config.weight_decay = sgd ? 5e-4 : entry.weight_decay;
  if (!config.threads) config.threads = num_threads();
  return config;
}

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

std::shared_ptr<nn::Module> make_model(const TrainConfig& config, const data::TrainTest& data) {
  const Shape& image = data.image_shape();
  return nn::find_model(config.model).make({image[0], image[1], image[2]}, data.num_classes());
}

amp::Autocast make_autocast(const TrainConfig& config, Device device) {
  const bool enabled = config.amp != "off";
  return amp::Autocast(device, config.amp == "fp16" ? kFloat16 : kBFloat16, enabled);
}

std::unique_ptr<optim::Optimizer> make_optimizer(const TrainConfig& config,
                                                 const nn::Module& model) {
  const double lr = *config.lr, decay = *config.weight_decay;
  const std::vector<Tensor> params = model.parameters();
  if (config.optimizer == "sgd") {
    return std::make_unique<optim::SGD>(
        params, optim::SGDOptions{.lr = lr, .momentum = 0.9, .weight_decay = decay});
  }
  if (config.optimizer == "adam") {
    return std::make_unique<optim::Adam>(params,
                                         optim::AdamOptions{.lr = lr, .weight_decay = decay});
  }
  return std::make_unique<optim::AdamW>(params,
                                        optim::AdamWOptions{.lr = lr, .weight_decay = decay});
}

std::unique_ptr<optim::Schedule> make_schedule(const TrainConfig& config, int64_t total_steps,
                                               optim::Optimizer& optimizer) {
  if (config.schedule == "onecycle") {
    return std::make_unique<optim::OneCycleLR>(
        optimizer, optim::OneCycleOptions{.max_lr = *config.lr, .total_steps = total_steps});
  }
  if (config.schedule == "cosine") {
    return std::make_unique<optim::CosineAnnealingLR>(optimizer, total_steps);
  }
  return nullptr;
}

}  // namespace wick::tool
