// What activation checkpointing saves and costs: the most memory that a training step (forward,
// loss, backward) holds beyond what it begins with, by the allocator's count, and the step's time,
// without checkpoints, with one around every block, and with the plan for a budget of 0.4 times the
// memory. Arguments: MODEL (resnet50, transformer) [BATCH] [DEVICE] [THREADS].
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <functional>
#include <memory>
#include <string>

#include "wick/wick.h"

namespace {

using namespace wick;

constexpr int kRounds = 3;

struct Workload {
  std::shared_ptr<nn::Module> model;
  std::function<void()> step;
};

Workload resnet50(int64_t batch, Device device) {
  const auto model = std::make_shared<nn::ResNet>(nn::resnet50());
  model->to(device);
  const Tensor x = randn({batch, 3, 224, 224}, kFloat32, device);
  const Tensor target = zeros({batch}, kInt64, device);
  return {model, [=] { cross_entropy((*model)(x), target).backward(); }};
}

// 12 layers of width 768 on sequences of 128, as BERT base has.
Workload transformer(int64_t batch, Device device) {
  const auto model = std::make_shared<nn::Sequential>();
  for (int i = 0; i < 12; ++i) {
    model->push_back(nn::TransformerEncoderLayer(768, 12,
                                                 {.dim_feedforward = 3072,
                                                  .activation = nn::FeedForwardActivation::kGelu,
                                                  .batch_first = true,
                                                  .norm_first = true}));
  }
  model->to(device);
  const Tensor x = randn({batch, 128, 768}, kFloat32, device);
  return {model, [=] { (*model)(x).pow(2).mean().backward(); }};
}

struct Figures {
  int64_t peak = 0;
  double seconds = 1e30;
  double processor_seconds = 1e30;  // of all threads: does not grow when others use the machine
};

Figures measure(const Workload& work, Device device) {
  work.step();  // gradients, caches
  Figures figures;
  for (int i = 0; i < kRounds; ++i) {
    synchronize(device);
    reset_peak_memory_stats(device);
    const int64_t before = memory_allocated(device);
    const std::clock_t ticks = std::clock();
    const auto start = std::chrono::steady_clock::now();
    work.step();
    synchronize(device);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    figures.seconds = std::min(figures.seconds, seconds.count());
    const double processor = static_cast<double>(std::clock() - ticks) / CLOCKS_PER_SEC;
    figures.processor_seconds = std::min(figures.processor_seconds, processor);
    figures.peak = std::max(figures.peak, max_memory_allocated(device) - before);
  }
  return figures;
}

void show(const char* name, const Figures& figures, const Figures& plain) {
  std::printf("%-26s %8.1f MB %5.2fx %8.0f ms %5.2fx, processor %8.0f ms %5.2fx\n", name,
              static_cast<double>(figures.peak) / 1e6,
              static_cast<double>(figures.peak) / static_cast<double>(plain.peak),
              1e3 * figures.seconds, figures.seconds / plain.seconds,
              1e3 * figures.processor_seconds, figures.processor_seconds / plain.processor_seconds);
  std::fflush(stdout);
}

void run(const std::string& name, int64_t batch, Device device) {
  manual_seed(0);
  WICK_CHECK(name == "resnet50" || name == "transformer", "bench: unknown model: got \"", name,
             "\", expected resnet50 or transformer");
  const Workload work = name == "resnet50" ? resnet50(batch, device) : transformer(batch, device);
  std::printf("%s, batch %ld, %s\n", name.c_str(), batch, to_string(device).c_str());
  const Figures plain = measure(work, device);
  show("plain", plain, plain);
  nn::checkpoint_every_child(*work.model);
  show("every block", measure(work, device), plain);
  const nn::ActivationFit fit =
      nn::fit_activations(*work.model, device, 2 * plain.peak / 5, work.step);
  const std::string plan = concat("plan for 0.4x, ", fit.recomputed, " of ", fit.units);
  show(plan.c_str(), measure(work, device), plain);
}

}  // namespace

int main(int argc, char** argv) try {
  WICK_CHECK(argc >= 2 && argc <= 5, "bench: expected MODEL [BATCH] [DEVICE] [THREADS]");
  const int64_t batch = argc > 2 ? std::stol(argv[2]) : 8;
  const Device device = argc > 3 ? parse_device(argv[3]) : kCpu;
  if (argc > 4) set_num_threads(std::stoi(argv[4]));
  run(argv[1], batch, device);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
