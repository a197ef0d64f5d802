// How fast the loader is: bench_loader [mnist] [cifar] [training], all by default, or [memory]; one
// JSON object per line. Images are noise in memory. Loading: images per second for each number of
// workers, the best of several epochs. Training: the time of a step with loaded data over that of
// the same step on data in memory, taking turns. Memory: what the process holds after so many
// epochs of a packed file of JPEGs and every transform. bench/peers/loader.py runs PyTorch beside
// it.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "wick/nn/models/registry.h"
#include "wick/wick.h"

namespace {

using namespace wick;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::shared_ptr<const data::ImageSet> noise(int64_t count, int64_t side, int64_t channels) {
  auto images = std::make_shared<data::ImageSet>();
  images->height = images->width = side;
  images->channels = channels;
  images->pixels.resize(static_cast<size_t>(count * side * side * channels));
  PhiloxStream random(1, 0);
  for (uint8_t& pixel : images->pixels) pixel = static_cast<uint8_t>(random.next() >> 24);
  for (int64_t i = 0; i < count; ++i) images->labels.push_back(static_cast<uint8_t>(i % 10));
  images->class_names.resize(10);
  return images;
}

std::shared_ptr<const data::Dataset> mnist() {
  const auto images = noise(60000, 28, 1);
  return std::make_shared<data::ImageDataset>(images, data::Transforms(),
                                              data::Normalize({0.1307f}, {0.3081f}));
}

std::shared_ptr<const data::Dataset> cifar() {
  const auto images = noise(50000, 32, 3);
  const data::Transforms transforms = {
      std::make_shared<data::RandomCrop>(data::ImageSize{32, 32}, 4),
      std::make_shared<data::RandomHorizontalFlip>()};
  return std::make_shared<data::ImageDataset>(images, transforms, data::normalize_by(*images));
}

void time_loading(const std::string& name, const std::shared_ptr<const data::Dataset>& dataset) {
  constexpr int kEpochs = 5;
  for (const int workers : {0, 1, 2, 4, data::kAuto}) {
    data::DataLoader loader(
        dataset, {.batch_size = 64, .shuffle = true, .num_workers = workers, .drop_last = true});
    double best = 0;
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      int64_t images = 0;
      const auto start = Clock::now();
      while (const std::optional<data::Batch> batch = loader.next()) images += batch->size();
      best = std::max(best, static_cast<double>(images) / seconds_since(start));
    }
    std::cout << "{\"workload\": \"" << name << "\", \"workers\": " << workers
              << ", \"images_per_second\": " << best << "}" << std::endl;
  }
}

// Steps of a ResNet-20 on batches of 64 CIFAR-10 images, cropped and flipped.
void time_training() {
  constexpr int kRounds = 9, kSteps = 8;
  const std::shared_ptr<nn::Module> model = nn::find_model("resnet20").make({3, 32, 32}, 10);
  optim::SGD optimizer(model->parameters(), {.lr = 0.01, .momentum = 0.9});
  data::DataLoader loader(
      cifar(), {.batch_size = 64, .shuffle = true, .num_workers = data::kAuto, .drop_last = true});
  const data::Batch kept = *loader.next();
  const auto time = [&](bool load) {
    const auto start = Clock::now();
    for (int i = 0; i < kSteps; ++i) {
      std::optional<data::Batch> loaded;
      if (load) loaded = loader.next();
      const data::Batch& batch = loaded ? *loaded : kept;
      optimizer.zero_grad();
      cross_entropy((*model)(batch[0]), batch[1]).backward();
      optimizer.step();
    }
    return seconds_since(start) / kSteps;
  };
  time(false);
  time(true);
  std::vector<double> ratios, steps;
  for (int round = 0; round < kRounds; ++round) {
    const double before = time(false), loaded = time(true), after = time(false);
    ratios.push_back(loaded / ((before + after) / 2));
    steps.push_back(before);
  }
  const auto median = [](std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  };
  std::cout << "{\"workload\": \"training\", \"step_seconds_in_memory\": " << median(steps)
            << ", \"loaded_over_in_memory\": " << median(ratios)
            << ", \"workers\": " << loader.num_workers() << "}" << std::endl;
}

int64_t resident_kilobytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::atoll(line.c_str() + 6);
  }
  return 0;
}

void watch_memory() {
  constexpr int kEpochs = 200;
  std::string folder = (std::filesystem::temp_directory_path() / "wick-XXXXXX").string();
  WICK_CHECK(mkdtemp(folder.data()) != nullptr, "bench_loader: no temporary folder");
  const std::string path = folder + "/packed";
  const auto images = data::image_source(noise(500, 96, 3));
  const data::Normalize normalize = data::normalize_photographs();
  data::pack_images(
      {images, images, {.photographs = true, .mean = normalize.mean(), .std = normalize.std()}},
      path, {.form = data::PackOptions::Form::kJpeg});
  {
    const data::Transforms transforms = {
        std::make_shared<data::RandomResizedCrop>(data::ImageSize{64, 64}),
        std::make_shared<data::RandomHorizontalFlip>(),
        std::make_shared<data::ColorJitter>(
            data::ColorJitterOptions{.brightness = 0.4, .hue = 0.1}),
        std::make_shared<data::RandAugment>(), std::make_shared<data::RandomErasing>()};
    data::Prefetcher loader =
        data::load_ahead(std::make_shared<data::ImageDataset>(
                             data::PackedFile::open(path)->images().train, transforms, normalize),
                         {.batch_size = 32, .shuffle = true, .num_workers = 4}, kCpu);
    for (int epoch = 1; epoch <= kEpochs; ++epoch) {
      while (loader.next()) continue;
      if (epoch != 5 && epoch % 25 != 0) continue;
      std::cout << "{\"workload\": \"memory\", \"epochs\": " << epoch
                << ", \"resident_kilobytes\": " << resident_kilobytes() << "}" << std::endl;
    }
  }
  std::filesystem::remove_all(folder);
}

}  // namespace

int main(int argc, char** argv) try {
  std::vector<std::string> names(argv + 1, argv + argc);
  if (names.empty()) names = {"mnist", "cifar", "training"};
  for (const std::string& name : names) {
    if (name == "mnist") {
      time_loading(name, mnist());
    } else if (name == "cifar") {
      time_loading(name, cifar());
    } else if (name == "memory") {
      watch_memory();
    } else {
      WICK_CHECK(name == "training", "bench_loader: unknown workload: got \"", name, "\"");
      time_training();
    }
  }
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
