#include "wick/core/ops/attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "wick/core/apply.h"
#include "wick/core/detail/autocast.h"
#include "wick/core/memory/detail/workspace.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/detail/composed_gradient.h"
#include "wick/core/ops/detail/fused_attention.h"
#include "wick/core/ops/detail/wide.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/softmax.h"
#include "wick/core/plans.h"
#include "wick/kernels/attention.h"

namespace wick {

namespace {

constexpr double kExcluded = -std::numeric_limits<double>::infinity();

std::atomic<bool> fused_on{true};

// As the library wants it: rows of neighbours (heads split off a projection are), each aligned.
Tensor in_rows(const Tensor& x) {
  bool fits = x.strides()[3] == 1 || x.size(3) == 1;
  for (int axis = 0; axis < 3; ++axis) {
    const int64_t bytes = x.strides()[axis] * size_of(x.dtype());
    fits &=
        x.size(axis) == 1 || (bytes > 0 && bytes % static_cast<int64_t>(kAttentionAlignment) == 0);
  }
  const Tensor rows = fits ? x : x.contiguous();
  const auto address = reinterpret_cast<uintptr_t>(rows.address());
  return address % kAttentionAlignment == 0 ? rows : rows.clone();
}

Attention describe(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias,
                   const Tensor& o, const Tensor& stats, double scale, bool is_causal) {
  return {q.view_for_kernel(),
          k.view_for_kernel(),
          v.view_for_kernel(),
          o.view_for_kernel(),
          stats.view_for_kernel(),
          static_cast<float>(scale),
          bias.defined() ? bias.view_for_kernel() : View{},
          is_causal};
}

// One direction of it, as the table of plans sees it. `gradients`: null forward.
class PlannedAttention final : public PlannedProblem {
 public:
  PlannedAttention(const Attention& a, const AttentionGradients* gradients)
      : a_(a), gradients_(gradients) {}

  Device device() const override { return a_.q.device; }
  Dtype dtype() const override { return a_.q.dtype; }
  PlanKey key() const override { return plan_key(a_, direction()); }
  std::string words() const override {
    return concat(
        gradients_ == nullptr ? "attention_forward " : "attention_backward ", to_string(dtype()),
        " q=", in_words(a_.q.shape), " k=", in_words(a_.k.shape), " v=", in_words(a_.v.shape),
        a_.bias.defined() ? " bias=" + in_words(a_.bias.shape) : "", a_.is_causal ? " causal" : "");
  }
  std::vector<Candidate> candidates() const override {
    std::vector<std::string> engines;
    WICK_CALL_CUDA_INTO(engines, attention_engines(a_, direction()));
    return library_candidates(engines);
  }
  void run([[maybe_unused]] int candidate) const override {
    AllocatorWorkspace workspace(device());
    if (gradients_ == nullptr) {
      WICK_CALL_CUDA(attention_forward(a_, candidate, workspace));
    } else {
      WICK_CALL_CUDA(attention_backward(a_, *gradients_, candidate, workspace));
    }
  }

 private:
  AttentionDirection direction() const {
    return gradients_ == nullptr ? AttentionDirection::kForward : AttentionDirection::kBackward;
  }

