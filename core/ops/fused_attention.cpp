#include "wick/core/ops/detail/fused_attention.h"

#include <algorithm>
#include <cmath>

#include "wick/core/apply.h"
#include "wick/core/autograd.h"
#include "wick/core/memory/detail/workspace.h"
#include "wick/core/ops/attention.h"
#include "wick/core/ops/detail/composed_gradient.h"
#include "wick/core/ops/detail/wide.h"
#include "wick/core/random.h"
#include "wick/kernels/cpu/product.h"
#include "wick/kernels/fused_attention.h"

namespace wick {

namespace {

// So few queries are left to products, which read the keys once and pack nothing.
constexpr int64_t kFewestQueries = 8;

bool has_rows(const Tensor& x) { return x.size(3) == 1 || x.strides()[3] == 1; }
Tensor in_rows(const Tensor& x) { return has_rows(x) ? x : x.contiguous(); }

// Memory for [B, H, L, E] in the order of `like`: rows of heads by each other, as a projection
// that was split into heads has them, or heads of rows.
Tensor empty_heads(const Shape& shape, const Tensor& like) {
  if (like.strides()[1] >= like.strides()[2]) return empty(shape, like.dtype(), like.device());
  const int64_t heads = shape[1], rows = shape[2], features = shape[3];
  return empty_strided(shape, {rows * heads * features, features, heads * features, 1},
                       like.dtype(), like.device());
}

// Multiplications and additions of the two products, where no key is excluded.
double product_flops(const Tensor& q, const Tensor& k, const Tensor& v) {
  const double scores = static_cast<double>(q.numel() / q.size(3)) * static_cast<double>(k.size(2));
  return 2 * scores * static_cast<double>(q.size(3) + v.size(3));
}

// The attributes of attention, and what they mean for the kernel and for the ops.
template <bool kDrops>
struct AttentionFields {
  double scale;
  bool is_causal;
  bool enable_gqa;
  bool is_bfloat16;
  static constexpr auto fields = std::tuple{field("scale", &AttentionFields::scale),
                                            field("is_causal", &AttentionFields::is_causal),
                                            field("enable_gqa", &AttentionFields::enable_gqa),
                                            field("is_bfloat16", &AttentionFields::is_bfloat16)};

  FusedAttention describe(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                          const Tensor& o, const Tensor& stats) const {
    check_inputs(q, k, v, mask);
    FusedAttention a{q.view_for_kernel(), k.view_for_kernel(), v.view_for_kernel(),
                     o.view_for_kernel(), stats.view_for_kernel()};
    if (mask.defined()) a.mask = mask.view_for_kernel();
    a.scale = scale;
    a.is_causal = is_causal;
    a.is_bfloat16 = is_bfloat16;
    return a;
  }
  // Inputs of a graph may be any.
  void check_inputs(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask) const {
    constexpr const char* op = "fused_attention";
    bool fits = q.rank(op) == 4 && k.rank(op) == 4 && v.rank(op) == 4;
    fits = fits && k.shape() == Shape{q.size(0), k.size(1), k.size(2), q.size(3)} &&
           v.shape() == Shape{q.size(0), k.size(1), k.size(2), v.size(3)} && k.numel() > 0 &&
           q.size(1) % k.size(1) == 0 && (enable_gqa || q.size(1) == k.size(1)) && has_rows(q) &&
           has_rows(k) && has_rows(v);
    WICK_CHECK(fits && k.dtype() == q.dtype() && v.dtype() == q.dtype(), op,
               ": query, key and value do not fit: got ", q.dtype(), q.shape(), ", ", k.dtype(),
               k.shape(), " and ", v.dtype(), v.shape(), ", expected [B, H, L, E], [B, H, S, E] ",
               "and [B, H, S, V] of one dtype");
    const Dtype wide = accumulator_dtype(q.dtype());
    WICK_CHECK(q.dtype() == (is_bfloat16 ? kFloat32 : wide) ||
                   (is_bfloat16 && q.dtype() == kBFloat16 &&
                    cpu::bfloat16_unit() != cpu::BFloat16Unit::kFloat32),
               op, ": not for this dtype: got ", q.dtype(), ", expected ",
               is_bfloat16 ? "float32" : "float32 or float64");
    if (!mask.defined()) return;
    const Shape scores{q.size(0), q.size(1), q.size(2), k.size(2)};
    WICK_CHECK(mask.shape() == scores &&
                   (mask.dtype() == kBool || mask.dtype() == accumulator_dtype(q.dtype())),
               op, ": the mask is wrong: got ", mask.dtype(), mask.shape(), ", expected ", scores);
  }
  Tensor of_ops(const std::vector<Tensor>& in) const {
    return attention_of_ops(in[0], in[1], in[2], in[3],
                            {.scale = scale, .is_causal = is_causal, .enable_gqa = enable_gqa});
  }
};

// With dropout. An op that draws random numbers has a seed and an offset.
template <>
struct AttentionFields<true> : AttentionFields<false> {
  double dropout_p;
  uint64_t seed, offset;
  static constexpr auto fields = std::tuple_cat(
      AttentionFields<false>::fields,
      std::tuple{field("dropout_p", &AttentionFields::dropout_p),
                 field("seed", &AttentionFields::seed), field("offset", &AttentionFields::offset)});

