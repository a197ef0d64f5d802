#pragma once

#include <array>

#include "wick/nn/conv.h"
#include "wick/nn/linear.h"
#include "wick/nn/norm.h"
#include "wick/nn/pool.h"

namespace wick::nn {

/// Options of ResNet; the defaults are those of ResNet-18 for ImageNet. `blocks`: how many each
/// stage has. `bottleneck`: blocks have three convolutions, and four times the channels as output.
struct ResNetOptions {
  std::array<int, 4> blocks{2, 2, 2, 2};
  bool bottleneck = false;
  int64_t classes = 1000;
  int64_t in_channels = 3;
  int64_t width = 64;        // channels of the first stage
  bool small_input = false;  // 3x3 stem of stride 1 and no pooling, for images of about 32 pixels
};

/// Residual network (He et al. 2015, arXiv 1512.03385) with torchvision's structure and parameter
/// names; input [N, in_channels, H, W], output [N, classes].
class ResNet : public Module {
 public:
  explicit ResNet(const ResNetOptions& options);
  Tensor forward(const Tensor& x) override;

 private:
  bool small_input_;
  Handle<Conv2d> conv1_;
  Handle<BatchNorm2d> bn1_;
  Handle<MaxPool2d> maxpool_;
  std::array<Handle<Sequential>, 4> layers_;
  Handle<AdaptiveAvgPool2d> avgpool_;
  Handle<Linear> fc_;
};

/// The networks of table 1 of the paper. They set `blocks` and `bottleneck`; the other options
/// hold.
ResNet resnet18(ResNetOptions options = {});
ResNet resnet34(ResNetOptions options = {});
ResNet resnet50(ResNetOptions options = {});

/// He's network of 20 layers for CIFAR: three stages of 16, 32 and 64 channels, shortcuts without
/// parameters (section 4.2 of the paper); 0.27 million parameters.
class ResNet20 : public Module {
 public:
  explicit ResNet20(int64_t classes = 10, int64_t in_channels = 3);
  Tensor forward(const Tensor& x) override;

 private:
  Handle<Conv2d> conv1_;
  Handle<BatchNorm2d> bn1_;
  std::array<Handle<Sequential>, 3> layers_;
  Handle<AdaptiveAvgPool2d> avgpool_;
  Handle<Linear> fc_;
};

}  // namespace wick::nn
