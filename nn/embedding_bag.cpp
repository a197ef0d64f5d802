#include "wick/nn/embedding_bag.h"

#include "wick/nn/init.h"

namespace wick::nn {

EmbeddingBag::EmbeddingBag(int64_t num_embeddings, int64_t embedding_dim,
                           const EmbeddingBagOptions& options)
    : options_(options) {
  WICK_CHECK(num_embeddings >= 1 && embedding_dim >= 1,
             "EmbeddingBag: sizes must be 1 or more: got ", num_embeddings, " and ", embedding_dim);
  weight = add_parameter("weight", empty({num_embeddings, embedding_dim}));
  init::normal_(weight);
  if (!options.padding_idx) return;
  WICK_CHECK(*options.padding_idx >= -num_embeddings && *options.padding_idx < num_embeddings,
             "EmbeddingBag: padding_idx: got ", *options.padding_idx, ", expected one in [",
             -num_embeddings, ", ", num_embeddings - 1, "]");
  weight.detach()[*options.padding_idx].fill_(0);
}

Tensor EmbeddingBag::forward(const Tensor& indices, const Tensor& offsets,
                             const Tensor& per_sample_weights) {
  if (options_.max_norm) {
    embedding_renorm_(weight, indices, *options_.max_norm, options_.norm_type);
  }
  return embedding_bag(weight, indices,
                       {options_.mode, offsets, per_sample_weights, options_.include_last_offset,
                        options_.padding_idx, options_.scale_grad_by_freq});
}

std::string EmbeddingBag::description() const {
  const char* mode = options_.mode == BagMode::kSum    ? "sum"
                     : options_.mode == BagMode::kMean ? "mean"
                                                       : "max";
  return concat("EmbeddingBag(", weight.size(0), ", ", weight.size(1), ", mode=", mode, ")");
}

}  // namespace wick::nn
