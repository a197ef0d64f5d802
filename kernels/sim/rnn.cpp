#include "wick/kernels/rnn.h"

#include <algorithm>
#include <cstring>

#include "wick/core/base/check.h"
#include "wick/kernels/copy.h"
#include "wick/kernels/cuda/common/enter_device.h"
#include "wick/kernels/cuda/recurrent.h"
#include "wick/kernels/elementwise.h"
#include "wick/kernels/elementwise_ops_arithmetic.h"
#include "wick/kernels/matmul.h"
#include "wick/kernels/sim/library.h"
#include "wick/kernels/sim/simulator.h"

// Stands for cuDNN's recurrent layers. The weight space has gaps, and lies otherwise than cuDNN's:
// callers must ask where its parts are.
namespace wick::cuda {

namespace {

constexpr const char* kForwardCall = "cudnnRNNForward";
constexpr const char* kDataCall = "cudnnRNNBackwardData_v8";
constexpr const char* kWeightsCall = "cudnnRNNBackwardWeights_v8";
constexpr int64_t kGap = 64;  // bytes

struct RowRange {
  int64_t first, count;
};

View matrix(void* data, Dtype dtype, int64_t rows, int64_t columns) {
  return {data, dtype, kCpu, {rows, columns}, {columns, 1}};
}
View part(View x, RowRange rows) {
  x.data = x.as<char>() + rows.first * x.strides[0] * size_of(x.dtype);
  x.shape[0] = rows.count;
  return x;
}
View columns_of(View x, int64_t first, int64_t count) {
  x.data = x.as<char>() + first * size_of(x.dtype);
  x.shape[1] = count;
  return x;
}
View transposed(const View& x) {
  return {x.data, x.dtype, kCpu, {x.shape[1], x.shape[0]}, {x.strides[1], x.strides[0]}};
}
void copy_on_host(const View& x, const View& y) { WICK_DISPATCH(kCpu, copy(x, y)); }
void add_on_host(const View& x, const View& y) {
  const View operands[] = {y, x};
  WICK_DISPATCH(kCpu, elementwise(fn::Add{}, y.dtype, y, operands));
}

// What one direction keeps in the reserve: until its data's gradients, and from then on.
struct Kept {
  View gates, cells, own;        // as RnnStep's kept, cells and y, of all rows
  View dgates, dgates_h, dsums;  // as RnnStepGradient's; and with a projection, of its result

  static int64_t columns(const RnnLayerProblem& p) {
    return (kept_of(p.kind) + 2 + 2 * gates_of(p.kind)) * p.units + p.width;
  }
  Kept(const RnnLayerProblem& p, char* data) {
    const int64_t rows = p.rows();
    const auto take = [&](int64_t width) {
      char* const begin = data;
      data += rows * width * size_of(p.dtype);
      return matrix(begin, p.dtype, rows, width);
    };
    gates = take(kept_of(p.kind) * p.units);
    if (kept_of(p.kind) == 0) gates = {};
    cells = take(p.units);
    own = take(p.units);
    dgates = take(gates_of(p.kind) * p.units);
    dgates_h = take(gates_of(p.kind) * p.units);
    dsums = take(p.width);
    if (p.kind != RnnKind::kGru) dgates_h = {};
    if (!p.is_lstm()) cells = {};
  }
};

// The reserve begins with what says whose it is.
struct Header {
  uint64_t sum;      // of what follows the header
  uint64_t problem;  // and its data
  uint64_t stage;    // 1: after the forward call, 2: after the gradients of data
};
constexpr int64_t kHeaderBytes = 64;

int64_t kept_bytes(const RnnLayerProblem& p) {
  return p.rows() * Kept::columns(p) * size_of(p.dtype);
}

void mix(uint64_t& hash, const void* data, int64_t bytes) {
  const auto* const p = static_cast<const unsigned char*>(data);
  for (int64_t i = 0; i < bytes; ++i) hash = (hash ^ p[i]) * 0x100000001b3u;
}
void mix(uint64_t& hash, const View& x) {
  if (x.defined()) mix(hash, x.data, x.numel() * size_of(x.dtype));
}

// The forward call's problem and data, which gradients must have too.
uint64_t hash_of(const RnnLayerProblem& p, const RnnLayerPass& pass) {
  uint64_t hash = 0xcbf29ce484222325u;
  const int64_t numbers[] = {
      static_cast<int64_t>(p.kind), p.inputs, p.units, p.width, p.has_bias, p.is_bidirectional};
  mix(hash, numbers, sizeof(numbers));
  mix(hash, p.batch_sizes.data(), static_cast<int64_t>(p.batch_sizes.size() * sizeof(int64_t)));
  for (const View* x : {&pass.x, &pass.h_0, &pass.c_0, &pass.y}) mix(hash, *x);
  return hash;
}

// A run of a call on the host, where memory of the device has the same addresses.
class Run {
 public:
  Run(const RnnLayerProblem& problem, const RnnLayerPass& pass, const RecurrentSpace& weights)
      : p_(problem), pass_(pass), weights_(weights) {
    for (View* x : {&pass_.x, &pass_.h_0, &pass_.c_0, &pass_.y, &pass_.h_n, &pass_.c_n}) {
      *x = sim::on_host(*x);
    }
    int64_t first = 0;
    for (const int64_t count : p_.batch_sizes) {
      steps_.push_back({first, count});
      first += count;
    }
  }

