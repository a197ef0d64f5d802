#pragma once

#include <array>

#include "wick/nn/nn.h"

namespace wick::study {

struct ArticleNetOptions {
  int64_t in_channels = 3;
  int64_t classes = 10;
  bool bias = false;  // of convolutions, which normalisation takes away again
  bool norm = true;   // batch normalisation
  bool fused = true;  // normalisation, addition and ReLU in one pass
};

/// nn::ResNet20 with the choices that the articles advise for or against.
class ArticleNet final : public nn::Module {
 public:
  explicit ArticleNet(const ArticleNetOptions& options);
  Tensor forward(const Tensor& x) override;

 private:
  class Unit;
  class Block;
  nn::Handle<Unit> stem_;
  std::array<nn::Handle<nn::Sequential>, 3> stages_;
  nn::Handle<nn::AdaptiveAvgPool2d> pool_;
  nn::Handle<nn::Linear> head_;
};

}  // namespace wick::study