  FusedAttention describe(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                          const Tensor& o, const Tensor& stats) const {
    FusedAttention a = AttentionFields<false>::describe(q, k, v, mask, o, stats);
    a.dropout_p = dropout_p;
    a.key = {seed, offset};
    return a;
  }
  Tensor of_ops(const std::vector<Tensor>& in) const {
    Generator generator;
    generator.set_state({seed, offset});
    return attention_of_ops(in[0], in[1], in[2], in[3],
                            {scale, is_causal, dropout_p, &generator, enable_gqa});
  }
};

// dq, dk and dv.
template <bool kDrops>
struct FusedAttentionBackward : AttentionFields<kDrops> {
  static constexpr OpInfo info{
      .name = kDrops ? "fused_attention_dropout_backward" : "fused_attention_backward",
      .differentiable = false,
      .is_gradient = true};

  std::array<Tensor, 3> forward(Saved&, const Tensor& dy, const Tensor& q, const Tensor& k,
                                const Tensor& v, const Tensor& mask, const Tensor& o,
                                const Tensor& stats) const {
    this->check_inputs(q, k, v, mask);
    WICK_CHECK(q.dtype() != kBFloat16, info.name,
               ": not for this dtype: got bfloat16, expected float32");
    const Shape y{q.size(0), q.size(1), q.size(2), v.size(3)};
    const Shape kept{q.size(0), q.size(1), q.size(2), 2};
    WICK_CHECK(dy.dtype(info.name) == q.dtype() && dy.shape() == y &&
                   o.dtype(info.name) == q.dtype() && o.shape() == y,
               info.name, ": dy or the result is wrong: got ", dy.dtype(), dy.shape(), " and ",
               o.dtype(), o.shape(), ", expected ", q.dtype(), y);
    WICK_CHECK(stats.dtype(info.name) == accumulator_dtype(q.dtype()) && stats.shape() == kept &&
                   stats.is_contiguous(),
               info.name, ": the statistics are wrong: got ", stats.dtype(), stats.shape(),
               ", expected ", kept);
    const std::array<Tensor, 3> out{empty_heads(q.shape(), q), empty_heads(k.shape(), k),
                                    empty_heads(v.shape(), v)};
    const Tensor d_o = in_rows(dy);
    AllocatorWorkspace workspace(kCpu);
    WICK_CALL_CPU(fused_attention_backward(this->describe(q, k, v, mask, o, stats),
                                           {d_o.view_for_kernel(), out[0].view_for_kernel(),
                                            out[1].view_for_kernel(), out[2].view_for_kernel()},
                                           workspace));
    return out;
  }
  // Five products in place of two.
  double flops(std::span<const Tensor> in, const Tensor&) const {
    return 2.5 * product_flops(in[1], in[2], in[3]);
  }
};

// `mask`: [B, H, L, S], or undefined; without a gradient.
template <bool kDrops>
struct FusedAttentionForward : AttentionFields<kDrops> {
  static constexpr OpInfo info{.name = kDrops ? "fused_attention_dropout" : "fused_attention"};