  void forward() {
    if (!pass_.reserve.defined())
      pass_.reserve.data = host_.allocate(size_t(kHeaderBytes + kept_all()));
    for (int d = 0; d < p_.directions(); ++d) forward(d, kept(d));
    leave(1);
  }

  void backward_data(const RnnLayerGradients& g) {
    expect(kDataCall, 1);
    for (int d = 0; d < p_.directions(); ++d) backward_data(d, kept(d), g);
    leave(2);
  }

  void backward_weights() {
    expect(kWeightsCall, 2);
    for (int d = 0; d < p_.directions(); ++d) backward_weights(d, kept(d));
  }

 private:
  int64_t kept_all() const { return p_.directions() * kept_bytes(p_); }
  char* reserve() const { return pass_.reserve.as<char>(); }
  Kept kept(int d) const { return Kept(p_, reserve() + kHeaderBytes + d * kept_bytes(p_)); }

  uint64_t sum() const {
    uint64_t hash = 1;
    mix(hash, reserve() + kHeaderBytes, kept_all());
    return hash;
  }
  void leave(uint64_t stage) const {
    const Header header{sum(), hash_of(p_, pass_), stage};
    std::memcpy(reserve(), &header, sizeof(header));
  }
  void expect(const char* call, uint64_t stage) const {
    Header header;
    std::memcpy(&header, reserve(), sizeof(header));
    WICK_CHECK(header.stage == stage && header.sum == sum(), call,
               ": the reserve is not what the call before left");
    WICK_CHECK(header.problem == hash_of(p_, pass_), call,
               ": the problem or its data are not the forward call's");
  }

  View make(int64_t rows, int64_t columns) {
    const int64_t bytes = rows * columns * size_of(p_.dtype);
    return matrix(host_.allocate(static_cast<size_t>(bytes)), p_.dtype, rows, columns);
  }
  View zeros(int64_t rows, int64_t columns) {
    const View x = make(rows, columns);
    std::memset(x.data, 0, static_cast<size_t>(x.numel() * size_of(p_.dtype)));
    return x;
  }
  void multiply(const View& a, const View& b, const View& y, const View& bias = {}) {
    MatMulEpilogue epilogue;
    epilogue.bias = bias;
    cpu::matmul(a, b, epilogue, y, kAnyEngine, host_);
  }

