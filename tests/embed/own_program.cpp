#include "wick/program.h"
#include "wick/wick.h"

using namespace wick;

// Rows of 6 numbers: is the first half's sum the larger one?
data::TrainTest open_halves(const std::string&) {
  const auto rows = [](int64_t count, uint64_t seed) {
    Generator generator(seed);
    const Tensor x = randn({count, 6}, kFloat32, kCpu, &generator);
    const Tensor y = x.slice(1, 0, 3).sum(1) > x.slice(1, 3, 6).sum(1);
    return std::make_shared<data::TensorDataset>(std::vector<Tensor>{x, y.to(kInt64)});
  };
  return {.train = rows(1000, 1),
          .test = rows(200, 2),
          .class_names = {"second", "first"},
          .images = false};
}

std::shared_ptr<nn::Module> make_perceptron(const Shape& sample, int64_t classes) {
  return std::make_shared<nn::Sequential>(nn::Linear(sample[0], 16), nn::ReLU(),
                                          nn::Linear(16, classes));
}

int main(int argc, char** argv) {
  data::register_data({.name = "halves", .needs_files = false, .open = open_halves});
  nn::register_model({.name = "perceptron",
                      .summary = "one hidden layer",
                      .lr = 0.01,
                      .weight_decay = 0.01,
                      .batch_size = 50,
                      .make = make_perceptron});
  return program(argc, argv);
}
