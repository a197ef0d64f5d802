// Wick on the threads of oneTBB.
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <memory>

#include "wick/wick.h"

namespace {

wick::Tensor trained_weight() {
  wick::manual_seed(1);
  wick::nn::Sequential model{wick::nn::Linear(64, 400), wick::nn::Tanh(), wick::nn::Dropout(0.2),
                             wick::nn::Linear(400, 10)};
  wick::optim::AdamW optimizer(model.parameters());
  const wick::Tensor x = wick::randn({256, 64}), target = wick::randint(0, 10, {256});
  for (int step = 0; step < 20; ++step) {
    optimizer.zero_grad();
    wick::cross_entropy(model(x), target).backward();
    optimizer.step();
  }
  return model.parameters()[0].detach();
}

}  // namespace

class Arena : public wick::Executor {
 public:
  explicit Arena(int threads) : arena_(threads) {}
  void run(int tasks, void (*task)(const void*, int), const void* context) override {
    ++calls;
    arena_.execute([=] { tbb::parallel_for(0, tasks, [=](int i) { task(context, i); }); });
  }
  int calls = 0;

 private:
  tbb::task_arena arena_;
};

int main() {
  const wick::Tensor on_own_threads = trained_weight();
  const auto arena = std::make_shared<Arena>(4);
  wick::set_num_threads(4);  // tasks of an operation
  wick::set_executor(arena);
  return trained_weight().equal(on_own_threads) && arena->calls > 0 ? 0 : 1;
}