  const Attention& a_;
  const AttentionGradients* gradients_;
};

void run_planned(const Attention& a, const AttentionGradients* gradients = nullptr) {
  const PlannedAttention problem(a, gradients);
  problem.run(planned_candidate(problem));
}

// `x`, whose heads are those of key or value, with as many heads as query.
Tensor with_heads(const Tensor& x, int64_t heads) {
  const int64_t own = x.size(-3);
  if (own == heads) return x;
  Shape wide = x.shape();
  wide.insert(x.rank() - 2, heads / own);
  return x.unsqueeze(-3).expand(wide).flatten(-4, -3);
}

// Of 16-bit operands in float32. Autocast makes all operands 16-bit.
Tensor composed_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                          const Tensor& mask, AttentionSettings settings) {
  static constexpr OpInfo info{.name = "scaled_dot_product_attention",
                               .autocast = {.cuda = Autocast::kLower, .cpu = Autocast::kLower}};
  const std::array<Tensor, 3> given{query, key, value};
  std::vector<Tensor> cast;
  const std::span<const Tensor> operands = amp::cast_inputs(info, given, cast);
  for (const Tensor& x : operands) {
    WICK_CHECK(x.dtype() == operands[0].dtype(), info.name, ": dtypes differ: got ",
               to_string(operands[0].dtype()), " and ", to_string(x.dtype()));
  }
  settings.is_bfloat16 = std::all_of(operands.begin(), operands.end(),
                                     [](const Tensor& x) { return x.dtype() == kBFloat16; });
  if (settings.is_bfloat16) {
    const amp::Pause pause;
    const Tensor y = fused_attention(operands[0], operands[1], operands[2], mask, settings);
    if (y.defined()) return y;
  }
  return computed_wide({operands.begin(), operands.end()}, [&](const std::vector<Tensor>& in) {
    const Tensor y = fused_attention(in[0], in[1], in[2], mask, settings);
    return y.defined() ? y : attention_of_ops(in[0], in[1], in[2], mask, settings);
  });
}

// dq, dk and dv.
struct LibraryAttentionBackward {
  static constexpr OpInfo info{
      .name = "library_attention_backward", .differentiable = false, .is_gradient = true};
  double scale;
  bool is_causal;
  static constexpr auto fields =
      std::tuple{field("scale", &LibraryAttentionBackward::scale),
                 field("is_causal", &LibraryAttentionBackward::is_causal)};

  std::array<Tensor, 3> forward(Saved&, const Tensor& dy, const Tensor& q, const Tensor& k,
                                const Tensor& v, const Tensor& bias, const Tensor& o,
                                const Tensor& stats) const {
    const auto like = [](const Tensor& x) { return empty(x.shape(), x.dtype(), x.device()); };
    const std::array<Tensor, 3> out{like(q), like(k), like(v)};
    const Tensor d_o = in_rows(dy.contiguous());
    const AttentionGradients gradients{d_o.view_for_kernel(), out[0].view_for_kernel(),
                                       out[1].view_for_kernel(), out[2].view_for_kernel()};
    run_planned(describe(q, k, v, bias, o, stats, scale, is_causal), &gradients);
    return out;
  }
};

// `bias`: as kernels/attention.h says; without a gradient.
struct LibraryAttention {
  static constexpr OpInfo info{.name = "library_attention"};
  double scale;
  bool is_causal;
  static constexpr auto fields = std::tuple{field("scale", &LibraryAttention::scale),
                                            field("is_causal", &LibraryAttention::is_causal)};