  int64_t gates() const { return gates_of(p_.kind) * p_.units; }
  // Direction `d` of a state [D, B, N].
  View state(const View& x, int d) const {
    if (!x.defined()) return {};
    const int64_t batch = x.shape[1], width = x.shape[2];
    return matrix(x.as<char>() + d * batch * width * size_of(p_.dtype), p_.dtype, batch, width);
  }
  View own_columns(const View& y, int d) const { return columns_of(y, d * p_.width, p_.width); }
  std::vector<RowRange> steps(bool from_the_end) const {
    std::vector<RowRange> order = steps_;
    if (from_the_end) std::reverse(order.begin(), order.end());
    return order;
  }

  // Calls visit(piece of `whole`, the same in the space) for the gates from place `first` on.
  template <class Visit>
  void visit(int d, size_t first, int64_t RecurrentPlace::*member, const View& whole, int64_t parts,
             const Visit& visit_one) const {
    const std::vector<RecurrentPlace> places = recurrent_places(p_, weights_);
    const size_t each = places.size() / static_cast<size_t>(p_.directions());
    for (int64_t i = 0; i < parts; ++i) {
      const RecurrentPlace& place =
          places[static_cast<size_t>(d) * each + first + static_cast<size_t>(i)];
      const int64_t rows = whole.shape[0] / parts;
      const View piece = part(whole, {i * rows, rows});
      View other = piece;
      other.data = static_cast<char*>(weights_.data) + place.*member;
      visit_one(piece, other);
    }
  }
  // The parts of the weight space, in the order of RnnLayerWeights.
  RnnLayerWeights make_weights() {
    RnnLayerWeights w{make(gates(), p_.inputs), make(gates(), p_.width), {}, {}, {}};
    if (p_.has_bias) w.b_ih = make(gates(), 1), w.b_hh = make(gates(), 1);
    if (p_.is_projected()) w.w_hr = make(p_.width, p_.units);
    return w;
  }
  template <class Visit>
  void visit_all(int d, const RnnLayerWeights& w, const Visit& visit_one) const {
    const int64_t count = gates_of(p_.kind);
    const auto next = static_cast<size_t>(count);
    visit(d, 0, &RecurrentPlace::matrix, w.w_ih, count, visit_one);
    visit(d, next, &RecurrentPlace::matrix, w.w_hh, count, visit_one);
    if (p_.has_bias) {
      visit(d, 0, &RecurrentPlace::bias, w.b_ih, count, visit_one);
      visit(d, next, &RecurrentPlace::bias, w.b_hh, count, visit_one);
    }
    if (p_.is_projected()) visit(d, 2 * next, &RecurrentPlace::matrix, w.w_hr, 1, visit_one);
  }
  RnnLayerWeights weights_of(int d) {
    RnnLayerWeights w = make_weights();
    visit_all(d, w, [](const View& own, const View& given) { copy_on_host(given, own); });
    for (View* bias : {&w.b_ih, &w.b_hh}) {
      if (bias->defined()) *bias = {bias->data, p_.dtype, kCpu, {gates()}, {1}};
    }
    return w;
  }

  void forward(int d, const Kept& kept) {
    const RnnLayerWeights w = weights_of(d);
    const View gates_x = make(p_.rows(), gates()), h = state(pass_.h_n, d), c = state(pass_.c_n, d);
    multiply(pass_.x, transposed(w.w_ih), gates_x, w.b_ih);
    copy_on_host(state(pass_.h_0, d), h);
    if (c.defined()) copy_on_host(state(pass_.c_0, d), c);
    const View y = own_columns(pass_.y, d);
    for (const RowRange& rows : steps(d == 1)) {
      const RowRange first{0, rows.count};
      const View gates_h = make(rows.count, gates());
      multiply(part(h, first), transposed(w.w_hh), gates_h);
      RnnStep s;
      s.kind = p_.kind;
      s.x = part(gates_x, rows);
      s.h = gates_h;
      s.bias = w.b_hh;
      if (c.defined()) s.cell = part(c, first);
      if (!p_.is_projected()) s.hidden = part(h, first);
      if (kept.gates.defined()) s.kept = part(kept.gates, rows);
      if (kept.cells.defined()) s.cells = part(kept.cells, rows);
      s.y = part(kept.own, rows);
      WICK_DISPATCH(kCpu, rnn_forward(s));
      if (p_.is_projected()) multiply(s.y, transposed(w.w_hr), part(h, first));
      copy_on_host(part(h, first), part(y, rows));
    }
  }

