#include "wick/core/ops/detail/rnn_library.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "wick/core/apply.h"
#include "wick/core/memory/detail/workspace.h"
#include "wick/core/ops/detail/composed_gradient.h"
#include "wick/core/ops/detail/rnn_composed.h"
#include "wick/core/ops/join.h"
#include "wick/kernels/rnn_layer.h"

namespace wick {

namespace {

std::atomic<bool> library_on{true};

constexpr size_t kWeights = 5;  // of a direction

// What the vendor's library has to know of a layer, from its first tensors.
RnnLayerProblem describe(RnnKind kind, const std::vector<int64_t>& batch_sizes, const Tensor& x,
                         const RnnWeights& w, bool is_bidirectional) {
  RnnLayerProblem problem;
  problem.kind = kind;
  problem.dtype = x.dtype();
  problem.device = x.device();
  problem.inputs = x.size(1);
  problem.units = w.w_hh.size(0) / gates_of(kind);
  problem.width = w.w_hh.size(1);
  problem.has_bias = w.b_ih.defined();
  problem.is_bidirectional = is_bidirectional;
  for (const int64_t size : batch_sizes) {
    if (size > 0) problem.batch_sizes.push_back(size);
  }
  return problem;
}

// By direction. `tensors`: kWeights for each.
std::vector<RnnWeights> weights_of(std::span<const Tensor> tensors) {
  std::vector<RnnWeights> weights;
  for (size_t i = 0; i + kWeights <= tensors.size(); i += kWeights) {
    weights.push_back({tensors[i], tensors[i + 1], tensors[i + 2], tensors[i + 3], tensors[i + 4]});
  }
  return weights;
}

// The library takes a projection to as many units as there are for none.
bool is_square_projection(const RnnWeights& w) {
  return w.w_hr.defined() && w.w_hr.size(0) == w.w_hr.size(1);
}

View view_of(const Tensor& x) { return x.defined() ? x.view_for_kernel() : View{}; }
std::vector<RnnLayerWeights> views_of(const std::vector<RnnWeights>& weights) {
  std::vector<RnnLayerWeights> views;
  for (const RnnWeights& w : weights) {
    views.push_back(
        {view_of(w.w_ih), view_of(w.w_hh), view_of(w.b_ih), view_of(w.b_hh), view_of(w.w_hr)});
  }
  return views;
}

// Dense and aligned, or zeros of `shape` for nothing.
Tensor for_library(const Tensor& x, const Shape& shape, const Tensor& like) {
  if (!x.defined()) return zeros(shape, like.dtype(), like.device());
  const Tensor dense = x.contiguous();
  const auto address = reinterpret_cast<uintptr_t>(dense.raw_data());
  return address % kRnnLayerAlignment == 0 ? dense : dense.clone();
}

// A layer as its inputs x, h_0, c_0 and weights make it, ready for the library.
struct Layer {
  std::vector<RnnWeights> weights;
  RnnLayerProblem problem;
  Shape h_shape, c_shape;
  Tensor x, h_0, c_0;

  // Error unless they fit: attributes and inputs of a graph may be any.
  Layer(RnnKind kind, const std::vector<int64_t>& batch_sizes, std::span<const Tensor> in) {
    constexpr size_t kFirst = 3;
    WICK_CHECK(kind <= RnnKind::kGru &&
                   (in.size() == kFirst + kWeights || in.size() == kFirst + 2 * kWeights),
               "library_rnn_layer: no such kind: got number ", static_cast<int>(kind), " and ",
               in.size(), " inputs, expected 0 to 3, and 8 or 13 inputs");
    const bool is_bidirectional = in.size() > kFirst + kWeights;
    weights = weights_of(in.subspan(kFirst));
    for (const RnnWeights& w : weights) {
      check_rnn_layer(kind, in[0], batch_sizes, in[1], in[2], w, is_bidirectional);
      WICK_CHECK(!is_square_projection(w), "library_rnn_layer: a projection has to change the ",
                 "width: got w_hr ", w.w_hr.shape());
    }
    for (const Tensor& each : in) {
      WICK_CHECK(!each.defined() || each.dtype() == in[0].dtype(),
                 "library_rnn_layer: dtypes differ: got ", in[0].dtype(), " and ", each.dtype());
    }
    WICK_CHECK(in[0].device().is_cuda(), "library_rnn_layer: there is no library on ",
               in[0].device());
    for (RnnWeights& w : weights) {
      for (Tensor* t : {&w.w_ih, &w.w_hh, &w.b_ih, &w.b_hh, &w.w_hr}) {
        if (t->defined()) *t = t->contiguous();
      }
    }
    problem = describe(kind, batch_sizes, in[0], weights[0], is_bidirectional);
    const int64_t batch = batch_sizes[0];
    h_shape = is_bidirectional ? Shape{2, batch, problem.width} : Shape{batch, problem.width};
    c_shape = is_bidirectional ? Shape{2, batch, problem.units} : Shape{batch, problem.units};
    x = for_library(in[0], {}, in[0]);
    h_0 = for_library(in[1], h_shape, x);
    if (problem.is_lstm()) c_0 = for_library(in[2], c_shape, x);
  }

