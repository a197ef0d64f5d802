#pragma once

#include <optional>

#include "wick/core/ops/unfold.h"
#include "wick/core/ops/view.h"
#include "wick/nn/module.h"

namespace wick::nn {

/// Options of Linear and Bilinear.
struct LinearOptions {
  bool bias = true;
};

/// y = x W^T + b for x [..., in_features]; y is [..., out_features].
class Linear : public Module {
 public:
  Linear(int64_t in_features, int64_t out_features, const LinearOptions& options = {});
  Tensor forward(const Tensor& x) override;
  /// relu(forward(x)) in one pass.
  Tensor forward_relu(const Tensor& x);
  /// gelu(forward(x), GeluApproximation::kTanh) in one pass.
  Tensor forward_gelu_tanh(const Tensor& x);
  std::string description() const override;

  Parameter weight;  // [out_features, in_features]
  Parameter bias;    // [out_features], or undefined
};

/// y[..., o] = x1 W[o] x2^T + b[o] for x1 [..., in1_features] and x2 [..., in2_features].
class Bilinear : public Module {
 public:
  Bilinear(int64_t in1_features, int64_t in2_features, int64_t out_features,
           const LinearOptions& options = {});
  using Module::forward;
  Tensor forward(const Tensor& x1, const Tensor& x2);  // [..., out_features]
  Tensor operator()(const Tensor& x1, const Tensor& x2) {
    ForwardScope scope(*this);
    return scope.made(forward(x1, x2));
  }

  Parameter weight;  // [out_features, in1_features, in2_features]
  Parameter bias;    // [out_features], or undefined
};

/// Options of Embedding, named as those of torch.nn.Embedding. A negative `padding_idx` counts from
/// the table's end. `norm_type` is the p of the norm that `max_norm` limits.
struct EmbeddingOptions {
  std::optional<int64_t> padding_idx = {};  // a row that starts as zeros and gets no gradient
  std::optional<double> max_norm = {};      // rows that are used are scaled down to this norm
  double norm_type = 2;
  bool scale_grad_by_freq = false;  // a row's gradient is over how often the batch uses the row
  /// The gradient of `weight` holds only the rows that were read: for large tables, with
  /// SparseAdam, or SGD or Adagrad.
  bool sparse = false;
};

/// Rows of a table: indices [...] (int64) give [..., embedding_dim].
class Embedding : public Module {
 public:
  Embedding(int64_t num_embeddings, int64_t embedding_dim, const EmbeddingOptions& options = {});
  Tensor forward(const Tensor& indices) override;
  std::string description() const override;

  Parameter weight;  // [num_embeddings, embedding_dim]

 private:
  EmbeddingOptions options_;
};

/// Joins axes `start_axis` to `end_axis` into one.
class Flatten : public Module {
 public:
  explicit Flatten(int64_t start_axis = 1, int64_t end_axis = -1)
      : start_axis_(start_axis), end_axis_(end_axis) {}
  Tensor forward(const Tensor& x) override { return x.flatten(start_axis_, end_axis_); }

 private:
  int64_t start_axis_, end_axis_;
};

/// Cuts `axis` into axes of `sizes`, one of which may be -1.
class Unflatten : public Module {
 public:
  Unflatten(int64_t axis, const Shape& sizes) : axis_(axis), sizes_(sizes) {}
  Tensor forward(const Tensor& x) override { return x.unflatten(axis_, sizes_); }

 private:
  int64_t axis_;
  Shape sizes_;
};

/// channel_shuffle of x [N, C, ...].
class ChannelShuffle : public Module {
 public:
  explicit ChannelShuffle(int64_t groups) : groups_(groups) {}
  Tensor forward(const Tensor& x) override { return channel_shuffle(x, groups_); }