  // What each row of `after` was before its step.
  View rows_before(const View& after, const View& start, int d) {
    const View before = make(after.shape[0], after.shape[1]),
               current = make(start.shape[0], start.shape[1]);
    copy_on_host(start, current);
    for (const RowRange& rows : steps(d == 1)) {
      copy_on_host(part(current, {0, rows.count}), part(before, rows));
      copy_on_host(part(after, rows), part(current, {0, rows.count}));
    }
    return before;
  }

  void backward_data(int d, const Kept& kept, const RnnLayerGradients& g) {
    const RnnLayerWeights w = weights_of(d);
    const bool is_gru = p_.kind == RnnKind::kGru;
    const View h_before = rows_before(own_columns(pass_.y, d), state(pass_.h_0, d), d);
    const View c_before = p_.is_lstm() ? rows_before(kept.cells, state(pass_.c_0, d), d) : View{};
    const View dh = state(sim::on_host(g.dh_0), d);
    copy_on_host(state(sim::on_host(g.dh_n), d), dh);
    View carry = is_gru ? zeros(dh.shape[0], p_.units) : state(sim::on_host(g.dc_0), d);
    if (p_.is_lstm()) copy_on_host(state(sim::on_host(g.dc_n), d), carry);
    const View dy = make(p_.rows(), p_.width);
    copy_on_host(own_columns(sim::on_host(g.dy), d), dy);
    for (const RowRange& rows : steps(d == 0)) {
      const RowRange first{0, rows.count};
      RnnStepGradient s;
      s.kind = p_.kind;
      if (kept.gates.defined()) s.kept = part(kept.gates, rows);
      if (p_.is_lstm() || is_gru) s.before = part(is_gru ? h_before : c_before, rows);
      if (!is_gru) s.after = part(p_.is_lstm() ? kept.cells : kept.own, rows);
      s.dh = part(dh, first);
      s.dy = part(dy, rows);
      if (carry.defined()) s.carry = part(carry, first);
      s.dgates = part(kept.dgates, rows);
      if (is_gru) s.dgates_h = part(kept.dgates_h, rows);
      if (p_.is_projected()) {
        const View sums = part(kept.dsums, rows);
        copy_on_host(s.dh, sums);
        add_on_host(s.dy, sums);
        s.dh = make(rows.count, p_.units);
        s.dy = {};
        multiply(sums, w.w_hr, s.dh);
      }
      WICK_DISPATCH(kCpu, rnn_backward(s));
      multiply(is_gru ? s.dgates_h : s.dgates, w.w_hh, part(dh, first));
    }
    if (is_gru) add_on_host(carry, dh);
    const View dx = make(p_.rows(), p_.inputs);
    multiply(kept.dgates, w.w_ih, dx);
    (d == 0 ? copy_on_host : add_on_host)(dx, sim::on_host(g.dx));
  }

  void backward_weights(int d, const Kept& kept) {
    const View dgates_h = kept.dgates_h.defined() ? kept.dgates_h : kept.dgates;
    const View h_before = rows_before(own_columns(pass_.y, d), state(pass_.h_0, d), d);
    const View ones = make(p_.rows(), 1);
    WICK_DISPATCH(kCpu, fill(ones, 1, 1));
    const RnnLayerWeights dw = make_weights();
    multiply(transposed(kept.dgates), pass_.x, dw.w_ih);
    multiply(transposed(dgates_h), h_before, dw.w_hh);
    if (p_.has_bias) {
      multiply(transposed(kept.dgates), ones, dw.b_ih);
      multiply(transposed(dgates_h), ones, dw.b_hh);
    }
    if (p_.is_projected()) multiply(transposed(kept.dsums), kept.own, dw.w_hr);
    visit_all(d, dw, [](const View& own, const View& given) { add_on_host(own, given); });
  }