  // [D, B, ...] whatever D is.
  View state(const Tensor& s) const {
    if (!s.defined()) return {};
    return s.view({problem.directions(), -1, s.size(-1)}).view_for_kernel();
  }
  RnnLayerPass pass(const Tensor& y, const Tensor& h_n, const Tensor& c_n,
                    const Tensor& reserve) const {
    return {x.view_for_kernel(), state(h_0), state(c_0),      view_of(y),
            state(h_n),          state(c_n), view_of(reserve)};
  }
  Tensor make(bool is_there, const Shape& shape) const {
    return is_there ? empty(shape, x.dtype(), x.device()) : Tensor();
  }
};

// Inputs: dy, dh_n, dc_n (may be undefined), y, what the library kept, and those of the layer.
// Outputs: the gradients of the layer's inputs.
struct LibraryRnnLayerBackward {
  static constexpr OpInfo info{
      .name = "library_rnn_layer_backward", .differentiable = false, .is_gradient = true};
  RnnKind kind = RnnKind::kTanh;
  std::vector<int64_t> batch_sizes;
  bool needs_weights = true;
  static constexpr auto fields =
      std::tuple{field("kind", &LibraryRnnLayerBackward::kind),
                 field("batch_sizes", &LibraryRnnLayerBackward::batch_sizes),
                 field("needs_weights", &LibraryRnnLayerBackward::needs_weights)};

  std::vector<Tensor> forward(Saved&, std::span<const Tensor> in) const {
    constexpr size_t kFirst = 5;
    WICK_CHECK(in.size() > kFirst, "library_rnn_layer_backward: wrong number of inputs: got ",
               in.size(), ", expected 13 or 18");
    const Layer layer(kind, batch_sizes, in.subspan(kFirst));
    const RnnLayerProblem& problem = layer.problem;
    const Shape y_shape{problem.rows(), problem.directions() * problem.width};
    const Tensor y = for_library(in[3], y_shape, layer.x), reserve = in[4];
    const bool is_lstm = problem.is_lstm();
    const auto check = [&](const char* what, const Tensor& given, const Shape& shape) {
      WICK_CHECK(!given.defined() || (given.shape() == shape && given.dtype() == layer.x.dtype()),
                 "library_rnn_layer_backward: ", what, " does not fit: got ", given.dtype(),
                 given.shape(), ", expected ", layer.x.dtype(), shape);
    };
    check("y", y, y_shape);
    check("dy", in[0], y_shape);
    check("dh_n", in[1], layer.h_shape);
    if (is_lstm) check("dc_n", in[2], layer.c_shape);
    WICK_CHECK(reserve.defined() && reserve.dtype() == kUint8,
               "library_rnn_layer_backward: the reserve is missing: got ",
               reserve.defined() ? to_string(reserve.dtype()) : "none", ", expected uint8");
    const Tensor dy = for_library(in[0], y_shape, layer.x);
    const Tensor dh_n = for_library(in[1], layer.h_shape, layer.x);
    const Tensor dc_n = is_lstm ? for_library(in[2], layer.c_shape, layer.x) : Tensor();
    std::vector<Tensor> out{layer.make(true, layer.x.shape()), layer.make(true, layer.h_shape),
                            layer.make(is_lstm, layer.c_shape)};
    for (const RnnWeights& w : layer.weights) {
      for (const Tensor* t : {&w.w_ih, &w.w_hh, &w.b_ih, &w.b_hh, &w.w_hr}) {
        const bool is_there = needs_weights && t->defined();
        out.push_back(layer.make(is_there, is_there ? t->shape() : Shape{}));
      }
    }
    std::vector<RnnLayerWeights> dweights;
    if (needs_weights) dweights = views_of(weights_of(std::span<const Tensor>(out).subspan(3)));
    [[maybe_unused]] const RnnLayerGradients gradients{
        dy.view_for_kernel(),     layer.state(dh_n),   layer.state(dc_n),
        out[0].view_for_kernel(), layer.state(out[1]), layer.state(out[2])};
    [[maybe_unused]] const RnnLayerPass pass = layer.pass(y, {}, {}, reserve);
    AllocatorWorkspace workspace(layer.x.device());
    WICK_CALL_CUDA(
        rnn_layer_backward(problem, views_of(layer.weights), pass, gradients, dweights, workspace));
    return out;
  }
};

// Inputs: as library_rnn_layer's. Outputs: y, h_n, c_n.
struct LibraryRnnLayer {
  static constexpr OpInfo info{.name = "library_rnn_layer"};
  RnnKind kind = RnnKind::kTanh;
  std::vector<int64_t> batch_sizes;
  static constexpr auto fields = std::tuple{field("kind", &LibraryRnnLayer::kind),
                                            field("batch_sizes", &LibraryRnnLayer::batch_sizes)};

