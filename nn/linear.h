#pragma once

#include <optional>

#include "wick/core/ops/view.h"
#include "wick/nn/module.h"

namespace wick::nn {

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

struct EmbeddingOptions {
  std::optional<int64_t> padding_idx = {};  // a row that starts as zeros and gets no gradient
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
  std::optional<int64_t> padding_idx_;
  bool sparse_;
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

/// pixel_shuffle: [N, C r^2, H, W] -> [N, C, H r, W r].
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

/// Passes its input on.
class Identity : public Module {
 public:
  Tensor forward(const Tensor& x) override { return x; }
};

/// In training, zeroes each element with probability p and scales the others by 1 / (1 - p)
/// (Srivastava et al. 2014). Numbers are from `generator`, which must outlive the module, by
/// default from that of the input's device.
class Dropout : public Module {
 public:
  explicit Dropout(double p = 0.5, Generator* generator = nullptr);
  Tensor forward(const Tensor& x) override;
  std::string description() const override { return concat("Dropout(p=", p_, ")"); }

 private:
  double p_;
  Generator* generator_;
};

/// Dropout of whole channels of x [N, C, ...]. `generator`: as Dropout's.
class Dropout2d : public Module {
 public:
  explicit Dropout2d(double p = 0.5, Generator* generator = nullptr);
  Tensor forward(const Tensor& x) override;
  std::string description() const override { return concat("Dropout2d(p=", p_, ")"); }

 private:
  double p_;
  Generator* generator_;
};

}  // namespace wick::nn
