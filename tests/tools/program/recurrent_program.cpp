#include "wick/program.h"
#include "wick/wick.h"

using namespace wick;

// Reads an image row by row.
struct RowReader : nn::Module {
  nn::Handle<nn::LSTM> lstm;
  nn::Handle<nn::Linear> head;

  RowReader(int64_t width, int64_t classes)
      : lstm(add("lstm",
                 nn::LSTM(width, 48, {.num_layers = 2, .dropout = 0.1, .bidirectional = true}))),
        head(add("head", nn::Linear(96, classes))) {}
  Tensor forward(const Tensor& images) override {
    const Tensor rows = images.permute({2, 0, 1, 3}).flatten(2);  // [height, images, values]
    return head(lstm(rows).mean(0));
  }
};

int main(int argc, char** argv) {
  nn::register_model({.name = "lstm",
                      .summary = "rows of an image, one after the other",
                      .lr = 0.005,
                      .weight_decay = 0.01,
                      .batch_size = 64,
                      .make = [](const Shape& sample, int64_t classes) {
                        return std::make_shared<RowReader>(sample[0] * sample[2], classes);
                      }});
  return program(argc, argv);
}
