#include "wick/tools/wick/setup.h"

#include "wick/core/base/parallel.h"
#include "wick/data/cifar.h"
#include "wick/data/idx.h"
#include "wick/data/image_folder.h"
#include "wick/data/shapes10.h"

namespace wick::tool {

namespace {

using data::ImageSet;
using data::Split;

ImageSet read_images(const TrainConfig& config, Split split) {
  if (config.data == "mnist") return data::read_mnist(config.data_dir, split);
  if (config.data == "fashion-mnist") return data::read_fashion_mnist(config.data_dir, split);
  if (config.data == "cifar10") return data::read_cifar10(config.data_dir, split);
  if (config.data == "cifar100") return data::read_cifar100(config.data_dir, split);
  return data::shapes10(split);
}

// What is done to training images of sets held in memory. Digits and clothes are centred already.
data::Transforms augmentation(const TrainConfig& config, const ImageSet& images) {
  const bool colour = images.channels == 3;
  if (!colour) return {};
  data::Transforms transforms{std::make_shared<data::RandomCrop>(
      data::ImageSize{images.height, images.width}, images.height / 8)};
  if (config.data != "shapes10") {
    transforms.push_back(std::make_shared<data::RandomHorizontalFlip>());
  }
  return transforms;
}

TrainingData make_image_folder(const TrainConfig& config, bool test_only) {
  using namespace data;
  const ImageSize size{config.image_size, config.image_size};
  TrainingData made;
  made.image = {3, size.height, size.width};
  const Transforms center{std::make_shared<Resize>(config.image_size * 8 / 7),
                          std::make_shared<CenterCrop>(size)};
  auto test = std::make_shared<ImageDataset>(list_image_folder(config.data_dir, Split::kTest),
                                             center, normalize_photographs());
  made.class_names = test->class_names();
  made.test = test;
  if (test_only) return made;
  const Transforms random{std::make_shared<RandomResizedCrop>(size),
                          std::make_shared<RandomHorizontalFlip>()};
  made.train = std::make_shared<ImageDataset>(list_image_folder(config.data_dir, Split::kTrain),
                                              random, normalize_photographs());
  return made;
}

}  // namespace

TrainingData make_data(const TrainConfig& config, bool test_only) {
  if (config.data == "imagefolder") return make_image_folder(config, test_only);
  // The training images are read in any case: both sets are normalised by their statistics.
  const auto train = std::make_shared<ImageSet>(read_images(config, Split::kTrain));
  const auto test = std::make_shared<ImageSet>(read_images(config, Split::kTest));
  const data::Normalize normalize = data::normalize_by(*train);
  TrainingData made;
  made.image = {train->channels, train->height, train->width};
  made.class_names = train->class_names;
  made.test = std::make_shared<data::ImageDataset>(test, data::Transforms{}, normalize);
  if (!test_only) {
    made.train =
        std::make_shared<data::ImageDataset>(train, augmentation(config, *train), normalize);
  }
  return made;
}

TrainConfig resolve(TrainConfig config) {
  const nn::ModelEntry& entry = nn::find_model(config.model);
  if (!config.batch_size) config.batch_size = entry.batch_size;
  if (!config.epochs) config.epochs = config.data == "mnist" ? 5 : 10;
  const bool sgd = config.optimizer == "sgd";
  if (!config.lr) config.lr = sgd ? 0.1 : entry.lr;
  if (!config.weight_decay) config.weight_decay = sgd ? 5e-4 : entry.weight_decay;
  if (!config.threads) config.threads = num_threads();
  return config;
}

Device choose_device(const std::string& name, std::string* why) {
  if (name != "auto") {
    const Device device = parse_device(name);
#ifndef WICK_HAS_CUDA
    WICK_CHECK(device.is_cpu(), "--device ", name,
               ": this build has no GPU support: configure with WICK_GPU=cuda, or use --device cpu");
#endif
    return device;
  }
  if (why != nullptr) *why = "this build has no GPU support (WICK_GPU=off)";
  return kCpu;
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
