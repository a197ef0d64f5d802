#pragma once

#include <optional>

#include "wick/core/tensor.h"

namespace wick {

/// What is made of the rows of a bag.
enum class BagMode : uint8_t { kSum, kMean, kMax };

/// Options of embedding_bag(), as torch.nn.functional.embedding_bag. `offsets` are required for a
/// vector of indices, and an error for a matrix.
struct EmbeddingBagOptions {
  BagMode mode = BagMode::kMean;
  Tensor offsets = {};  // int64 or int32 [B]: where each bag begins in a vector of indices
  Tensor per_sample_weights = {};    // of indices' shape: what each row counts; for kSum alone
  bool include_last_offset = false;  // offsets [B + 1] say too where the last bag ends
  std::optional<int64_t> padding_idx = {};  // indices that count nothing and give no gradient
  bool scale_grad_by_freq = false;          // see scale_grad_by_freq(); not for kMax
};

/// The sum, mean or largest elements of the rows of `weight` [V, D] that the indices of a bag name:
/// [B, D]. indices: [B, L], a row for each bag, or a vector with `offsets`; int64 or int32. Zeros
/// for an empty bag. Made of other ops: the rows are looked up before they are added.
Tensor embedding_bag(const Tensor& weight, const Tensor& indices,
                     const EmbeddingBagOptions& options = {});

/// Scales the rows of `weight` [V, D] that `index` names, in place, so that none has a norm above
/// `max_norm`. Takes as long as copying `weight`.
void embedding_renorm_(const Tensor& weight, const Tensor& index, double max_norm,
                       double norm_type = 2);

/// `rows`, looked up by `index` in a table of `count` rows, with the gradient of each divided by
/// how often `index` names it.
Tensor scale_grad_by_freq(const Tensor& rows, const Tensor& index, int64_t count);

}  // namespace wick
