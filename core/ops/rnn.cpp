#include "wick/core/ops/rnn.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "wick/core/apply.h"
#include "wick/core/base/detail/checked.h"
#include "wick/core/detail/autocast.h"
#include "wick/core/ops/detail/composed_gradient.h"
#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/detail/matmul_plan.h"
#include "wick/core/ops/detail/rnn_composed.h"
#include "wick/core/ops/detail/rnn_library.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/ops/reduce.h"
#include "wick/kernels/elementwise_ops_arithmetic.h"
#include "wick/kernels/packed_product.h"
#include "wick/kernels/rnn.h"

namespace wick {

namespace {

// The view of some rows of a matrix; undefined stays undefined.
View step_rows(const Tensor& x, const RnnRows& rows) {
  if (!x.defined()) return {};
  View view = x.view_for_kernel();
  view.data = view.as<char>() + rows.first * view.strides[0] * size_of(view.dtype);
  view.shape[0] = rows.count;
  return view;
}
View first_rows(const Tensor& x, int64_t count) { return step_rows(x, {0, count}); }

// A matrix [K, N] that many products of few rows have in common.
class StepWeight {
 public:
  // Of few steps packing costs more than it saves.
  StepWeight(const Tensor& matrix, size_t steps) : matrix_(matrix) {
    if (!matrix.device().is_cpu() || steps < kLeastSteps) return;
    const int64_t blocks = (matrix.size(1) + kPackedColumns - 1) / kPackedColumns;
    packed_ = empty({matrix.size(0), blocks * kPackedColumns}, matrix.dtype());
    WICK_CALL_CPU(pack_matrix(matrix.view_for_kernel(), packed_.view_for_kernel()));
  }

  // y = a times the matrix.
  void multiply(const View& a, const View& y) const {
    if (y.numel() == 0) return;
    if (packed_.defined()) {
      WICK_CALL_CPU(packed_product(a, packed_.view_for_kernel(), y));
    } else {
      planned_matmul(a, matrix_.view_for_kernel(), {}, y);
    }
  }

 private:
  static constexpr size_t kLeastSteps = 4;
  Tensor matrix_, packed_;
};

// A state that steps change in place.
Tensor own_state(const Tensor& given, const Shape& shape, const Tensor& like) {
  if (given.defined()) return given.clone(MemoryFormat::kContiguous);
  return zeros(shape, like.dtype(), like.device());
}

// What each row of `after` [rows, N] was before its step: what the row before it in its sequence
// is, or `start` [B, N], zeros if undefined.
Tensor rows_before(const Tensor& after, const Tensor& start, const std::vector<int64_t>& sizes,
                   bool reverse) {
  const Tensor begin = own_state(start, {sizes[0], after.size(1)}, after);
  const std::vector<RnnRows> steps = rnn_steps(sizes, false);
  std::vector<Tensor> parts;
  for (size_t t = 0; t < steps.size(); ++t) {
    const bool is_first = reverse ? t + 1 == steps.size() : t == 0;
    const RnnRows before = is_first ? RnnRows{} : steps[reverse ? t + 1 : t - 1];
    const int64_t count = steps[t].count, known = std::min(before.count, count);
    if (known > 0) parts.push_back(after.narrow(0, before.first, known));
    if (known < count) parts.push_back(begin.narrow(0, known, count - known));
  }
  return parts.empty() ? after : cat(parts);
}

void check_shape(const char* what, const Tensor& x, const Shape& shape) {
  WICK_CHECK(x.defined(), "rnn_layer: ", what, " is missing: expected shape ", shape);
  WICK_CHECK(x.shape() == shape, "rnn_layer: ", what, " has the wrong shape: got ", x.shape(),
             ", expected ", shape);
}

void check_batch_sizes(const Tensor& x, const std::vector<int64_t>& sizes) {
  WICK_CHECK(!sizes.empty(), "rnn_layer: no time step: got no batch sizes, expected 1 or more");
  int64_t rows = 0, most = sizes[0];
  for (const int64_t size : sizes) {
    WICK_CHECK(size >= 0 && size <= most, "rnn_layer: batch sizes must not grow: got ", size,
               " after ", most, ", expected 0 to ", most);
    most = size;
    rows = checked_add("rnn_layer", rows, size);
  }
  WICK_CHECK(rows == x.size(0), "rnn_layer: batch sizes do not fit x: got a sum of ", rows,
             ", expected the rows of ", x.shape());
}

// Attributes and inputs of a graph may be any.
void check_kind(RnnKind kind, size_t inputs) {
  WICK_CHECK(kind <= RnnKind::kGru && inputs == 8, "rnn_layer: no such kind: got number ",
             static_cast<int>(kind), " and ", inputs, " inputs, expected 0 to 3, and 8 inputs");
}

void check_dtypes(std::span<const Tensor> inputs, Dtype dtype) {
  WICK_CHECK(is_floating(dtype), "rnn_layer: needs a floating dtype: got ", to_string(dtype));
  for (const Tensor& input : inputs) {
    WICK_CHECK(!input.defined() || input.dtype() == dtype, "rnn_layer: dtypes differ: got ",
               to_string(dtype), " and ", input.defined() ? to_string(input.dtype()) : "");
  }
}

void check_w_hh(RnnKind kind, const Tensor& w_hh) {
  WICK_CHECK(
      w_hh.defined() && w_hh.rank() == 2 && w_hh.size(0) % gates_of(kind) == 0 && w_hh.numel() > 0,
      "rnn_layer: w_hh has the wrong shape: got ", w_hh.defined() ? w_hh.shape() : Shape{},
      ", expected [", gates_of(kind), " H, P] of ", kind);
}

// The attributes of a recurrent layer and of its gradient.
struct RnnAttributes {
  RnnKind kind = RnnKind::kTanh;
  bool reverse = false;
  std::vector<int64_t> batch_sizes;

