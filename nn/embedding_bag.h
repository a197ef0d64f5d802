#pragma once

#include "wick/core/ops/embedding_bag.h"
#include "wick/nn/module.h"

namespace wick::nn {

/// Options of EmbeddingBag, named as those of torch.nn.EmbeddingBag. With `include_last_offset`
/// offsets say where the last bag ends too. A negative `padding_idx` counts from the table's end.
struct EmbeddingBagOptions {
  BagMode mode = BagMode::kMean;
  bool include_last_offset = false;
  std::optional<int64_t> padding_idx = {};  // a row that starts as zeros and counts nothing
  std::optional<double> max_norm = {};      // rows that are used are scaled down to this norm
  double norm_type = 2;
  /// A row's gradient is over how often the batch uses the row. Not of BagMode::kMax.
  bool scale_grad_by_freq = false;
};

/// embedding_bag: the sum, mean or largest elements of rows of a table. `bag(indices)` of a matrix,
/// `bag(indices, offsets)` of a vector.
class EmbeddingBag : public Module {
 public:
  EmbeddingBag(int64_t num_embeddings, int64_t embedding_dim,
               const EmbeddingBagOptions& options = {});
  Tensor forward(const Tensor& indices) override { return forward(indices, {}); }
  Tensor forward(const Tensor& indices, const Tensor& offsets,
                 const Tensor& per_sample_weights = {});  // [bags, embedding_dim]
  using Module::operator();
  Tensor operator()(const Tensor& indices, const Tensor& offsets,
                    const Tensor& per_sample_weights = {}) {
    ForwardScope scope(*this);
    return scope.made(forward(indices, offsets, per_sample_weights));
  }
  std::string description() const override;

  Parameter weight;  // [num_embeddings, embedding_dim]

 private:
  EmbeddingBagOptions options_;
};

}  // namespace wick::nn