  const RnnLayerProblem& p_;
  RnnLayerPass pass_;
  const RecurrentSpace& weights_;
  std::vector<RowRange> steps_;
  sim::HostWorkspace host_;
};

View view_of(const RecurrentSpace& space, Device device) {
  return {space.data, kUint8, device, {static_cast<int64_t>(space.bytes)}, {1}};
}

void check_view(const char* call, const char* what, const View& x, const Shape& shape,
                const RnnLayerProblem& p) {
  WICK_CHECK(x.defined() && x.shape == shape && x.strides == contiguous_strides(shape) &&
                 x.dtype == p.dtype && x.device == p.device,
             call, ": ", what, " is no dense ", p.dtype, " ", shape, " of ", p.device, ": got ",
             x.dtype, " ", x.shape, ", strides ", x.strides);
  sim::check_argument(call, what, x, kRnnLayerAlignment);
}

// Error unless the space has as many bytes as the sizes said.
void check_space(const char* call, const char* what, const View& space, size_t bytes) {
  WICK_CHECK(space.numel() == static_cast<int64_t>(bytes), call, ": ", what, ": got ",
             space.numel(), " bytes, expected ", bytes);
  sim::check_argument(call, what, space, kRnnLayerAlignment);
}

void check_call(const char* call, const RnnLayerProblem& p, const RnnLayerPass& pass,
                const RecurrentSpace& weights, const RecurrentSpace& work) {
  const std::optional<RecurrentSizes> sizes = recurrent_sizes(p, pass.reserve.defined());
  WICK_CHECK(sizes, call, ": not supported");
  const int64_t batch = p.batch_sizes[0];
  check_view(call, "x", pass.x, {p.rows(), p.inputs}, p);
  check_view(call, "y", pass.y, {p.rows(), p.directions() * p.width}, p);
  check_view(call, "h_0", pass.h_0, {p.directions(), batch, p.width}, p);
  if (p.is_lstm()) check_view(call, "c_0", pass.c_0, {p.directions(), batch, p.units}, p);
  check_space(call, "the weight space", view_of(weights, p.device), sizes->weights);
  check_space(call, "the work space", view_of(work, p.device), sizes->work);
  if (pass.reserve.defined()) check_space(call, "the reserve", pass.reserve, sizes->reserve);
}

}  // namespace

std::optional<RecurrentSizes> recurrent_sizes(const RnnLayerProblem& p, bool is_training) {
  sim::prepare("cudnnCreate", to_string(p.device));
  check(sim::enter_call("cudnnSetRNNDescriptor_v8"), "cudnnSetRNNDescriptor_v8");
  if ((p.dtype != kFloat32 && p.dtype != kFloat64) || p.batch_sizes.empty()) return std::nullopt;
  for (size_t t = 0; t < p.batch_sizes.size(); ++t) {
    if (p.batch_sizes[t] < 1 || (t > 0 && p.batch_sizes[t] > p.batch_sizes[t - 1])) {
      return std::nullopt;
    }
  }
  if (p.is_projected() && !p.is_lstm()) return std::nullopt;
  RecurrentSizes sizes;
  const int64_t gates = gates_of(p.kind), size = size_of(p.dtype);
  const int64_t matrices = gates * p.units * (p.inputs + p.width) + p.width * p.units;
  sizes.weights = static_cast<size_t>(
      p.directions() * (size * (matrices + 2 * gates * p.units) + (2 * gates + 2) * kGap));
  sizes.work = sim::kScratch;
  if (is_training) {
    sizes.reserve = static_cast<size_t>(kHeaderBytes + p.directions() * kept_bytes(p));
  }
  return sizes;
}

// First all biases, of which the later one lies before the earlier one, then the matrices: those of
// the input with gaps between.
std::vector<RecurrentPlace> recurrent_places(const RnnLayerProblem& p, const RecurrentSpace&) {
  const int64_t gates = gates_of(p.kind), size = size_of(p.dtype);
  const int64_t bias = p.units * size, count = 2 * gates * p.directions();
  int64_t next = count * bias, biases = count;
  std::vector<RecurrentPlace> places;
  const auto add = [&](int64_t columns, int64_t gap, bool has_bias) {
    places.push_back({next, has_bias ? --biases * bias : -1});
    next += p.units * columns * size + gap;
  };
  for (int64_t d = 0; d < p.directions(); ++d) {
    for (int64_t k = 0; k < gates; ++k) add(p.inputs, kGap, p.has_bias);
    for (int64_t k = 0; k < gates; ++k) add(p.width, 0, p.has_bias);
    if (p.is_projected()) add(p.width, kGap, false);
  }
  return places;
}

void recurrent_forward(const RnnLayerProblem& p, const RnnLayerPass& pass,
                       const RecurrentSpace& weights, const RecurrentSpace& work) {
  const cudaStream_t stream = enter_device(p.device);
  check_call(kForwardCall, p, pass, weights, work);
  check_view(kForwardCall, "h_n", pass.h_n, pass.h_0.shape, p);
  if (p.is_lstm()) check_view(kForwardCall, "c_n", pass.c_n, pass.c_0.shape, p);
  const auto run = [=] {
    const View space = view_of(weights, p.device);
    const sim::LibraryWork running({&pass.x, &pass.h_0, &pass.c_0, &space},
                                   {&pass.y, &pass.h_n, &pass.c_n, &pass.reserve}, work.data);
    Run(p, pass, weights).forward();
  };
  check(sim::enqueue(kForwardCall, stream, run), kForwardCall);
}

void recurrent_backward_data(const RnnLayerProblem& p, const RnnLayerPass& pass,
                             const RnnLayerGradients& g, const RecurrentSpace& weights,
                             const RecurrentSpace& work) {
  const cudaStream_t stream = enter_device(p.device);
  check_call(kDataCall, p, pass, weights, work);
  WICK_CHECK(pass.reserve.defined(), kDataCall, ": there is no reserve");
  check_view(kDataCall, "dy", g.dy, pass.y.shape, p);
  check_view(kDataCall, "dx", g.dx, pass.x.shape, p);
  check_view(kDataCall, "dh_n", g.dh_n, pass.h_0.shape, p);
  check_view(kDataCall, "dh_0", g.dh_0, pass.h_0.shape, p);
  if (p.is_lstm()) check_view(kDataCall, "dc_n", g.dc_n, pass.c_0.shape, p);
  if (p.is_lstm()) check_view(kDataCall, "dc_0", g.dc_0, pass.c_0.shape, p);
  const auto run = [=] {
    const View space = view_of(weights, p.device);
    const sim::LibraryWork running(
        {&pass.y, &pass.h_0, &pass.c_0, &space, &g.dy, &g.dh_n, &g.dc_n, &pass.reserve},
        {&g.dx, &g.dh_0, &g.dc_0, &pass.reserve}, work.data);
    Run(p, pass, weights).backward_data(g);
  };
  check(sim::enqueue(kDataCall, stream, run), kDataCall);
}

void recurrent_backward_weights(const RnnLayerProblem& p, const RnnLayerPass& pass,
                                const RecurrentSpace& dweights, const RecurrentSpace& work) {
  const cudaStream_t stream = enter_device(p.device);
  check_call(kWeightsCall, p, pass, dweights, work);
  WICK_CHECK(pass.reserve.defined(), kWeightsCall, ": there is no reserve");
  const auto run = [=] {
    const View space = view_of(dweights, p.device);
    const sim::LibraryWork running({&pass.x, &pass.y, &pass.h_0, &pass.reserve}, {&space},
                                   work.data);
    Run(p, pass, dweights).backward_weights();
  };
  check(sim::enqueue(kWeightsCall, stream, run), kWeightsCall);
}

}  // namespace wick::cuda
