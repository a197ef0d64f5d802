#pragma once

#include <memory>
#include <vector>

#include "wick/core/core.h"
#include "wick/core/ops/random.h"
#include "wick/nn/nn.h"
#include "wick/train/train.h"

// A small run: rows of 4 numbers, of which the largest is to be found.
namespace wick::testing {

inline std::shared_ptr<data::Dataset> rows(int64_t count, uint64_t seed = 1) {
  Generator generator(seed);
  const Tensor x = randn({count, 4}, kFloat32, kCpu, &generator);
  return std::make_shared<data::TensorDataset>(std::vector<Tensor>{x, x.argmax(1)});
}

inline std::shared_ptr<nn::Sequential> small_model(Device device = kCpu) {
  manual_seed(3);
  auto model = std::make_shared<nn::Sequential>(nn::Linear(4, 16), nn::BatchNorm1d(16), nn::ReLU(),
                                                nn::Dropout(0.1), nn::Linear(16, 4));
  model->to(device);
  return model;
}

inline train::LossFunction small_loss(const std::shared_ptr<nn::Sequential>& model) {
  return [model](const data::Batch& batch) {
    const Tensor logits = (*model)(batch[0]);
    return train::BatchLoss{cross_entropy(logits, batch[1]),
                            {{"accuracy", train::count_correct(logits, batch[1])}}};
  };
}

/// A trainer with all that it trains: 10 steps per epoch. With `stop_at` it asks to stop in that
/// step.
struct SmallRun {
  explicit SmallRun(const train::TrainerOptions& options = {}, Device device = kCpu,
                    std::optional<uint64_t> loader_seed = 5, int64_t stop_at = 0)
      : model(small_model(device)),
        optimizer(
            std::make_shared<optim::AdamW>(model->parameters(), optim::AdamWOptions{.lr = 0.01})),
        trainer(model, optimizer, small_loss(model),
                {.train = rows(80),
                 .loading = {.batch_size = 8, .shuffle = true, .seed = loader_seed},
                 .test = rows(30, 2),
                 .test_loading = {.batch_size = 8},
                 .prepare =
                     [stop = options.stop, stop_at](data::Batch batch, int64_t epoch, int64_t i) {
                       if (10 * epoch + i + 1 == stop_at) stop.request();
                       return batch;
                     }},
                options) {}

  /// Parameters and buffers, one after the other.
  std::vector<double> weights() const {
    std::vector<double> all;
    for (const auto& [name, tensor] : model->state_dict()) {
      for (const double value : tensor.to(kFloat64).to(kCpu).to_vector<double>()) {
        all.push_back(value);
      }
    }
    return all;
  }

  std::shared_ptr<nn::Sequential> model;
  std::shared_ptr<optim::AdamW> optimizer;
  train::Trainer trainer;
};

}  // namespace wick::testing
