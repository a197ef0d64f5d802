#pragma once

#include <vector>

#include "wick/nn/conv.h"
#include "wick/nn/linear.h"
#include "wick/nn/norm.h"
#include "wick/nn/pool.h"

namespace wick::nn {

/// Size and number of the images a model is made for.
struct ImageShape {
  int64_t channels;
  int64_t height;
  int64_t width;
};

/// Layers of ReLU units on flattened images: features - hidden... - classes.
class Mlp : public Module {
 public:
  Mlp(int64_t features, const std::vector<int64_t>& hidden, int64_t classes);
  Tensor forward(const Tensor& x) override;

 private:
  std::vector<Handle<Linear>> layers_;
};

/// LeNet-5 (LeCun et al. 1998) with ReLU and max pooling: 6 and 16 channels of 5x5, then 120, 84
/// and `classes` units. For images of 28x28 (padded by 2) or larger.
class LeNet : public Module {
 public:
  explicit LeNet(const ImageShape& image, int64_t classes = 10);
  Tensor forward(const Tensor& x) override;

 private:
  Handle<Conv2d> conv1_, conv2_;
  Handle<MaxPool2d> pool_;
  Handle<Linear> fc1_, fc2_, fc3_;
};

/// Options of Vit.
struct VitOptions {
  int64_t patch = 4;      // side of a patch in pixels; error unless it divides height and width
  int64_t dim = 128;      // features of a patch
  int64_t depth = 6;      // encoder layers
  int64_t heads = 4;      // of attention; error unless they divide dim
  int64_t mlp_dim = 256;  // hidden features of an encoder layer's feed-forward part
  double dropout = 0;     // probability in the encoder layers
};

/// A small vision transformer (Dosovitskiy et al. 2020, arXiv 2010.11929), normalising before each
/// part and averaging over patches, with GELU's approximation by tanh as in the authors' code.
class Vit : public Module {
 public:
  Vit(const ImageShape& image, int64_t classes, const VitOptions& options = {});
  Tensor forward(const Tensor& x) override;

 private:
  int64_t dim_;
  Handle<Conv2d> patch_embedding_;
  Parameter position_embedding_;  // [1, patches, dim]
  Handle<Sequential> encoder_;
  Handle<LayerNorm> norm_;
  Handle<Linear> head_;
};

}  // namespace wick::nn
