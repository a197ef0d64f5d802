#include "wick/core/ops/attention.h"

#include <atomic>
#include <cmath>
#include <limits>

#include "wick/core/apply.h"
#include "wick/core/memory/workspace.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/composed_gradient.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/softmax.h"
#include "wick/kernels/attention.h"

namespace wick {

namespace {

std::atomic<bool> library_on{true};

// As the library wants it: rows of neighbours (heads split off a projection are), aligned.
Tensor in_rows(const Tensor& x) {
  const Tensor rows = x.strides()[3] == 1 ? x : x.contiguous();
  const auto address = reinterpret_cast<uintptr_t>(rows.raw_data());
  return address % kAttentionAlignment == 0 ? rows : rows.clone();
}

Attention describe(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& o,
                   const Tensor& stats, double scale) {
  return {q.view_for_kernel(), k.view_for_kernel(),     v.view_for_kernel(),
          o.view_for_kernel(), stats.view_for_kernel(), static_cast<float>(scale)};
}

Tensor composed_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                          double scale) {
  return matmul(softmax(matmul(query * scale, key.transpose(-2, -1)), -1), value);
}

// dq, dk and dv.
struct LibraryAttentionBackward {
  static constexpr OpInfo info{
      .name = "library_attention_backward", .differentiable = false, .is_gradient = true};
  double scale;
  static constexpr auto fields = std::tuple{field("scale", &LibraryAttentionBackward::scale)};

  std::array<Tensor, 3> forward(Saved&, const Tensor& dy, const Tensor& q, const Tensor& k,
                                const Tensor& v, const Tensor& o, const Tensor& stats) const {
    const auto like = [](const Tensor& x) { return empty(x.shape(), x.dtype(), x.device()); };
    const std::array<Tensor, 3> out{like(q), like(k), like(v)};
    const Tensor d_o = in_rows(dy.contiguous());
    [[maybe_unused]] const Attention done = describe(q, k, v, o, stats, scale);
    AllocatorWorkspace workspace(q.device());
    WICK_CALL_CUDA(attention_backward(done,
                                      {d_o.view_for_kernel(), out[0].view_for_kernel(),
                                       out[1].view_for_kernel(), out[2].view_for_kernel()},
                                      workspace));
    return out;
  }
};

struct LibraryAttention {
  static constexpr OpInfo info{.name = "library_attention"};
  double scale;
  static constexpr auto fields = std::tuple{field("scale", &LibraryAttention::scale)};

  Tensor forward(Saved& saved, const Tensor& q, const Tensor& k, const Tensor& v) const {
    const Tensor o = empty({q.size(0), q.size(1), q.size(2), v.size(3)}, q.dtype(), q.device());
    const Tensor stats = empty({q.size(0), q.size(1), q.size(2), 1}, kFloat32, q.device());
    [[maybe_unused]] const Attention wanted = describe(q, k, v, o, stats, scale);
    AllocatorWorkspace workspace(q.device());
    WICK_CALL_CUDA(attention_forward(wanted, workspace));
    saved.save(q, k, v, o, stats);
    return o;
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    if (grad_enabled()) {
      return composed_gradients(saved, {saved[0], saved[1], saved[2]}, dy,
                                [&](const std::vector<Tensor>& in) {
                                  return composed_attention(in[0], in[1], in[2], scale);
                                });
    }
    const auto found = apply(LibraryAttentionBackward{scale}, dy, saved[0], saved[1], saved[2],
                             saved[3], saved[4]);
    return {found[0], found[1], found[2]};
  }
};

// The library's answer, or nothing where it has none.
Tensor library_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                         double scale) {
  if (!library_attention_enabled() || !query.device().is_cuda()) return {};
  for (const Tensor* x : {&query, &key, &value}) {
    if (x->rank() != 4 || size_of(x->dtype()) != 2 || x->dtype() != query.dtype() ||
        x->size(0) != query.size(0) || x->size(1) != query.size(1) || x->numel() == 0) {
      return {};
    }
  }
  const Tensor q = in_rows(query), k = in_rows(key), v = in_rows(value);
  View o = q.view_for_kernel();
  o.shape = {q.size(0), q.size(1), q.size(2), v.size(3)};
  o.strides = contiguous_strides(o.shape);
  bool has = false;
  WICK_CALL_CUDA_INTO(
      has,
      has_attention(q.device(),
                    {q.view_for_kernel(), k.view_for_kernel(), v.view_for_kernel(), o, {}, 1}));
  return has ? apply(LibraryAttention{scale}, q, k, v) : Tensor();
}

}  // namespace

bool library_attention_enabled() { return library_on.load(std::memory_order_relaxed); }
void set_library_attention(bool on) { library_on.store(on, std::memory_order_relaxed); }

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

  if (!is_causal && !attn_mask.defined() && dropout_p <= 0) {
    const Tensor y = library_attention(query, key, value, factor);
    return y.defined() ? y : composed_attention(query, key, value, factor);
  }
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
