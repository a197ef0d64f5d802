// What a checkpoint costs a run, apart from the disk's time: training steps of AdamW alone (A),
// with a copy of all state for the writer at their end (B), and beside the writing of it, in turns.
// Arguments: MODEL (resnet20, resnet18, transformer) [DEVICE] [THREADS] [ROUNDS].
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "wick/train/detail/checkpoint_writer.h"
#include "wick/wick.h"

namespace {

using namespace wick;

struct Workload {
  std::shared_ptr<nn::Module> model;
  std::function<Tensor()> loss;
};

Workload images(const std::shared_ptr<nn::Module>& model, const Shape& shape, Device device) {
  model->to(device);
  const Tensor x = randn(shape, kFloat32, device);
  const Tensor target = zeros({shape[0]}, kInt64, device);
  return {model, [=] { return cross_entropy((*model)(x), target); }};
}

// 6 layers of width 512 on 16 sequences of 128.
Workload transformer(Device device) {
  const auto model = std::make_shared<nn::Sequential>();
  for (int i = 0; i < 6; ++i) {
    model->push_back(nn::TransformerEncoderLayer(
        512, 8, {.dim_feedforward = 2048, .batch_first = true, .norm_first = true}));
  }
  model->to(device);
  const Tensor x = randn({16, 128, 512}, kFloat32, device);
  return {model, [=] { return (*model)(x).pow(2).mean(); }};
}

Workload workload(const std::string& name, Device device) {
  if (name == "transformer") return transformer(device);
  if (name == "resnet18") {
    return images(std::make_shared<nn::ResNet>(nn::resnet18()), {16, 3, 224, 224}, device);
  }
  return images(std::make_shared<nn::ResNet20>(), {128, 3, 32, 32}, device);
}

struct Times {
  std::vector<double> wall, thread;  // ms; the thread's own do not grow when others use the machine
  static double median(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
    return values[values.size() / 2];
  }
};

double thread_ms() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

void measure(Times& times, Device device, const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  const double before = thread_ms();
  work();
  synchronize(device);
  times.thread.push_back(thread_ms() - before);
  const std::chrono::duration<double, std::milli> wall = std::chrono::steady_clock::now() - begin;
  times.wall.push_back(wall.count());
}

void show(const char* what, const Times& times, const Times& alone) {
  const double wall = Times::median(times.wall), thread = Times::median(times.thread);
  std::printf("%-24s %9.2f ms %6.1f %%, thread's own %9.2f ms %6.1f %%\n", what, wall,
              100 * wall / Times::median(alone.wall), thread,
              100 * thread / Times::median(alone.thread));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: bench_saving MODEL [DEVICE] [THREADS] [ROUNDS]\n");
    return 2;
  }
  const Device device = argc > 2 ? parse_device(argv[2]) : kCpu;
  set_num_threads(argc > 3 ? std::atoi(argv[3]) : 1);
  const int rounds = argc > 4 ? std::atoi(argv[4]) : 5;
  const Workload work = workload(argv[1], device);
  optim::AdamW optimizer(work.model->parameters(), {.lr = 1e-4});
  const auto step = [&] {
    optimizer.zero_grad();
    work.loss().backward();
    optimizer.step();
  };
  const std::string folder = std::filesystem::temp_directory_path() / "wick_bench_saving";
  std::filesystem::create_directories(folder);
  train::CheckpointWriter writer(2);
  Times alone, copy, beside;
  for (int64_t round = 0; round <= rounds; ++round) {
    if (round == 1) alone = copy = beside = {};  // what went before was for the caches
    measure(alone, device, step);
    measure(copy, device, [&] {
      const Checkpoint checkpoint{
          round, {{"weights", work.model->state_dict()}, {"optimizer", optimizer.state_dict()}}};
      writer.start(folder, checkpoint);
    });
    measure(beside, device, step);
    writer.wait();
  }
  int64_t bytes = 0;
  for (const auto& [name, x] : work.model->state_dict()) bytes += x.numel() * size_of(x.dtype());
  std::printf("%s: %.1f MB of weights and %.1f MB of state\n", argv[1],
              static_cast<double>(bytes) / 1e6, static_cast<double>(optimizer.state_bytes()) / 1e6);
  show("step", alone, alone);
  show("copy for the writer", copy, alone);
  show("step beside the writer", beside, alone);
  std::filesystem::remove_all(folder);
  return 0;
}
