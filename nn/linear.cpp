#include "wick/nn/linear.h"

#include <cmath>

#include "wick/core/ops/einsum.h"
#include "wick/core/ops/embedding_bag.h"
#include "wick/core/ops/index.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/ops/random.h"
#include "wick/nn/init.h"

namespace wick::nn {

Linear::Linear(int64_t in_features, int64_t out_features, const LinearOptions& options) {
  WICK_CHECK(in_features >= 1 && out_features >= 1, "Linear: features must be 1 or more: got ",
             in_features, " and ", out_features);
  weight = add_parameter("weight", empty({out_features, in_features}));
  bias = add_parameter("bias", options.bias ? empty({out_features}) : Tensor());
  init::linear_default_(weight, bias);
}

Tensor Linear::forward(const Tensor& x) { return linear(x, weight, bias); }

Tensor Linear::forward_relu(const Tensor& x) {
  ForwardScope scope(*this);
  return scope.made(linear(x, weight, bias, Activation::kRelu));
}

Tensor Linear::forward_gelu_tanh(const Tensor& x) {
  ForwardScope scope(*this);
  return scope.made(linear(x, weight, bias, Activation::kGeluTanh));
}

std::string Linear::description() const {
  return concat("Linear(", weight.size(1), ", ", weight.size(0),
                bias.defined() ? ")" : ", bias=false)");
}

Embedding::Embedding(int64_t num_embeddings, int64_t embedding_dim, const EmbeddingOptions& options)
    : options_(options) {
  WICK_CHECK(num_embeddings >= 1 && embedding_dim >= 1, "Embedding: sizes must be 1 or more: got ",
             num_embeddings, " and ", embedding_dim);
  weight = add_parameter("weight", empty({num_embeddings, embedding_dim}));
  init::normal_(weight);
  const std::optional<int64_t>& padding_idx = options.padding_idx;
  if (!padding_idx) return;
  WICK_CHECK(*padding_idx >= -num_embeddings && *padding_idx < num_embeddings,
             "Embedding: padding_idx: got ", *padding_idx, ", expected one in [", -num_embeddings,
             ", ", num_embeddings - 1, "]");
  weight.detach()[*padding_idx].fill_(0);
}

Tensor Embedding::forward(const Tensor& indices) {
  if (options_.max_norm) {
    embedding_renorm_(weight, indices, *options_.max_norm, options_.norm_type);
  }
  const Tensor rows = embedding(weight, indices, options_.padding_idx, options_.sparse);
  return options_.scale_grad_by_freq ? scale_grad_by_freq(rows, indices, weight.size(0)) : rows;
}

std::string Embedding::description() const {
  return concat("Embedding(", weight.size(0), ", ", weight.size(1),
                options_.padding_idx ? concat(", padding_idx=", *options_.padding_idx) : "", ")");
}

namespace {
void check_probability(const char* name, double p) {
  WICK_CHECK(p >= 0 && p <= 1, name, ": p: got ", p, ", expected a value in [0, 1]");
}
}  // namespace

DropoutModule::DropoutModule(const char* name, double p, Generator* generator)
    : name_(name), p_(p), generator_(generator) {
  check_probability(name, p);
}

Dropout::Dropout(double p, Generator* generator) : DropoutModule("Dropout", p, generator) {}

Tensor Dropout::forward(const Tensor& x) { return dropout(x, p(), is_training(), generator()); }

Dropout1d::Dropout1d(double p, Generator* generator) : DropoutModule("Dropout1d", p, generator) {}

Tensor Dropout1d::forward(const Tensor& x) { return dropout1d(x, p(), is_training(), generator()); }

Dropout2d::Dropout2d(double p, Generator* generator) : DropoutModule("Dropout2d", p, generator) {}

Tensor Dropout2d::forward(const Tensor& x) { return dropout2d(x, p(), is_training(), generator()); }

Dropout3d::Dropout3d(double p, Generator* generator) : DropoutModule("Dropout3d", p, generator) {}

Tensor Dropout3d::forward(const Tensor& x) { return dropout3d(x, p(), is_training(), generator()); }

AlphaDropout::AlphaDropout(double p, Generator* generator)
    : DropoutModule("AlphaDropout", p, generator) {}

Tensor AlphaDropout::forward(const Tensor& x) {
  return alpha_dropout(x, p(), is_training(), generator());
}

FeatureAlphaDropout::FeatureAlphaDropout(double p, Generator* generator)
    : DropoutModule("FeatureAlphaDropout", p, generator) {}

Tensor FeatureAlphaDropout::forward(const Tensor& x) {
  return feature_alpha_dropout(x, p(), is_training(), generator());
}

Bilinear::Bilinear(int64_t in1_features, int64_t in2_features, int64_t out_features,
                   const LinearOptions& options) {
  WICK_CHECK(in1_features >= 1 && in2_features >= 1 && out_features >= 1,
             "Bilinear: features must be 1 or more: got ", in1_features, ", ", in2_features,
             " and ", out_features);
  weight = add_parameter("weight", empty({out_features, in1_features, in2_features}));
  bias = add_parameter("bias", options.bias ? empty({out_features}) : Tensor());
  const double bound = 1 / std::sqrt(static_cast<double>(in1_features));
  init::uniform_(weight, -bound, bound);
  if (bias.defined()) init::uniform_(bias, -bound, bound);
}

Tensor Bilinear::forward(const Tensor& x1, const Tensor& x2) {
  return bilinear(x1, x2, weight, bias);
}

}  // namespace wick::nn
