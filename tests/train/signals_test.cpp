#include <gtest/gtest.h>

#include <sys/time.h>
#include <atomic>
#include <csignal>

#include "wick/nn/models/registry.h"
#include "wick/tests/train/small_run.h"

// A host program's signal handlers run on the stack of the thread that they interrupt.

namespace wick::testing {
namespace {

std::atomic<int> handled;

void overwrite_stack(int) {
  volatile char below[16384];
  for (volatile char& byte : below) byte = 0x55;
  handled.fetch_add(1, std::memory_order_relaxed);
}

void interrupt_every(int64_t microseconds) {
  const itimerval every{{0, microseconds}, {0, microseconds}};
  ASSERT_EQ(setitimer(ITIMER_REAL, &every, nullptr), 0);
}

/// The weights of a small residual network after some steps.
std::vector<std::vector<float>> trained() {
  manual_seed(4);
  const auto model = nn::find_model("resnet20").make({3, 32, 32}, 10);
  const auto optimizer =
      std::make_shared<optim::AdamW>(model->parameters(), optim::AdamWOptions{.lr = 0.01});
  const auto loss = [&](const data::Batch& batch) {
    return train::BatchLoss{cross_entropy((*model)(batch[0]), batch[1])};
  };
  Generator generator(1);
  const Tensor images = randn({64, 3, 32, 32}, kFloat32, kCpu, &generator);
  const Tensor labels = images.view({64, -1}).slice(1, 0, 10).argmax(1);
  train::Trainer trainer(
      model, optimizer, loss,
      {.train = std::make_shared<data::TensorDataset>(std::vector<Tensor>{images, labels}),
       .loading = {.batch_size = 16, .shuffle = true, .num_workers = 2, .seed = 5}},
      {.epochs = 3});
  trainer.run();
  std::vector<std::vector<float>> weights;
  for (const Tensor& parameter : model->parameters()) {
    weights.push_back(parameter.detach().to_vector<float>());
  }
  return weights;
}

TEST(Signals, AHandlerEachMillisecondChangesNoWeight) {
  const auto undisturbed = trained();
  struct sigaction action = {}, before = {};
  action.sa_handler = overwrite_stack;
  action.sa_flags = SA_RESTART;
  ASSERT_EQ(sigaction(SIGALRM, &action, &before), 0);
  interrupt_every(1000);
  const auto disturbed = trained();
  interrupt_every(0);
  sigaction(SIGALRM, &before, nullptr);
  EXPECT_GT(handled.load(), 10);
  EXPECT_EQ(disturbed, undisturbed);
}

}  // namespace
}  // namespace wick::testing