  bool is_lstm() const { return kind == RnnKind::kLstm; }
  int64_t rows() const {
    return std::accumulate(batch_sizes.begin(), batch_sizes.end(), int64_t{0});
  }
};

// Backward through the steps: [rows, G H] the gradients of the gates' arguments and, of a GRU, of
// what the state adds to them; h_0's, c_0's; with a projection y's, what later steps want included.
struct RnnLayerBackward : RnnAttributes {
  static constexpr OpInfo info{
      .name = "rnn_layer_backward", .differentiable = false, .is_gradient = true};
  static constexpr auto fields = std::tuple{field("kind", &RnnLayerBackward::kind),
                                            field("reverse", &RnnLayerBackward::reverse),
                                            field("batch_sizes", &RnnLayerBackward::batch_sizes)};

  // dy, dh_n, dc_n may be undefined. before, after: as RnnStepGradient's, of all rows.
  std::array<Tensor, 5> forward(Saved&, std::span<const Tensor> in) const {
    check_inputs(in);
    const Tensor &kept = in[3], &before = in[4], &after = in[5];
    const Tensor w_hh = in[6].contiguous(), &w_hr = in[7];
    const int64_t batch = batch_sizes[0], width = w_hh.size(1);
    const int64_t gates = w_hh.size(0), units = gates / gates_of(kind);
    const auto make = [&](int64_t count, int64_t columns) {
      return empty({count, columns}, w_hh.dtype(), w_hh.device());
    };
    Tensor dy = in[0].defined() ? in[0].contiguous() : in[0];
    if (!dy.defined() && w_hr.defined()) dy = zeros({rows(), width}, w_hh.dtype(), w_hh.device());
    const Tensor dh = own_state(in[1], {batch, width}, w_hh);
    const bool is_gru = kind == RnnKind::kGru;
    const Tensor carry = is_lstm() || is_gru ? own_state(in[2], {batch, units}, w_hh) : Tensor();
    const Tensor dgates = make(rows(), gates), dgates_h = is_gru ? make(rows(), gates) : Tensor();
    const Tensor dys = w_hr.defined() ? make(rows(), width) : Tensor();
    const Tensor projected = w_hr.defined() ? make(batch, units) : Tensor();
    const StepWeight w(w_hh, batch_sizes.size());
    std::optional<StepWeight> projection;
    if (w_hr.defined()) projection.emplace(w_hr.contiguous(), batch_sizes.size());
    for (const RnnRows& step : rnn_steps(batch_sizes, !reverse)) {
      if (step.count == 0) continue;
      RnnStepGradient s;
      s.kind = kind;
      s.kept = step_rows(kept, step);
      s.before = step_rows(before, step);
      s.after = step_rows(after, step);
      s.dh = first_rows(dh, step.count);
      s.dy = step_rows(dy, step);
      s.carry = first_rows(carry, step.count);
      s.dgates = step_rows(dgates, step);
      s.dgates_h = step_rows(dgates_h, step);
      if (projection) {  // from the gradient of the projected h to that of the LSTM's own
        const View sums = step_rows(dys, step), parts[] = {s.dh, s.dy};
        WICK_DISPATCH(w_hh.device(), elementwise(fn::Add{}, sums.dtype, sums, parts));
        s.dh = first_rows(projected, step.count);
        s.dy = {};
        projection->multiply(sums, s.dh);
      }
      WICK_DISPATCH(w_hh.device(), rnn_backward(s));
      w.multiply(is_gru ? s.dgates_h : s.dgates, first_rows(dh, step.count));
    }
    return {dgates, dgates_h, is_gru ? dh + carry : dh, is_lstm() ? carry : Tensor(), dys};
  }