  Tensor forward(Saved& saved, const Tensor& q, const Tensor& k, const Tensor& v,
                 const Tensor& bias) const {
    const Tensor o = empty({q.size(0), q.size(1), q.size(2), v.size(3)}, q.dtype(), q.device());
    const Tensor stats = empty({q.size(0), q.size(1), q.size(2), 1}, kFloat32, q.device());
    run_planned(describe(q, k, v, bias, o, stats, scale, is_causal));
    saved.save(q, k, v, bias, o, stats);
    return o;
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    if (grad_enabled()) {
      return composed_gradients(saved, {saved[0], saved[1], saved[2], saved[3]}, dy,
                                [&](const std::vector<Tensor>& in) {
                                  return attention_of_ops(in[0], in[1], in[2], in[3],
                                                          {.scale = scale, .is_causal = is_causal});
                                });
    }
    const auto found = apply(LibraryAttentionBackward{scale, is_causal}, dy, saved[0], saved[1],
                             saved[2], saved[3], saved[4], saved[5]);
    return {found[0], found[1], found[2], Tensor()};
  }
};

// The shape of the bias (kernels/attention.h) that a mask of the scores `shape` can be, if any.
std::optional<Shape> bias_shape(const Tensor& mask, const Shape& shape, const Tensor& query) {
  if (mask.rank() > 4 || mask.device() != query.device()) return std::nullopt;
  if (grad_enabled() && mask.requires_grad()) return std::nullopt;
  Shape sizes = Shape::filled(4, 1);
  for (int axis = 0; axis < mask.rank(); ++axis) {
    sizes[4 - mask.rank() + axis] = mask.size(axis);
  }
  for (int axis = 0; axis < 4; ++axis) {
    if (sizes[axis] != 1 && sizes[axis] != shape[axis]) return std::nullopt;
  }
  sizes[2] = shape[2];
  sizes[3] = shape[3];
  return sizes;
}

// What is added to scores: broadcasts with them, and has their last axis.
Tensor as_additive(const Tensor& mask, const Tensor& query) {
  const Tensor added = mask.dtype() == kBool
                           ? masked_fill(zeros(mask.shape(), query.dtype(), mask.device()),
                                         logical_not(mask), kExcluded)
                           : mask.to(query.dtype());
  return added.rank() == 0 ? added.reshape({1}) : added;
}

// All axes but the last two, where key and value have as many heads as query.
Shape leading(const Tensor& x, int64_t heads) {
  Shape axes;
  for (int axis = 0; axis + 2 < x.rank(); ++axis) axes.push_back(x.size(axis));
  if (heads >= 0) axes[axes.rank() - 1] = heads;
  return axes;
}

// Error unless leading axes broadcast to each other, and the mask to the scores.
void check_shapes(const char* op, const Tensor& query, const Tensor& key, const Tensor& value,
                  const Tensor& mask, bool enable_gqa) {
  const int64_t heads = enable_gqa ? query.size(-3) : -1;
  Shape scores = broadcast_shapes(op, leading(query, -1),
                                  broadcast_shapes(op, leading(key, heads), leading(value, heads)));
  scores.push_back(query.size(-2));
  scores.push_back(key.size(-2));
  if (!mask.defined()) return;
  WICK_CHECK(mask.dtype() == kBool || is_floating(mask.dtype()), op, ": attn_mask: got ",
             to_string(mask.dtype()), ", expected bool or a floating dtype");
  bool fits = mask.rank() <= scores.rank();
  for (int axis = 1; fits && axis <= mask.rank(); ++axis) {
    fits = mask.size(-axis) == 1 || mask.size(-axis) == scores[scores.rank() - axis];
  }
  WICK_CHECK(fits, op, ": attn_mask does not broadcast to the scores: got ", mask.shape(),
             ", expected ", scores);
}

// What a library is asked about: it reads no element.
View layout_of(const Tensor& x) {
  return {x.address(), x.dtype(), x.device(), x.shape(), x.strides()};
}

// The library's answer, or nothing where it has none.
Tensor library_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                         const Tensor& mask, const AttentionSettings& how) {
  if (how.dropout_p > 0 || how.enable_gqa || !fused_attention_enabled() ||
      !query.device().is_cuda())
    return {};
  for (const Tensor* x : {&query, &key, &value}) {
    if (x->rank() != 4 || size_of(x->dtype()) != 2 || x->dtype() != query.dtype() ||
        x->size(0) != query.size(0) || x->size(1) != query.size(1) || x->numel() == 0) {
      return {};
    }
  }
  std::optional<Shape> bias;
  if (mask.defined()) {
    bias = bias_shape(mask, {query.size(0), query.size(1), query.size(2), key.size(2)}, query);
    if (!bias) return {};
  }
  const Tensor q = in_rows(query), k = in_rows(key), v = in_rows(value);
  Attention wanted;
  wanted.q = layout_of(q);
  wanted.k = layout_of(k);
  wanted.v = layout_of(v);
  wanted.o = wanted.q;
  wanted.o.shape = {q.size(0), q.size(1), q.size(2), v.size(3)};
  wanted.o.strides = contiguous_strides(wanted.o.shape);
  if (bias) {  // before it is made: whether the library takes it depends on no data
    wanted.bias = wanted.q;
    wanted.bias.shape = *bias;
    wanted.bias.strides = contiguous_strides(*bias);
  }
  wanted.is_causal = how.is_causal;
  bool has = false;
  WICK_CALL_CUDA_INTO(has, has_attention(wanted));
  if (!has) return {};
  const LibraryAttention op{how.scale, how.is_causal};
  if (!bias) return apply(op, q, k, v, Tensor());
  // Rows whose keys are all excluded are computed as if none were, and are 0: the library's would
  // be NaN, and so would the gradients of all rows. A mask of keys is one row until the last.
  const Tensor added = as_additive(mask, query);
  const Tensor none = all(eq(added, kExcluded), {-1}, true);
  const Tensor rows = in_rows(masked_fill(added, none, 0).expand(*bias).contiguous());
  return masked_fill(apply(op, q, k, v, rows), none, 0);
}

}  // namespace

