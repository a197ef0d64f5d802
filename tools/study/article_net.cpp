#include "wick/tools/study/article_net.h"

#include "wick/core/core.h"

namespace wick::study {

// A convolution, normalisation, and ReLU with or without an addition before.
class ArticleNet::Unit final : public nn::Module {
 public:
  Unit(int64_t in, int64_t out, int64_t stride, const ArticleNetOptions& options)
      : options_(options),
        conv_(add("conv",
                  nn::Conv2d(in, out, 3, {.stride = stride, .padding = 1, .bias = options.bias}))) {
    if (options.norm) norm_ = add("norm", nn::BatchNorm2d(out));
    nn::init::kaiming_normal_(conv_->weight, 0, nn::init::FanMode::kFanOut);
  }

  Tensor forward(const Tensor& x) override {
    const Tensor y = conv_(x);
    if (!norm_) return relu(y);
    return options_.fused ? norm_->forward_relu(y) : relu(norm_(y));
  }
  Tensor forward_add(const Tensor& x, const Tensor& residual) {
    const Tensor y = conv_(x);
    if (!norm_) return relu(y + residual);
    return options_.fused ? norm_->forward_add_relu(y, residual) : relu(norm_(y) + residual);
  }

 private:
  ArticleNetOptions options_;
  nn::Handle<nn::Conv2d> conv_;
  nn::Handle<nn::BatchNorm2d> norm_;
};

// The shortcut takes every second pixel and adds channels of zeros where shapes differ.
class ArticleNet::Block final : public nn::Module {
 public:
  Block(int64_t in, int64_t out, int64_t stride, const ArticleNetOptions& options)
      : stride_(stride),
        out_(out),
        first_(add("first", Unit(in, out, stride, options))),
        second_(add("second", Unit(out, out, 1, options))) {}

  Tensor forward(const Tensor& x) override {
    Tensor shortcut = x;
    if (stride_ != 1) {
      shortcut = x.slice(2, 0, x.size(2), stride_).slice(3, 0, x.size(3), stride_);
    }
    const int64_t missing = out_ - x.size(1);
    if (missing > 0) shortcut = pad(shortcut, {0, 0, 0, 0, missing / 2, missing - missing / 2});
    return second_->forward_add(first_(x), shortcut);
  }

 private:
  int64_t stride_, out_;
  nn::Handle<Unit> first_, second_;
};

ArticleNet::ArticleNet(const ArticleNetOptions& options)
    : stem_(add("stem", Unit(options.in_channels, 16, 1, options))) {
  int64_t channels = 16;
  for (size_t stage = 0; stage < stages_.size(); ++stage) {
    nn::Sequential blocks;
    for (int block = 0; block < 3; ++block) {
      const int64_t out = int64_t{16} << stage;
      blocks.push_back(Block(channels, out, stage > 0 && block == 0 ? 2 : 1, options));
      channels = out;
    }
    stages_[stage] = add("stage" + std::to_string(stage + 1), std::move(blocks));
  }
  pool_ = add("pool", nn::AdaptiveAvgPool2d(1));
  head_ = add("head", nn::Linear(channels, options.classes));
}

Tensor ArticleNet::forward(const Tensor& x) {
  Tensor y = stem_(x);
  for (const auto& stage : stages_) y = stage(y);
  return head_(pool_(y).flatten(1));
}

}  // namespace wick::study