 private:
  void check_inputs(std::span<const Tensor> in) const {
    check_kind(kind, in.size());
    const Tensor &w_hh = in[6], &w_hr = in[7];
    check_w_hh(kind, w_hh);
    const int64_t gates = w_hh.size(0), units = gates / gates_of(kind), width = w_hh.size(1);
    const Tensor& any = in[3].defined() ? in[3] : in[5];
    WICK_CHECK(any.defined(), "rnn_layer: what forward kept is missing");
    check_batch_sizes(any, batch_sizes);
    check_dtypes(in, w_hh.dtype());
    const auto fits = [&](const char* what, const Tensor& x, bool is_there, int64_t columns) {
      if (is_there || x.defined()) check_shape(what, x, {rows(), columns});
    };
    const bool is_gru = kind == RnnKind::kGru;
    fits("dy", in[0], false, width);
    fits("kept", in[3], kept_of(kind) > 0, kept_of(kind) * units);
    fits("before", in[4], is_lstm() || is_gru, units);
    fits("after", in[5], !is_gru, units);
    if (w_hr.defined()) check_shape("w_hr", w_hr, {width, units});
    WICK_CHECK(w_hr.defined() ? is_lstm() : width == units,
               "rnn_layer: w_hh has the wrong shape: ", "got ", w_hh.shape(), " for ", units,
               " units");
    if (in[1].defined()) check_shape("dh_n", in[1], {batch_sizes[0], width});
    if (in[2].defined()) check_shape("dc_n", in[2], {batch_sizes[0], units});
  }
};

// Inputs: x, h_0, c_0, w_ih, w_hh, b_ih, b_hh, w_hr. Outputs: y, h_n, c_n.
struct RnnLayer : RnnAttributes {
  static constexpr OpInfo info{.name = "rnn_layer",
                               .autocast = {.cuda = Autocast::kLower, .cpu = Autocast::kLower}};
  static constexpr auto fields =
      std::tuple{field("kind", &RnnLayer::kind), field("reverse", &RnnLayer::reverse),
                 field("batch_sizes", &RnnLayer::batch_sizes)};

  std::array<Tensor, 3> forward(Saved& saved, std::span<const Tensor> in) const {
    check_kind(kind, in.size());
    check_rnn_layer(kind, in[0], batch_sizes, in[1], in[2], {in[3], in[4], in[5], in[6], in[7]});
    check_dtypes(in, in[0].dtype());
    const Tensor &w_hh = in[4], &w_hr = in[7];
    const int64_t batch = batch_sizes[0], gates = w_hh.size(0), width = w_hh.size(1);
    const int64_t units = gates / gates_of(kind);
    const auto make = [&](bool is_there, int64_t count, int64_t columns) {
      return is_there ? empty({count, columns}, w_hh.dtype(), w_hh.device()) : Tensor();
    };
    const Tensor gates_x = linear(in[0], in[3], in[5]);
    const Tensor bias = in[6].defined() ? in[6].contiguous() : in[6];
    const StepWeight w(w_hh.contiguous().t(), batch_sizes.size());
    std::optional<StepWeight> projection;
    if (w_hr.defined()) projection.emplace(w_hr.contiguous().t(), batch_sizes.size());
    const Tensor h_n = own_state(in[1], {batch, width}, w_hh);
    const Tensor c_n = is_lstm() ? own_state(in[2], {batch, units}, w_hh) : Tensor();
    const bool recording = saved.recording();
    const Tensor kept = is_lstm() ? gates_x : make(recording, rows(), kept_of(kind) * units);
    const Tensor cells = make(recording && is_lstm(), rows(), units);
    const Tensor own = make(true, rows(), units);  // h before the projection
    const Tensor y = w_hr.defined() ? make(true, rows(), width) : own;
    const Tensor gates_h = make(true, batch, gates);
    for (const RnnRows& step : rnn_steps(batch_sizes, reverse)) {
      if (step.count == 0) continue;
      RnnStep s;
      s.kind = kind;
      s.x = step_rows(gates_x, step);
      s.h = first_rows(gates_h, step.count);
      if (bias.defined()) s.bias = bias.view_for_kernel();
      s.cell = first_rows(c_n, step.count);
      s.kept = kept_of(kind) > 0 ? step_rows(kept, step) : View{};
      s.cells = step_rows(cells, step);
      s.y = step_rows(own, step);
      const View h = first_rows(h_n, step.count);
      w.multiply(h, s.h);
      if (!projection) s.hidden = h;
      WICK_DISPATCH(w_hh.device(), rnn_forward(s));
      if (!projection) continue;
      projection->multiply(s.y, step_rows(y, step));
      h_n.narrow(0, 0, step.count).copy_(y.narrow(0, step.first, step.count));
    }
    for (const Tensor& x : in) saved.save(x);
    saved.save(y, kept, cells, own);
    return {y, h_n, c_n};
  }