  Tensor forward(Saved& saved, const Tensor& q, const Tensor& k, const Tensor& v,
                 const Tensor& mask) const {
    const Tensor o = empty_heads({q.size(0), q.size(1), q.size(2), v.size(3)}, q);
    const Tensor stats =
        empty({q.size(0), q.size(1), q.size(2), 2}, accumulator_dtype(q.dtype()), q.device());
    AllocatorWorkspace workspace(kCpu);
    WICK_CALL_CPU(fused_attention(this->describe(q, k, v, mask, o, stats), workspace));
    saved.save(q, k, v, mask, o, stats);
    return o;
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    if (grad_enabled()) {
      return composed_gradients(saved, {saved[0], saved[1], saved[2], saved[3]}, dy,
                                [&](const std::vector<Tensor>& in) { return this->of_ops(in); });
    }
    const auto found = apply(FusedAttentionBackward<kDrops>{*this}, dy, saved[0], saved[1],
                             saved[2], saved[3], saved[4], saved[5]);
    return {found[0], found[1], found[2], Tensor()};
  }
  double flops(std::span<const Tensor> in, const Tensor&) const {
    return product_flops(in[0], in[1], in[2]);
  }
};

// [..., L, E] as [B, H, L, E], where the leading axes become those of `batch` and `heads`.
Tensor as_heads(const Tensor& x, const Shape& batch, int64_t heads) {
  Shape full = batch;
  for (const int64_t size : {heads, x.size(-2), x.size(-1)}) full.push_back(size);
  const Tensor wide = x.shape() == full ? x : x.expand(full);
  return full.rank() == 4 ? wide : wide.reshape({batch.numel(), heads, x.size(-2), x.size(-1)});
}

// `shape` with axes of size 1 before it.
Shape as_rank_4(Shape shape) {
  while (shape.rank() < 4) shape.insert(0, 1);
  return shape;
}

bool broadcasts_to(const Shape& from, const Shape& to) {
  const int more = to.rank() - from.rank();
  for (int axis = 0; axis < from.rank(); ++axis) {
    if (more < 0 || (from[axis] != 1 && from[axis] != to[axis + more])) return false;
  }
  return more >= 0;
}

// The sizes of the axes of x but for the last `most`.
Shape leading(const Tensor& x, int most) {
  Shape sizes;
  for (int axis = 0; axis < x.rank() - most; ++axis) sizes.push_back(x.size(axis));
  return sizes;
}

bool kernel_takes(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                  const AttentionSettings& settings) {
  if (!fused_attention_enabled() || query.device() != kCpu || settings.dropout_p >= 1) return false;
  if (query.dtype() == kBFloat16) {
    if (cpu::bfloat16_unit() == cpu::BFloat16Unit::kFloat32) return false;
    for (const Tensor* x : {&query, &key, &value}) {
      if (grad_enabled() && x->requires_grad()) return false;  // backward needs o before it rounds
    }
  } else if (query.dtype() != kFloat32 && query.dtype() != kFloat64) {
    return false;
  }
  for (const Tensor* x : {&query, &key, &value}) {
    if (x->dtype() != query.dtype() || x->device() != kCpu || x->numel() == 0) return false;
  }
  if (query.size(-2) < kFewestQueries) return false;
  if (settings.enable_gqa && key.size(-3) != value.size(-3)) return false;
  return !mask.defined() || (mask.device() == kCpu && !(grad_enabled() && mask.requires_grad()));
}

}  // namespace

Tensor fused_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                       const Tensor& mask, const AttentionSettings& settings) {
  if (!kernel_takes(query, key, value, mask, settings)) return {};
  // The axes before those of heads, and the heads.
  Shape batch;
  const bool grouped = settings.enable_gqa;
  for (const Tensor* x : {&query, &key, &value}) {
    batch = broadcast_shapes("scaled_dot_product_attention", batch, leading(*x, grouped ? 3 : 2));
  }
  int64_t heads = 1;
  if (grouped) {
    heads = query.size(-3);
  } else if (batch.rank() > 0) {
    heads = batch[batch.rank() - 1];
    Shape before;
    for (int axis = 0; axis + 1 < batch.rank(); ++axis) before.push_back(batch[axis]);
    batch = before;
  }
  const auto own_heads = [&](const Tensor& x) { return grouped ? x.size(-3) : heads; };
  Tensor added;
  if (mask.defined()) {
    Shape scores = batch;
    for (const int64_t size : {heads, query.size(-2), key.size(-2)}) scores.push_back(size);
    if (batch.rank() > 1 || !broadcasts_to(mask.shape(), scores)) return {};
    scores = {batch.numel(), heads, query.size(-2), key.size(-2)};
    added = mask.detach().to(mask.dtype() == kBool ? kBool : accumulator_dtype(query.dtype()));
    added = added.reshape(as_rank_4(mask.shape())).expand(scores);
  }
  const Tensor q = in_rows(as_heads(query, batch, heads));
  const Tensor k = in_rows(as_heads(key, batch, own_heads(key)));
  const Tensor v = in_rows(as_heads(value, batch, own_heads(value)));
  const AttentionFields<false> fields{settings.scale, settings.is_causal, grouped,
                                      settings.is_bfloat16};
  Tensor o;
  if (settings.dropout_p > 0) {
    Generator& generator =
        settings.generator != nullptr ? *settings.generator : default_generator(kCpu);
    const RandomKey draw = generator.next();
    o = apply(FusedAttentionForward<true>{{fields, settings.dropout_p, draw.seed, draw.offset}}, q,
              k, v, added);
  } else {
    o = apply(FusedAttentionForward<false>{fields}, q, k, v, added);
  }
  if (batch.rank() == 1) return o;
  Shape shape = batch;
  if (grouped || leading(query, 2).rank() + leading(key, 2).rank() + leading(value, 2).rank() > 0) {
    shape.push_back(heads);
  }
  for (const int64_t size : {query.size(-2), value.size(-1)}) shape.push_back(size);
  return o.reshape(shape);
}

}  // namespace wick