  std::array<Tensor, 3> forward(Saved& saved, std::span<const Tensor> in) const {
    const Layer layer(kind, batch_sizes, in);
    const RnnLayerProblem& problem = layer.problem;
    const Tensor y = layer.make(true, {problem.rows(), problem.directions() * problem.width});
    const Tensor h_n = layer.make(true, layer.h_shape);
    const Tensor c_n = layer.make(problem.is_lstm(), layer.c_shape);
    Tensor reserve;
    if (saved.recording()) {
      int64_t bytes = 0;
      WICK_CALL_CUDA_INTO(bytes, rnn_layer_reserve(problem));
      reserve = empty({bytes}, kUint8, layer.x.device());
    }
    [[maybe_unused]] const RnnLayerPass pass = layer.pass(y, h_n, c_n, reserve);
    AllocatorWorkspace workspace(layer.x.device());
    WICK_CALL_CUDA(rnn_layer_forward(problem, views_of(layer.weights), pass, workspace));
    for (const Tensor& x : in) saved.save(x);
    saved.save(y, reserve);
    return {y, h_n, c_n};
  }

  Gradients backward(const Saved& saved, const Tensor& dy, const Tensor& dh_n,
                     const Tensor& dc_n) const {
    const int count = saved.num_inputs();
    std::vector<Tensor> in;
    for (int i = 0; i < count; ++i) in.push_back(saved[i]);
    if (grad_enabled()) {
      return composed_gradients(saved, in, std::vector<Tensor>{dy, dh_n, dc_n},
                                [&](const std::vector<Tensor>& x) { return composed(x); });
    }
    bool needs_weights = false;
    for (int i = 3; i < count; ++i) needs_weights = needs_weights || saved.needs(i);
    std::vector<Tensor> all{dy, dh_n, dc_n, saved[count], saved[count + 1]};
    all.insert(all.end(), in.begin(), in.end());
    Gradients grads = apply(LibraryRnnLayerBackward{kind, batch_sizes, needs_weights}, all);
    for (int i = 0; i < count; ++i) {
      if (!saved.needs(i)) grads[static_cast<size_t>(i)] = Tensor();
    }
    return grads;
  }

  double flops(std::span<const Tensor> in, const Tensor& y) const {
    int64_t multiplied = 0;  // elements of matrices
    for (const RnnWeights& w : weights_of(in.subspan(3))) {
      multiplied += w.w_ih.numel() + w.w_hh.numel() + (w.w_hr.defined() ? w.w_hr.numel() : 0);
    }
    return 2.0 * static_cast<double>(y.size(0)) * static_cast<double>(multiplied);
  }

 private:
  std::vector<Tensor> composed(const std::vector<Tensor>& in) const {
    const std::vector<RnnWeights> weights = weights_of(std::span<const Tensor>(in).subspan(3));
    std::vector<RnnResult> all;
    for (const RnnWeights& w : weights) {
      const bool is_reverse = !all.empty();
      const auto own = [&](const Tensor& s) {
        return s.defined() && weights.size() > 1 ? s[is_reverse] : s;
      };
      all.push_back(
          composed_rnn_layer(kind, in[0], batch_sizes, is_reverse, own(in[1]), own(in[2]), w));
    }
    const RnnResult result = all.size() == 1 ? all[0] : side_by_side(all[0], all[1]);
    if (!result.c_n.defined()) return {result.y, result.h_n};
    return {result.y, result.h_n, result.c_n};
  }
};

}  // namespace

RnnResult side_by_side(const RnnResult& forward, const RnnResult& backward) {
  return {cat({forward.y, backward.y}, 1), stack({forward.h_n, backward.h_n}),
          forward.c_n.defined() ? stack({forward.c_n, backward.c_n}) : Tensor()};
}

bool library_rnn_enabled() { return library_on.load(std::memory_order_relaxed); }
void set_library_rnn(bool on) { library_on.store(on, std::memory_order_relaxed); }

RnnResult library_rnn_layer(RnnKind kind, const std::vector<int64_t>& batch_sizes,
                            std::span<const Tensor> in) {
  const Tensor& x = in[0];
  // A single step has no recurrence: one product with the state and one kernel compute it, without
  // a copy of the weights.
  const bool has_steps = batch_sizes.size() > 1 && batch_sizes[1] > 0;
  if (!library_rnn_enabled() || !x.device().is_cuda() || !has_steps || x.numel() == 0) return {};
  const std::vector<RnnWeights> weights = weights_of(in.subspan(3));
  if (is_square_projection(weights[0])) return {};
  bool has = false;
  WICK_CALL_CUDA_INTO(
      has, has_rnn_layer(describe(kind, batch_sizes, x, weights[0], weights.size() > 1)));
  if (!has) return {};
  const auto out = apply(LibraryRnnLayer{kind, batch_sizes}, in);
  return {out[0], out[1], out[2]};
}

}  // namespace wick
