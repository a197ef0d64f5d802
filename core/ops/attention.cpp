#include "wick/core/ops/attention.h"

#include <cmath>
#include <limits>

#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/softmax.h"

namespace wick {

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const Tensor& attn_mask, bool is_causal,
                                    std::optional<double> scale, double dropout_p) {
  const char* op = "scaled_dot_product_attention";
  WICK_CHECK(query.rank() >= 2 && key.rank() >= 2 && value.rank() >= 2, op,
             ": query, key and value need 2 axes or more: got shapes ", query.shape(), ", ",
             key.shape(), ", ", value.shape());
  WICK_CHECK(is_floating(query.dtype()), op, ": needs a floating dtype: got ",
             to_string(query.dtype()));
  WICK_CHECK(query.size(-1) == key.size(-1), op, ": features of query and key differ: got ",
             query.shape(), " and ", key.shape());
  WICK_CHECK(key.size(-2) == value.size(-2), op, ": lengths of key and value differ: got ",
             key.shape(), " and ", value.shape());
  WICK_CHECK(!is_causal || !attn_mask.defined(), op, ": is_causal takes no attn_mask");
  constexpr double kExcluded = -std::numeric_limits<double>::infinity();
  const double factor = scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))));

  Tensor scores = matmul(query * factor, key.transpose(-2, -1));
  if (is_causal) {
    const Device device = query.device();
    const Tensor positions = arange(0, query.size(-2), 1, kInt64, device).unsqueeze(1);
    scores =
        masked_fill(scores, gt(arange(0, key.size(-2), 1, kInt64, device), positions), kExcluded);
  } else if (attn_mask.defined() && attn_mask.dtype() == kBool) {
    scores = masked_fill(scores, logical_not(attn_mask), kExcluded);
  } else if (attn_mask.defined()) {
    scores = scores + attn_mask.to(scores.dtype());
  }
  Tensor weights = softmax(scores, -1);
  if (dropout_p > 0) weights = dropout(weights, dropout_p);
  return matmul(weights, value);
}

}  // namespace wick
