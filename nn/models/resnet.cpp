#include "wick/nn/models/resnet.h"

#include "wick/core/ops/join.h"
#include "wick/nn/init.h"

namespace wick::nn {

namespace {

Conv2d conv3x3(int64_t in, int64_t out, int64_t stride = 1) {
  return Conv2d(in, out, 3, {.stride = stride, .padding = 1, .bias = false});
}
Conv2d conv1x1(int64_t in, int64_t out, int64_t stride = 1) {
  return Conv2d(in, out, 1, {.stride = stride, .bias = false});
}

class BasicBlock : public Module {
 public:
  // `project`: the shortcut is a 1x1 convolution where shapes differ, else it takes every second
  // pixel and adds channels of zeros.
  BasicBlock(int64_t in, int64_t out, int64_t stride, bool project)
      : stride_(stride),
        out_channels_(out),
        conv1_(add("conv1", conv3x3(in, out, stride))),
        bn1_(add("bn1", BatchNorm2d(out))),
        conv2_(add("conv2", conv3x3(out, out))),
        bn2_(add("bn2", BatchNorm2d(out))) {
    if (project && (stride != 1 || in != out)) {
      downsample_ = add("downsample", Sequential(conv1x1(in, out, stride), BatchNorm2d(out)));
    }
  }

  Tensor forward(const Tensor& x) override {
    const Tensor y = conv2_(bn1_->forward_relu(conv1_(x)));
    return bn2_->forward_add_relu(y, shortcut(x));
  }

 private:
  Tensor shortcut(const Tensor& x) const {
    if (downsample_) return downsample_(x);
    Tensor y = x;
    if (stride_ != 1) {
      y = y.slice(2, 0, y.size(2), stride_).slice(3, 0, y.size(3), stride_);
    }
    const int64_t missing = out_channels_ - x.size(1);
    if (missing == 0) return y;
    return pad(y, {0, 0, 0, 0, missing / 2, missing - missing / 2});
  }

  int64_t stride_, out_channels_;
  Handle<Conv2d> conv1_;
  Handle<BatchNorm2d> bn1_;
  Handle<Conv2d> conv2_;
  Handle<BatchNorm2d> bn2_;
  Handle<Sequential> downsample_;
};

class Bottleneck : public Module {
 public:
  static constexpr int64_t kExpansion = 4;

  Bottleneck(int64_t in, int64_t width, int64_t stride)
      : conv1_(add("conv1", conv1x1(in, width))),
        bn1_(add("bn1", BatchNorm2d(width))),
        conv2_(add("conv2", conv3x3(width, width, stride))),
        bn2_(add("bn2", BatchNorm2d(width))),
        conv3_(add("conv3", conv1x1(width, width * kExpansion))),
        bn3_(add("bn3", BatchNorm2d(width * kExpansion))) {
    if (stride != 1 || in != width * kExpansion) {
      downsample_ = add("downsample", Sequential(conv1x1(in, width * kExpansion, stride),
                                                 BatchNorm2d(width * kExpansion)));
    }
  }

  Tensor forward(const Tensor& x) override {
    Tensor y = bn1_->forward_relu(conv1_(x));
    y = bn2_->forward_relu(conv2_(y));
    return bn3_->forward_add_relu(conv3_(y), downsample_ ? downsample_(x) : x);
  }

 private:
  Handle<Conv2d> conv1_;
  Handle<BatchNorm2d> bn1_;
  Handle<Conv2d> conv2_;
  Handle<BatchNorm2d> bn2_;
  Handle<Conv2d> conv3_;
  Handle<BatchNorm2d> bn3_;
  Handle<Sequential> downsample_;
};

// Every convolution starts from Kaiming's normal numbers over fan_out, as torchvision's do.
void init_convolutions(Module& module) {
  module.apply([](const std::string&, Module& part) {
    if (const auto* conv = dynamic_cast<Conv2d*>(&part)) {
      init::kaiming_normal_(conv->weight, 0, init::FanMode::kFanOut);
    }
  });
}

}  // namespace

ResNet::ResNet(const ResNetOptions& options) : small_input_(options.small_input) {
  const int64_t width = options.width;
  WICK_CHECK(width >= 1 && options.classes >= 1 && options.in_channels >= 1,
             "ResNet: width, classes and in_channels must be 1 or more: got ", width, ", ",
             options.classes, " and ", options.in_channels);
  if (small_input_) {
    conv1_ = add("conv1", conv3x3(options.in_channels, width));
  } else {
    conv1_ = add("conv1",
                 Conv2d(options.in_channels, width, 7, {.stride = 2, .padding = 3, .bias = false}));
  }
  bn1_ = add("bn1", BatchNorm2d(width));
  if (!small_input_) maxpool_ = add("maxpool", MaxPool2d(3, {.stride = 2, .padding = 1}));
  int64_t channels = width;
  for (size_t stage = 0; stage < 4; ++stage) {
    Sequential layer;
    for (int block = 0; block < options.blocks[stage]; ++block) {
      const int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      const int64_t out = width << stage;
      if (options.bottleneck) {
        layer.push_back(Bottleneck(channels, out, stride));
        channels = out * Bottleneck::kExpansion;
      } else {
        layer.push_back(BasicBlock(channels, out, stride, true));
        channels = out;
      }
    }
    layers_[stage] = add("layer" + std::to_string(stage + 1), std::move(layer));
  }
  avgpool_ = add("avgpool", AdaptiveAvgPool2d(1));
  fc_ = add("fc", Linear(channels, options.classes));
  init_convolutions(*this);
}

Tensor ResNet::forward(const Tensor& x) {
  Tensor y = bn1_->forward_relu(conv1_(x));
  if (!small_input_) y = maxpool_(y);
  for (const auto& layer : layers_) y = layer(y);
  return fc_(avgpool_(y).flatten(1));
}

ResNet resnet18(ResNetOptions options) {
  options.blocks = {2, 2, 2, 2};
  options.bottleneck = false;
  return ResNet(options);
}

ResNet resnet34(ResNetOptions options) {
  options.blocks = {3, 4, 6, 3};
  options.bottleneck = false;
  return ResNet(options);
}

ResNet resnet50(ResNetOptions options) {
  options.blocks = {3, 4, 6, 3};
  options.bottleneck = true;
  return ResNet(options);
}

ResNet20::ResNet20(int64_t classes, int64_t in_channels)
    : conv1_(add("conv1", conv3x3(in_channels, 16))), bn1_(add("bn1", BatchNorm2d(16))) {
  int64_t channels = 16;
  for (size_t stage = 0; stage < 3; ++stage) {
    Sequential layer;
    for (int block = 0; block < 3; ++block) {
      const int64_t out = int64_t{16} << stage;
      layer.push_back(BasicBlock(channels, out, stage > 0 && block == 0 ? 2 : 1, false));
      channels = out;
    }
    layers_[stage] = add("layer" + std::to_string(stage + 1), std::move(layer));
  }
  avgpool_ = add("avgpool", AdaptiveAvgPool2d(1));
  fc_ = add("fc", Linear(channels, classes));
  init_convolutions(*this);
}

Tensor ResNet20::forward(const Tensor& x) {
  Tensor y = bn1_->forward_relu(conv1_(x));
  for (const auto& layer : layers_) y = layer(y);
  return fc_(avgpool_(y).flatten(1));
}

}  // namespace wick::nn
