// The workloads of compare.py in Wick. Arguments: WORKLOAD THREADS. Then one line per command on
// standard input: `run N` answers with the seconds of N iterations, `memory` with the growth of the
// peak resident set since before the workload was set up, after three iterations.
#include <chrono>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "wick/wick.h"

namespace {

using namespace wick;
using Iterate = std::function<void()>;

int64_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  }
  throw Error("peer: /proc/self/status has no VmHWM");
}

Iterate training_step(std::shared_ptr<nn::Module> model, const Tensor& x, const Tensor& target,
                      std::shared_ptr<optim::Optimizer> optimizer, bool mixed = false) {
  return [=] {
    optimizer->zero_grad();
    Tensor loss;
    {
      const amp::Autocast autocast(x.device(), kBFloat16, mixed);
      loss = cross_entropy((*model)(x), target);
    }
    loss.backward();
    optimizer->step();
  };
}

Iterate resnet18_step(int64_t batch, int64_t size, bool mixed = false) {
  nn::ResNetOptions options;
  options.classes = size <= 64 ? 10 : 1000;
  options.small_input = size <= 64;
  auto model = std::make_shared<nn::ResNet>(nn::resnet18(options));
  const Tensor x = randn({batch, 3, size, size}).contiguous(MemoryFormat::kChannelsLast);
  auto optimizer = std::make_shared<optim::SGD>(
      model->parameters(), optim::SGDOptions{.lr = 0.01, .momentum = 0.9, .weight_decay = 5e-4});
  return training_step(model, x, randint(0, 10, {batch}), optimizer, mixed);
}

// Article 001's training loop, whole: CIFAR-10 (here of noise) cropped and resized to 224, flipped
// and normalised by worker threads; ResNet-18, SGD.
Iterate article_001(bool mixed) {
  auto images = std::make_shared<data::ImageSet>();
  images->height = images->width = 32;
  images->channels = 3;
  images->pixels = randint(0, 256, {20000 * 32 * 32 * 3}).to(kUint8).to_vector<uint8_t>();
  images->labels = randint(0, 10, {20000}).to(kUint8).to_vector<uint8_t>();
  for (int i = 0; i < 10; ++i) images->class_names.push_back(std::to_string(i));
  data::Transforms transforms;
  transforms.push_back(std::make_shared<data::RandomResizedCrop>(data::ImageSize{224, 224}));
  transforms.push_back(std::make_shared<data::RandomHorizontalFlip>());
  const auto dataset = std::make_shared<data::ImageDataset>(
      std::shared_ptr<const data::ImageSet>(images), transforms, data::normalize_photographs());
  data::DataLoaderOptions loading;
  loading.batch_size = 128;
  loading.shuffle = true;
  loading.num_workers = data::kAuto;
  const auto loader = std::make_shared<data::Prefetcher>(data::load_ahead(dataset, loading, kCpu));
  const auto model = std::make_shared<nn::ResNet>(nn::resnet18({.classes = 1000}));
  const auto optimizer = std::make_shared<optim::SGD>(
      model->parameters(), optim::SGDOptions{.lr = 0.01, .momentum = 0.9});
  return [=] {
    std::optional<data::Batch> batch = loader->next();
    if (!batch) batch = loader->next();  // of the next epoch
    training_step(model, (*batch)[0], (*batch)[1], optimizer, mixed)();
  };
}

Iterate mlp_step() {
  auto model = std::make_shared<nn::Sequential>(
      nn::Linear(784, 512), nn::ReLU(), nn::Linear(512, 512), nn::ReLU(), nn::Linear(512, 10));
  auto optimizer =
      std::make_shared<optim::AdamW>(model->parameters(), optim::AdamWOptions{.lr = 1e-3});
  return training_step(model, randn({64, 784}), randint(0, 10, {64}), optimizer);
}

Iterate adamw_step() {
  std::vector<Tensor> parameters;
  for (int i = 0; i < 24; ++i) {
    parameters.push_back(randn({1 << 20}).set_requires_grad());
    parameters.back().set_grad(randn({1 << 20}));
  }
  auto optimizer = std::make_shared<optim::AdamW>(parameters);
  return [=] { optimizer->step(); };
}

Iterate row_op(std::string name) {
  const Tensor x = randn({8192, 4096});
  const Tensor target = randint(0, 4096, {8192});
  const Tensor weight = ones({4096}), bias = zeros({4096});
  const std::map<std::string, std::function<Tensor(const Tensor&)>> ops = {
      {"softmax", [](const Tensor& t) { return softmax(t, 1); }},
      {"layer_norm", [=](const Tensor& t) { return layer_norm(t, {4096}, weight, bias); }},
      {"gelu", [](const Tensor& t) { return gelu(t); }},
      {"cross_entropy", [=](const Tensor& t) { return cross_entropy(t, target); }},
  };
  constexpr std::string_view kBackward = "_backward";
  const bool backward = name.ends_with(kBackward);
  if (backward) name.resize(name.size() - kBackward.size());
  const auto found = ops.find(name);
  WICK_CHECK(found != ops.end(), "peer: unknown workload: got \"", name, "\"");
  const auto op = found->second;
  if (!backward) {
    return [=] {
      const NoGrad no_grad;
      op(x);
    };
  }
  x.set_requires_grad();
  const Tensor gradient = ones_like(op(x).detach());
  return [=] {
    x.set_grad({});
    op(x).backward(gradient);
  };
}

Iterate make(const std::string& workload) {
  if (workload == "resnet18_32_b128") return resnet18_step(128, 32);
  if (workload == "resnet18_224_b16") return resnet18_step(16, 224);
  if (workload == "resnet18_32_b128_bf16") return resnet18_step(128, 32, true);
  if (workload == "resnet18_224_b16_bf16") return resnet18_step(16, 224, true);
  if (workload == "article_001") return article_001(false);
  if (workload.starts_with("article_001_")) return article_001(true);
  if (workload == "mlp_b64") return mlp_step();
  if (workload.starts_with("adamw_25m")) return adamw_step();
  return row_op(workload);
}

}  // namespace

int main(int argc, char** argv) try {
  WICK_CHECK(argc == 3, "peer: expected WORKLOAD THREADS");
  set_num_threads(std::stoi(argv[2]));
  manual_seed(0);
  const int64_t before = peak_bytes();
  const Iterate iterate = make(argv[1]);
  std::cout << "ready wick" << std::endl;
  std::string command;
  while (std::cin >> command) {
    int64_t count = 3;
    if (command == "run") std::cin >> count;
    const auto start = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < count; ++i) iterate();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (command == "run") {
      std::cout << seconds.count() << std::endl;
    } else {
      std::cout << peak_bytes() - before << std::endl;
    }
  }
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