 private:
  int64_t groups_;
};

/// pixel_shuffle: [..., C r^2, H, W] -> [..., C, H r, W r].
class PixelShuffle : public Module {
 public:
  explicit PixelShuffle(int64_t upscale_factor) : factor_(upscale_factor) {}
  Tensor forward(const Tensor& x) override { return pixel_shuffle(x, factor_); }

 private:
  int64_t factor_;
};

/// pixel_unshuffle: [N, C, H r, W r] -> [N, C r^2, H, W].
class PixelUnshuffle : public Module {
 public:
  explicit PixelUnshuffle(int64_t downscale_factor) : factor_(downscale_factor) {}
  Tensor forward(const Tensor& x) override { return pixel_unshuffle(x, factor_); }

 private:
  int64_t factor_;
};

/// unfold: the windows of images that a convolution sees, [N, C, H, W] -> [N, C kh kw, L].
class Unfold : public Module {
 public:
  explicit Unfold(const Shape& kernel_size, const UnfoldOptions& options = {})
      : kernel_size_(kernel_size), options_(options) {}
  Tensor forward(const Tensor& x) override { return unfold(x, kernel_size_, options_); }

 private:
  Shape kernel_size_;
  UnfoldOptions options_;
};

/// fold: the sum of windows at their places, [N, C kh kw, L] -> [N, C, output_size].
class Fold : public Module {
 public:
  Fold(const Shape& output_size, const Shape& kernel_size, const UnfoldOptions& options = {})
      : output_size_(output_size), kernel_size_(kernel_size), options_(options) {}
  Tensor forward(const Tensor& x) override { return fold(x, output_size_, kernel_size_, options_); }

 private:
  Shape output_size_, kernel_size_;
  UnfoldOptions options_;
};

/// Passes its input on.
class Identity : public Module {
 public:
  Tensor forward(const Tensor& x) override { return x; }
};

/// What modules of dropout hold. Numbers are from `generator`, which must outlive the module, by
/// default from that of the input's device.
class DropoutModule : public Module {
 public:
  double p() const { return p_; }  // the probability that an element or a channel is dropped
  std::string description() const override { return concat(name_, "(p=", p_, ")"); }

 protected:
  DropoutModule(const char* name, double p, Generator* generator);
  Generator* generator() const { return generator_; }  // null: that of the input's device

 private:
  const char* name_;
  double p_;
  Generator* generator_;
};

/// In training, zeroes each element with probability p and scales the others by 1 / (1 - p)
/// (Srivastava et al. 2014).
class Dropout : public DropoutModule {
 public:
  explicit Dropout(double p = 0.5, Generator* generator = nullptr);
  Tensor forward(const Tensor& x) override;
};

/// Dropout of whole channels of x [N, C, L] or [C, L].
class Dropout1d : public DropoutModule {
 public:
  explicit Dropout1d(double p = 0.5, Generator* generator = nullptr);
  Tensor forward(const Tensor& x) override;
};

/// Dropout of whole channels of x [N, C, ...].
class Dropout2d : public DropoutModule {
 public:
  explicit Dropout2d(double p = 0.5, Generator* generator = nullptr);
  Tensor forward(const Tensor& x) override;
};

/// Dropout of whole channels of x [N, C, D, H, W] or [C, D, H, W].
class Dropout3d : public DropoutModule {
 public:
  explicit Dropout3d(double p = 0.5, Generator* generator = nullptr);
  Tensor forward(const Tensor& x) override;
};

/// alpha_dropout in training, for networks with SELU (Klambauer et al. 2017).
class AlphaDropout : public DropoutModule {
 public:
  explicit AlphaDropout(double p = 0.5, Generator* generator = nullptr);
  Tensor forward(const Tensor& x) override;
};

/// alpha_dropout of whole channels of x [N, C, ...].
class FeatureAlphaDropout : public DropoutModule {
 public:
  explicit FeatureAlphaDropout(double p = 0.5, Generator* generator = nullptr);
  Tensor forward(const Tensor& x) override;
};

}  // namespace wick::nn