  Gradients backward(const Saved& saved, const Tensor& dy, const Tensor& dh_n,
                     const Tensor& dc_n) const {
    const Tensor x = saved[0], h_0 = saved[1], c_0 = saved[2], w_ih = saved[3], w_hh = saved[4];
    const Tensor w_hr = saved[7];
    if (grad_enabled()) {
      return composed_gradients(
          saved, {x, h_0, c_0, w_ih, w_hh, saved[5], saved[6], w_hr},
          std::vector<Tensor>{dy, dh_n, dc_n}, [&](const std::vector<Tensor>& in) {
            const RnnResult all = composed_rnn_layer(kind, in[0], batch_sizes, reverse, in[1],
                                                     in[2], {in[3], in[4], in[5], in[6], in[7]});
            return all.c_n.defined() ? std::vector<Tensor>{all.y, all.h_n, all.c_n}
                                     : std::vector<Tensor>{all.y, all.h_n};
          });
    }
    const Tensor y = saved[8], cells = saved[10], own = saved[11];
    const Tensor h_before = rows_before(y, h_0, batch_sizes, reverse);
    const Tensor before = is_lstm()               ? rows_before(cells, c_0, batch_sizes, reverse)
                          : kind == RnnKind::kGru ? h_before
                                                  : Tensor();
    const Tensor after = is_lstm() ? cells : kind == RnnKind::kGru ? Tensor() : y;
    const std::array<Tensor, 8> in{dy, dh_n, dc_n, saved[9], before, after, w_hh, w_hr};
    const auto found = apply(RnnLayerBackward{*this}, in);
    const Tensor& dgates = found[0];
    const Tensor& dgates_h = found[1].defined() ? found[1] : dgates;
    Gradients grads(8);
    if (saved.needs(0)) grads[0] = matmul(dgates, w_ih);
    if (saved.needs(1)) grads[1] = found[2];
    if (saved.needs(2)) grads[2] = found[3];
    if (saved.needs(3)) grads[3] = matmul(dgates.t(), x);
    if (saved.needs(4)) grads[4] = matmul(dgates_h.t(), h_before);
    if (saved.needs(5)) grads[5] = dgates.sum({0});
    if (saved.needs(6))
      grads[6] = dgates_h.is_same(dgates) && grads[5].defined() ? grads[5] : dgates_h.sum({0});
    if (saved.needs(7)) grads[7] = matmul(found[4].t(), own);
    return grads;
  }

  // The input's product counts itself.
  double flops(std::span<const Tensor> in, const Tensor& y) const {
    const double steps = 2.0 * static_cast<double>(y.size(0));
    const double projection = in[7].defined() ? static_cast<double>(in[7].numel()) : 0;
    return steps * (static_cast<double>(in[4].numel()) + projection);
  }
};

// Inputs of a layer in one floating dtype, as autocast wants it, and wide.
struct Inputs {
  Dtype dtype;  // before they were widened
  std::vector<Tensor> wide_ones;