Tensor attention_of_ops(const Tensor& query, const Tensor& given_key, const Tensor& given_value,
                        const Tensor& mask, const AttentionSettings& settings) {
  const bool grouped = settings.enable_gqa;
  const Tensor key = grouped ? with_heads(given_key, query.size(-3)) : given_key;
  const Tensor value = grouped ? with_heads(given_value, query.size(-3)) : given_value;
  Tensor scores = matmul(query * settings.scale, key.transpose(-2, -1));
  if (settings.is_causal) {
    const Device device = query.device();
    const Tensor positions = arange(0, query.size(-2), 1, kInt64, device).unsqueeze(1);
    scores =
        masked_fill(scores, gt(arange(0, key.size(-2), 1, kInt64, device), positions), kExcluded);
  } else if (mask.defined() && mask.dtype() == kBool) {
    scores = masked_fill(scores, logical_not(mask), kExcluded);
  } else if (mask.defined()) {
    scores = scores + mask.to(scores.dtype());
  }
  Tensor weights;
  if (mask.defined()) {
    // Rows whose keys are all excluded are 0, and so are their gradients.
    const Tensor none = all(eq(scores, kExcluded), {-1}, true);
    weights = masked_fill(softmax(masked_fill(scores, none, 0), -1), none, 0);
  } else {
    weights = softmax(scores, -1);
  }
  if (settings.dropout_p > 0) {
    weights = dropout(weights, settings.dropout_p, true, settings.generator);
  }
  return matmul(weights, value);
}

bool fused_attention_enabled() { return fused_on.load(std::memory_order_relaxed); }
void set_fused_attention(bool on) { fused_on.store(on, std::memory_order_relaxed); }

Tensor scaled_dot_product_attention(const Tensor& given_query, const Tensor& given_key,
                                    const Tensor& given_value, const Tensor& given_mask,
                                    double dropout_p, bool is_causal, std::optional<double> scale,
                                    bool enable_gqa, Generator* generator) {
  const char* op = "scaled_dot_product_attention";
  // All at once, and before the library is asked, which has no other dtypes.
  const OpInfo as_one{.name = op, .autocast = {.cuda = Autocast::kLower}};
  const std::array<Tensor, 4> given{given_query, given_key, given_value, given_mask};
  std::vector<Tensor> cast;
  const std::span<const Tensor> inputs = amp::cast_inputs(as_one, given, cast);
  const Tensor &query = inputs[0], &key = inputs[1], &value = inputs[2], &attn_mask = inputs[3];
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
  if (enable_gqa) {
    WICK_CHECK(query.rank() >= 3 && key.rank() >= 3 && value.rank() >= 3, op,
               ": enable_gqa: needs an axis of heads: got shapes ", query.shape(), ", ",
               key.shape(), " and ", value.shape());
    const int64_t heads = query.size(-3);
    for (const Tensor* x : {&key, &value}) {
      const int64_t own = x->size(-3);
      WICK_CHECK(own > 0 && heads % own == 0, op, ": enable_gqa: heads of key or value, ", own,
                 ", do not divide those of query: got ", heads);
    }
  }
  check_shapes(op, query, key, value, attn_mask, enable_gqa);
  const AttentionSettings settings{
      .scale = scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1)))),
      .is_causal = is_causal,
      .dropout_p = dropout_p,
      .generator = generator,
      .enable_gqa = enable_gqa};
  const bool expands = enable_gqa && query.device().is_cuda();  // the library has no such heads
  const Tensor y =
      library_attention(query, expands ? with_heads(key, query.size(-3)) : key,
                        expands ? with_heads(value, query.size(-3)) : value, attn_mask, settings);
  return y.defined() ? y : composed_attention(query, key, value, attn_mask, settings);
}

}  // namespace wick
