// What a compiled step holds, asks for and costs beside an eager one: the most memory of a step by
// the allocator's count, allocations of a step, the median time of steps that take turns, and the
// time of the first compiled step (trace, passes and step). Arguments: MODEL (resnet18, resnet50,
// encoder) [BATCH] [ROUNDS] [THREADS].
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "wick/wick.h"

namespace {

using namespace wick;

using Step = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

std::shared_ptr<nn::Module> make_model(const std::string& name) {
  const nn::ResNetOptions small{.classes = 10, .small_input = true};
  if (name == "resnet18") return std::make_shared<nn::ResNet>(nn::resnet18(small));
  if (name == "resnet50") return std::make_shared<nn::ResNet>(nn::resnet50(small));
  WICK_CHECK(name == "encoder", "bench: unknown model: got \"", name,
             "\", expected resnet18, resnet50 or encoder");
  const auto model = std::make_shared<nn::Sequential>();
  for (int i = 0; i < 6; ++i) {
    model->push_back(nn::TransformerEncoderLayer(
        512, 8, {.dim_feedforward = 2048, .dropout = 0, .batch_first = true, .norm_first = true}));
  }
  return model;
}

// One of the two ways, with a model of its own.
class Trainer {
 public:
  Trainer(const std::string& name, bool compiles)
      : model_(make_model(name)), sgd_(model_->parameters(), {.lr = 0.01, .momentum = 0.9}) {
    is_encoder_ = name == "encoder";
    step_ = [this](const std::vector<Tensor>& in) { return step(in); };
    if (!compiles) return;
    const auto compiled = std::make_shared<graph::CompiledFunction>(graph::compile_step(step_));
    step_ = [compiled](const std::vector<Tensor>& in) { return (*compiled)(in); };
  }
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Seconds.
  double run(const std::vector<Tensor>& in) {
    const int64_t before = memory_stats(kCpu).all.allocation.allocated;
    reset_peak_memory_stats(kCpu);
    const auto start = std::chrono::steady_clock::now();
    step_(in);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    peak = max_memory_allocated(kCpu);
    allocations = memory_stats(kCpu).all.allocation.allocated - before;
    return seconds.count();
  }

  int64_t peak = 0, allocations = 0;  // of the last step

 private:
  std::vector<Tensor> step(const std::vector<Tensor>& in) {
    sgd_.zero_grad();
    const Tensor y = (*model_)(in[0]);
    const Tensor loss = is_encoder_ ? y.square().mean() : cross_entropy(y, in[1]);
    loss.backward();
    sgd_.step();
    return {loss.detach()};
  }

  std::shared_ptr<nn::Module> model_;
  optim::SGD sgd_;
  bool is_encoder_ = false;
  Step step_;
};

double median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

void run(const std::string& name, int64_t batch, int rounds) {
  manual_seed(0);
  const Tensor x = name == "encoder" ? randn({batch, 128, 512}) : randn({batch, 3, 32, 32});
  const std::vector<Tensor> in{x, randint(0, 10, {batch})};
  constexpr int kWarmUps = 5;  // eager, traced, and what the block of memory needs
  int64_t peaks[2], allocations[2];
  double first = 0;
  for (const bool compiles : {false, true}) {  // one at a time: memory counts all that lives
    Trainer trainer(name, compiles);
    for (int i = 0; i < kWarmUps; ++i) {
      const double seconds = trainer.run(in);
      if (compiles && i == 1) first = seconds;
    }
    trainer.run(in);
    peaks[compiles] = trainer.peak;
    allocations[compiles] = trainer.allocations;
  }
  Trainer eager(name, false), compiled(name, true);
  for (int i = 0; i < kWarmUps; ++i) eager.run(in), compiled.run(in);
  std::vector<double> times[2];
  for (int i = 0; i < rounds; ++i) {
    times[0].push_back(eager.run(in));
    times[1].push_back(compiled.run(in));
  }
  std::printf("%s, batch %ld, %d threads, %d rounds\n", name.c_str(), batch, num_threads(), rounds);
  const double seconds[2] = {median(times[0]), median(times[1])};
  for (const int way : {0, 1}) {
    std::printf("%-8s peak %8.1f MB %5.2fx, %5ld allocations, %8.1f ms %5.2fx\n",
                way == 0 ? "eager" : "compiled", static_cast<double>(peaks[way]) / 1e6,
                static_cast<double>(peaks[way]) / static_cast<double>(peaks[0]), allocations[way],
                1e3 * seconds[way], seconds[way] / seconds[0]);
  }
  std::printf("first compiled step %.1f ms\n", 1e3 * first);
}

}  // namespace

int main(int argc, char** argv) try {
  WICK_CHECK(argc >= 2 && argc <= 5, "bench: expected MODEL [BATCH] [ROUNDS] [THREADS]");
  if (argc > 4) set_num_threads(std::stoi(argv[4]));
  run(argv[1], argc > 2 ? std::stol(argv[2]) : 128, argc > 3 ? std::stoi(argv[3]) : 10);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
