#include <cstdio>
#include <span>

#include "wick/wick.h"

using namespace wick;

// Sentences of 12 words out of 50: words 0 to 24 are kind, the others are not. Is a sentence kind?
struct Sentences final : data::Dataset {
  int64_t count;
  std::vector<data::Field> parts = {{Shape{12}, kInt64}, {Shape{}, kInt64}};

  explicit Sentences(int64_t number) : count(number) {}
  int64_t size() const override { return count; }
  const std::vector<data::Field>& fields() const override { return parts; }
  void read(int64_t index, PhiloxStream, std::span<void* const> out) const override {
    auto* words = static_cast<int64_t*>(out[0]);
    int64_t kind = 0;
    for (int64_t i = 0; i < 12; ++i) {
      words[i] = (index * 7919 + i * i * 104729 + index * i) % 50;
      kind += words[i] < 25 ? 1 : -1;
    }
    *static_cast<int64_t*>(out[1]) = kind > 0;
  }
};

struct Classifier : nn::Module {
  nn::Handle<nn::Embedding> words = add("words", nn::Embedding(50, 32));
  nn::Handle<nn::Dropout> dropout = add("dropout", nn::Dropout(0.1));
  nn::Handle<nn::Linear> head = add("head", nn::Linear(32, 2));
  Tensor forward(const Tensor& x) override { return head(dropout(words(x).mean(1))); }
};

int main(int, char** argv) {
  manual_seed(1);
  auto model = std::make_shared<Classifier>();
  auto optimizer =
      std::make_shared<optim::AdamW>(model->parameters(), optim::AdamWOptions{.lr = 0.01});
  const auto loss = [&](const data::Batch& batch) {
    const Tensor logits = (*model)(batch[0]);
    return train::BatchLoss{cross_entropy(logits, batch[1]),
                            {{"accuracy", train::count_correct(logits, batch[1])}}};
  };
  train::TrainerOptions options{.epochs = 8};
  options.step = {.autocast = kBFloat16, .accumulate = 2, .ema = 0.9};
  options.schedule.name = "onecycle";
  options.folder = argv[1];
  options.checkpoint_every = 5;
  options.ranks = train::Ranks::join();
  train::Trainer trainer(model, optimizer, loss,
                         {.train = std::make_shared<Sentences>(2000),
                          .loading = {.batch_size = 50, .shuffle = true},
                          .test = std::make_shared<Sentences>(2500),
                          .test_loading = {.batch_size = 100}},
                         options);
  trainer.resume();
  trainer.run();
  std::printf("accuracy %.3f\n", *train::find(trainer.evaluation()->means, "accuracy"));
}
