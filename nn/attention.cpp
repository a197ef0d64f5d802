#include "wick/nn/attention.h"

#include <cmath>
#include <limits>

#include "wick/core/ops/attention.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/detail/wide.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/softmax.h"
#include "wick/nn/init.h"

namespace wick::nn {

namespace {

constexpr double kExcluded = -std::numeric_limits<double>::infinity();

// What masks come to: places that are excluded, and what is added to the scores of the others.
struct Masks {
  Tensor excluded, added;

  bool empty() const { return !excluded.defined() && !added.defined(); }
  void take(const Tensor& mask) {
    if (mask.dtype() == kBool) {
      excluded = excluded.defined() ? logical_or(excluded, mask) : mask;
    } else {
      added = added.defined() ? added + mask : mask;
    }
  }
  // As scaled_dot_product_attention takes it, with `more` keys behind that nothing excludes.
  Tensor merged(Dtype dtype, int64_t more) const {
    Tensor mask;
    if (added.defined()) {
      const Tensor all = added.to(dtype);
      mask = excluded.defined() ? where(excluded, kExcluded, all) : all;
    } else if (excluded.defined()) {
      mask = logical_not(excluded);
    }
    if (!mask.defined() || more == 0) return mask;
    Shape behind = mask.shape();
    behind[mask.rank() - 1] = more;
    return cat({mask, full(behind, mask.dtype() == kBool ? 1 : 0, mask.dtype(), mask.device())},
               -1);
  }
};

void check_mask(const char* name, const Tensor& mask, const Tensor& query,
                const std::vector<Shape>& shapes) {
  WICK_CHECK(mask.dtype() == kBool || is_floating(mask.dtype()), "MultiheadAttention: ", name,
             ": got ", mask.dtype(), ", expected bool or a floating dtype");
  WICK_CHECK(mask.device() == query.device(), "MultiheadAttention: ", name, ": got it on ",
             mask.device(), ", expected ", query.device());
  WICK_CHECK(mask.shape() == shapes.front() || mask.shape() == shapes.back(),
             "MultiheadAttention: ", name, ": wrong shape: got ", mask.shape(), ", expected ",
             shapes.front(), shapes.size() > 1 ? concat(" or ", shapes.back()) : "");
}

// Which keys come no later than each query: bool [L, S].
Tensor seen(int64_t length, int64_t keys, Device device) {
  return le(arange(0, keys, 1, kInt64, device), arange(0, length, 1, kInt64, device).unsqueeze(1));
}

// Scores of `k` for `q`, under a mask of scaled_dot_product_attention's kind, to weights, which are
// rounded once: scores in 16 bits are too far apart for softmax.
Tensor weights_of(const Tensor& q, const Tensor& k, const Tensor& mask) {
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
  return computed_wide({q, k, mask}, [&](const std::vector<Tensor>& in) {
    const Tensor scores = matmul(in[0] * scale, in[1].transpose(-2, -1));
    if (!mask.defined()) return softmax(scores, -1);
    const Tensor masked = mask.dtype() == kBool ? masked_fill(scores, logical_not(mask), kExcluded)
                                                : scores + in[2].to(scores.dtype());
    const Tensor none = all(eq(masked, kExcluded), {-1}, true);
    return masked_fill(softmax(masked_fill(masked, none, 0), -1), none, 0);
  });
}

}  // namespace

MultiheadAttention::MultiheadAttention(int64_t embed_dim, int64_t num_heads,
                                       const MultiheadAttentionOptions& options)
    : embed_dim_(embed_dim), num_heads_(num_heads), options_(options) {
  WICK_CHECK(num_heads >= 1 && embed_dim >= 1 && embed_dim % num_heads == 0,
             "MultiheadAttention: heads must divide the width: got ", num_heads, " for ",
             embed_dim);
  const int64_t kdim = options.kdim.value_or(embed_dim), vdim = options.vdim.value_or(embed_dim);
  WICK_CHECK(kdim >= 1 && vdim >= 1, "MultiheadAttention: wrong kdim or vdim: got ", kdim, " and ",
             vdim, ", expected 1 or more");
  const auto weight = [&](const char* name, bool is_there, int64_t rows, int64_t columns) {
    return add_parameter(name, is_there ? empty({rows, columns}) : Tensor());
  };
  const bool packed = kdim == embed_dim && vdim == embed_dim;
  in_proj_weight = weight("in_proj_weight", packed, 3 * embed_dim, embed_dim);
  q_proj_weight = weight("q_proj_weight", !packed, embed_dim, embed_dim);
  k_proj_weight = weight("k_proj_weight", !packed, embed_dim, kdim);
  v_proj_weight = weight("v_proj_weight", !packed, embed_dim, vdim);
  in_proj_bias = add_parameter("in_proj_bias", options.bias ? zeros({3 * embed_dim}) : Tensor());
  out_proj = add("out_proj", Linear(embed_dim, embed_dim, {.bias = options.bias}));
  if (options.bias) init::constant_(out_proj->bias, 0);
  for (const Tensor* w : {&in_proj_weight, &q_proj_weight, &k_proj_weight, &v_proj_weight}) {
    if (w->defined()) init::xavier_uniform_(*w);
  }
  if (!options.add_bias_kv) return;
  bias_k = add_parameter("bias_k", empty({1, 1, embed_dim}));
  bias_v = add_parameter("bias_v", empty({1, 1, embed_dim}));
  init::xavier_normal_(bias_k);
  init::xavier_normal_(bias_v);
}

// Heads of queries, keys and values, [N, num_heads, L or S, features], and what they may see.
struct MultiheadAttention::Operands {
  Tensor q, k, v, mask;
  bool is_causal = false;  // beside no mask
};

MultiheadAttention::Operands MultiheadAttention::project(const Tensor& query, const Tensor& key,
                                                         const Tensor& value) const {
  if (in_proj_weight.defined() && query.is_same(key) && key.is_same(value)) {
    const std::vector<Tensor> parts = linear(query, in_proj_weight, in_proj_bias).chunk(3, -1);
    return {parts[0], parts[1], parts[2], {}};
  }
  std::vector<Tensor> weights{q_proj_weight, k_proj_weight, v_proj_weight};
  if (in_proj_weight.defined()) weights = in_proj_weight.chunk(3);
  std::vector<Tensor> biases(3);
  if (in_proj_bias.defined()) biases = in_proj_bias.chunk(3);
  return {linear(query, weights[0], biases[0]),
          linear(key, weights[1], biases[1]),
          linear(value, weights[2], biases[2]),
          {}};
}

// To [N, L or S, features].
void MultiheadAttention::put_batch_first(Operands& made, bool batched) const {
  for (Tensor* x : {&made.q, &made.k, &made.v}) {
    if (!batched) *x = x->unsqueeze(0);
    if (batched && !options_.batch_first) *x = x->transpose(0, 1);
  }
}

// Appends keys and values that are the module's own; returns how many.
int64_t MultiheadAttention::append_own(Operands& made) const {
  const Shape one{made.k.size(0), 1, embed_dim_};
  int64_t more = 0;
  const auto append = [&](const Tensor& key, const Tensor& value) {
    made.k = cat({made.k, key}, 1);
    made.v = cat({made.v, value}, 1);
    ++more;
  };
  if (bias_k.defined()) {
    append(bias_k.to(made.k.dtype()).expand(one), bias_v.to(made.v.dtype()).expand(one));
  }
  if (options_.add_zero_attn) {
    const Tensor nothing = zeros(one, made.k.dtype(), made.k.device());
    append(nothing, nothing);
  }
  return more;
}

MultiheadAttention::Operands MultiheadAttention::operands(const Tensor& query, const Tensor& key,
                                                          const Tensor& value,
                                                          const Tensor& key_padding_mask,
                                                          const Tensor& attn_mask,
                                                          bool is_causal) const {
  const bool batched = query.rank() == 3;
  const std::pair<const Tensor*, int64_t> inputs[] = {{&query, embed_dim_},
                                                      {&key, options_.kdim.value_or(embed_dim_)},
                                                      {&value, options_.vdim.value_or(embed_dim_)}};
  for (const auto& input : inputs) {
    const Tensor& x = *input.first;
    WICK_CHECK((x.rank() == 2 || batched) && x.rank() == query.rank() && x.size(-1) == input.second,
               "MultiheadAttention: wrong shape: got ", x.shape(), ", expected ",
               options_.batch_first ? "[N, L, " : "[L, N, ", input.second, "], or without N");
  }
  Operands made = project(query, key, value);
  put_batch_first(made, batched);
  const int64_t n = made.q.size(0), length = made.q.size(1), keys = made.k.size(1);
  WICK_CHECK(made.k.size(0) == n && made.v.size(0) == n && made.v.size(1) == keys,
             "MultiheadAttention: shapes of query, key and value do not match: got ", query.shape(),
             ", ", key.shape(), " and ", value.shape());
  Masks masks;
  if (key_padding_mask.defined()) {
    check_mask("key_padding_mask", key_padding_mask, query,
               {batched ? Shape{n, keys} : Shape{keys}});
    masks.take(key_padding_mask.reshape({n, 1, 1, keys}));
  }
  if (attn_mask.defined()) {
    check_mask("attn_mask", attn_mask, query, {{length, keys}, {n * num_heads_, length, keys}});
    masks.take(attn_mask.rank() == 2 ? attn_mask
                                     : attn_mask.reshape({n, num_heads_, length, keys}));
  }
  const int64_t more = append_own(made);
  made.is_causal = is_causal && masks.empty() && more == 0;
  if (is_causal && !made.is_causal) masks.take(logical_not(seen(length, keys, query.device())));
  made.mask = masks.merged(made.q.dtype(), more);
  for (Tensor* x : {&made.q, &made.k, &made.v}) {
    *x = x->reshape({n, x->size(1), num_heads_, embed_dim_ / num_heads_}).transpose(1, 2);
  }
  return made;
}

Tensor MultiheadAttention::output(const Tensor& attended, const Tensor& query) {
  const Tensor y = attended.transpose(1, 2);  // [N, L, num_heads, features]
  if (query.rank() == 3 && !options_.batch_first) {
    return out_proj(y.transpose(0, 1).reshape(query.shape()));
  }
  return out_proj(y.reshape(query.shape()));
}

Tensor MultiheadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const Tensor& key_padding_mask, const Tensor& attn_mask,
                                   bool is_causal) {
  const Operands x = operands(query, key, value, key_padding_mask, attn_mask, is_causal);
  const double dropout_p = is_training() ? options_.dropout : 0;
  return output(scaled_dot_product_attention(x.q, x.k, x.v, x.mask, dropout_p, x.is_causal, {},
                                             false, options_.generator),
                query);
}

AttentionWithWeights MultiheadAttention::forward_with_weights(
    const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& key_padding_mask,
    const Tensor& attn_mask, bool is_causal, bool average_attn_weights) {
  const Operands x = operands(query, key, value, key_padding_mask, attn_mask, is_causal);
  Tensor mask = x.mask;
  if (x.is_causal) mask = seen(x.q.size(2), x.k.size(2), query.device());
  Tensor weights =
      dropout(weights_of(x.q, x.k, mask), options_.dropout, is_training(), options_.generator);
  AttentionWithWeights result;
  ForwardScope scope(*this);
  result.output = scope.made(output(matmul(weights, x.v), query));
  if (average_attn_weights) weights = weights.mean({1});
  result.weights = query.rank() == 2 ? weights.squeeze(0) : weights;
  return result;
}

std::string MultiheadAttention::description() const {
  return concat("MultiheadAttention(", embed_dim_, ", heads=", num_heads_, ")");
}

}  // namespace wick::nn
