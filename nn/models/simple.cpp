#include "wick/nn/models/simple.h"

#include "wick/core/ops/activation.h"
#include "wick/core/ops/elementwise.h"
#include "wick/nn/init.h"
#include "wick/nn/transformer.h"

namespace wick::nn {

Mlp::Mlp(int64_t features, const std::vector<int64_t>& hidden, int64_t classes) {
  int64_t in = features;
  std::vector<int64_t> sizes = hidden;
  sizes.push_back(classes);
  for (const int64_t out : sizes) {
    layers_.push_back(add("fc" + std::to_string(layers_.size() + 1), Linear(in, out)));
    in = out;
  }
}

Tensor Mlp::forward(const Tensor& x) {
  Tensor y = x.flatten(1);
  for (size_t i = 0; i < layers_.size(); ++i) {
    y = i + 1 < layers_.size() ? layers_[i]->forward_relu(y) : layers_[i](y);
  }
  return y;
}

LeNet::LeNet(const ImageShape& image, int64_t classes) {
  const int64_t padding = image.height <= 28 || image.width <= 28 ? 2 : 0;
  const auto after = [&](int64_t size) { return ((size + 2 * padding - 4) / 2 - 4) / 2; };
  const int64_t h = after(image.height), w = after(image.width);
  WICK_CHECK(h >= 1 && w >= 1, "LeNet: images are too small: got ", image.height, " by ",
             image.width);
  conv1_ = add("conv1", Conv2d(image.channels, 6, 5, {.padding = padding}));
  conv2_ = add("conv2", Conv2d(6, 16, 5));
  pool_ = add("pool", MaxPool2d(2));
  fc1_ = add("fc1", Linear(16 * h * w, 120));
  fc2_ = add("fc2", Linear(120, 84));
  fc3_ = add("fc3", Linear(84, classes));
}

Tensor LeNet::forward(const Tensor& x) {
  Tensor y = pool_(relu(conv1_(x)));
  y = pool_(relu(conv2_(y)));
  y = fc1_->forward_relu(y.flatten(1));
  return fc3_(fc2_->forward_relu(y));
}

Vit::Vit(const ImageShape& image, int64_t classes, const VitOptions& options) : dim_(options.dim) {
  WICK_CHECK(image.height % options.patch == 0 && image.width % options.patch == 0,
             "Vit: patches of ", options.patch, " do not divide images of ", image.height, " by ",
             image.width);
  const int64_t patches = (image.height / options.patch) * (image.width / options.patch);
  patch_embedding_ = add("patch_embedding",
                         Conv2d(image.channels, dim_, options.patch, {.stride = options.patch}));
  position_embedding_ = add_parameter("position_embedding", empty({1, patches, dim_}));
  Sequential encoder;
  for (int64_t i = 0; i < options.depth; ++i) {
    encoder.push_back(TransformerEncoderLayer(dim_, options.heads,
                                              {.dim_feedforward = options.mlp_dim,
                                               .dropout = options.dropout,
                                               .activation = FeedForwardActivation::kGeluTanh,
                                               .batch_first = true,
                                               .norm_first = true}));
  }
  encoder_ = add("encoder", std::move(encoder));
  norm_ = add("norm", LayerNorm({dim_}));
  head_ = add("head", Linear(dim_, classes));
  init::trunc_normal_(position_embedding_, 0, 0.02);
}

Tensor Vit::forward(const Tensor& x) {
  Tensor y = patch_embedding_(x);    // [N, dim, H / patch, W / patch]
  y = y.flatten(2).transpose(1, 2);  // [N, patches, dim]
  y = encoder_(y + position_embedding_);
  return head_(norm_(y).mean({1}));
}

}  // namespace wick::nn
