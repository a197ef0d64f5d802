#include <cstdio>
#include "wick/wick.h"

using namespace wick;

int main() {
  const Tensor x = randn({512, 20});
  const Tensor y = (x.sum(1) > 0).to(kInt64);  // is the sum of a row positive?
  nn::Sequential model{nn::Linear(20, 64), nn::ReLU(), nn::Linear(64, 2)};
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
  for (int step = 0; step < 100; ++step) {
    optimizer.zero_grad();
    cross_entropy(model(x), y).backward();
    optimizer.step();
  }
  const double accuracy = (model(x).argmax(1) == y).to(kFloat32).mean().item();
  std::printf("accuracy %.3f\n", accuracy);
  return accuracy > 0.9 ? 0 : 1;
}