  explicit Inputs(std::span<const Tensor> given) {
    std::vector<Tensor> cast;
    const std::span<const Tensor> inputs = amp::cast_inputs(RnnLayer::info, given, cast);
    dtype = inputs[0].dtype();
    check_dtypes(inputs, dtype);
    for (const Tensor& input : inputs) wide_ones.push_back(wide(input));
  }
};

// By a product and a kernel for each step. `in`: as RnnLayer's.
RnnResult by_steps(RnnKind kind, const std::vector<int64_t>& batch_sizes, bool reverse,
                   std::span<const Tensor> in) {
  const auto out = apply(RnnLayer{{kind, reverse, batch_sizes}}, in);
  return {out[0], out[1], out[2]};
}

RnnResult rounded(const RnnResult& x, Dtype dtype) {
  return {x.y.to(dtype), x.h_n.to(dtype), x.c_n.defined() ? x.c_n.to(dtype) : x.c_n};
}

}  // namespace

void check_rnn_layer(RnnKind kind, const Tensor& x, const std::vector<int64_t>& sizes,
                     const Tensor& h_0, const Tensor& c_0, const RnnWeights& w,
                     bool is_bidirectional) {
  WICK_CHECK(x.defined() && x.rank() == 2, "rnn_layer: x needs 2 axes: got shape ",
             x.defined() ? x.shape() : Shape{});
  check_batch_sizes(x, sizes);
  check_w_hh(kind, w.w_hh);
  const int64_t gates = w.w_hh.size(0), units = gates / gates_of(kind), width = w.w_hh.size(1);
  check_shape("w_ih", w.w_ih, {gates, x.size(1)});
  WICK_CHECK(w.b_ih.defined() == w.b_hh.defined(), "rnn_layer: one bias is missing: got b_",
             w.b_ih.defined() ? "ih" : "hh", " alone, expected both or none");
  if (w.b_ih.defined()) check_shape("b_ih", w.b_ih, {gates});
  if (w.b_hh.defined()) check_shape("b_hh", w.b_hh, {gates});
  WICK_CHECK(kind == RnnKind::kLstm || (!c_0.defined() && !w.w_hr.defined()),
             "rnn_layer: c_0 and w_hr are an LSTM's: got them for ", kind);
  if (w.w_hr.defined()) {
    check_shape("w_hr", w.w_hr, {width, units});
  } else {
    check_shape("w_hh", w.w_hh, {gates, units});
  }
  const auto check_state = [&](const char* what, const Tensor& state, int64_t columns) {
    if (!state.defined()) return;
    check_shape(what, state,
                is_bidirectional ? Shape{2, sizes[0], columns} : Shape{sizes[0], columns});
  };
  check_state("h_0", h_0, width);
  check_state("c_0", c_0, units);
}

RnnResult rnn_layer(RnnKind kind, const Tensor& x, const std::vector<int64_t>& batch_sizes,
                    bool reverse, const Tensor& h_0, const Tensor& c_0, const RnnWeights& w) {
  check_rnn_layer(kind, x, batch_sizes, h_0, c_0, w);
  const Inputs inputs(std::array<Tensor, 8>{x, h_0, c_0, w.w_ih, w.w_hh, w.b_ih, w.b_hh, w.w_hr});
  const amp::Pause pause;  // what is widened stays so
  RnnResult result;
  if (!reverse) result = library_rnn_layer(kind, batch_sizes, inputs.wide_ones);
  if (!result.y.defined()) result = by_steps(kind, batch_sizes, reverse, inputs.wide_ones);
  return rounded(result, inputs.dtype);
}

RnnResult bidirectional_rnn_layer(RnnKind kind, const Tensor& x,
                                  const std::vector<int64_t>& batch_sizes, const Tensor& h_0,
                                  const Tensor& c_0, const RnnWeights& a, const RnnWeights& b) {
  check_defined("bidirectional_rnn_layer", x, a.w_ih, a.w_hh, b.w_ih, b.w_hh);
  check_rnn_layer(kind, x, batch_sizes, h_0, c_0, a, true);
  check_rnn_layer(kind, x, batch_sizes, h_0, c_0, b, true);
  WICK_CHECK(a.w_hh.shape() == b.w_hh.shape() && a.b_ih.defined() == b.b_ih.defined() &&
                 a.w_hr.defined() == b.w_hr.defined(),
             "bidirectional_rnn_layer: the directions differ: got w_hh ", a.w_hh.shape(), " and ",
             b.w_hh.shape(), ", expected weights of the same shapes");
  const Inputs inputs(std::array<Tensor, 13>{x, h_0, c_0, a.w_ih, a.w_hh, a.b_ih, a.b_hh, a.w_hr,
                                             b.w_ih, b.w_hh, b.b_ih, b.b_hh, b.w_hr});
  const amp::Pause pause;
  const std::vector<Tensor>& in = inputs.wide_ones;
  RnnResult result = library_rnn_layer(kind, batch_sizes, in);
  if (!result.y.defined()) {
    const auto direction = [&](int64_t d) {
      const auto state = [&](const Tensor& s) { return s.defined() ? s[d] : s; };
      const auto* const w = &in[3 + 5 * static_cast<size_t>(d)];
      return by_steps(
          kind, batch_sizes, d == 1,
          std::array<Tensor, 8>{in[0], state(in[1]), state(in[2]), w[0], w[1], w[2], w[3], w[4]});
    };
    const RnnResult forward = direction(0);
    result = side_by_side(forward, direction(1));
  }
  return rounded(result, inputs.dtype);
}

}  // namespace wick
