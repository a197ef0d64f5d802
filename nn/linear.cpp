#include "wick/nn/linear.h"

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
    : padding_idx_(options.padding_idx), sparse_(options.sparse) {
  WICK_CHECK(num_embeddings >= 1 && embedding_dim >= 1, "Embedding: sizes must be 1 or more: got ",
             num_embeddings, " and ", embedding_dim);
  weight = add_parameter("weight", empty({num_embeddings, embedding_dim}));
  init::normal_(weight);
  if (!padding_idx_) return;
  WICK_CHECK(*padding_idx_ >= -num_embeddings && *padding_idx_ < num_embeddings,
             "Embedding: padding_idx: got ", *padding_idx_, ", expected one in [", -num_embeddings,
             ", ", num_embeddings - 1, "]");
  weight.detach()[*padding_idx_].fill_(0);
}

Tensor Embedding::forward(const Tensor& indices) {
  return embedding(weight, indices, padding_idx_, sparse_);
}

std::string Embedding::description() const {
  return concat("Embedding(", weight.size(0), ", ", weight.size(1),
                padding_idx_ ? concat(", padding_idx=", *padding_idx_) : "", ")");
}

namespace {
void check_probability(const char* name, double p) {
  WICK_CHECK(p >= 0 && p <= 1, name, ": p: got ", p, ", expected a value in [0, 1]");
}
}  // namespace

Dropout::Dropout(double p, Generator* generator) : p_(p), generator_(generator) {
  check_probability("Dropout", p);
}

Tensor Dropout::forward(const Tensor& x) { return dropout(x, p_, is_training(), generator_); }

Dropout2d::Dropout2d(double p, Generator* generator) : p_(p), generator_(generator) {
  check_probability("Dropout2d", p);
}

Tensor Dropout2d::forward(const Tensor& x) { return dropout2d(x, p_, is_training(), generator_); }

}  // namespace wick::nn
