#include "wick/core/ops/matmul.h"

#include <array>
#include <cmath>

#include "wick/core/apply.h"
#include "wick/core/ops/detail/compute_dtype.h"
#include "wick/core/ops/detail/elementwise_op.h"
#include "wick/core/ops/detail/matmul_fused.h"
#include "wick/core/ops/detail/matmul_plan.h"
#include "wick/core/ops/elementwise.h"
#include "wick/kernels/elementwise_ops_activation.h"

namespace wick {

namespace {

constexpr AutocastPolicy kLower{.cuda = Autocast::kLower, .cpu = Autocast::kLower};

void check_matmul_dtypes(const char* op, const Tensor& a, const Tensor& b) {
  WICK_CHECK(a.dtype(op) == b.dtype(op), op, ": dtypes differ: got ", to_string(a.dtype()), " and ",
             to_string(b.dtype()));
}

void check_matmul_operands(const char* op, const Tensor& a, const Tensor& b, int least_rank) {
  WICK_CHECK(a.rank(op) >= least_rank && b.rank(op) >= least_rank, op, ": inputs need ", least_rank,
             least_rank == 1 ? " axis" : " axes", " or more: got shapes ", a.shape(), " and ",
             b.shape());
  WICK_CHECK(a.size(-1) == b.size(b.rank() == 1 ? 0 : -2), op, ": inner sizes differ: got ",
             a.shape(), " x ", b.shape(), ", expected [..., M, K] x [..., K, N]");
}

// A weight of 2 axes, and a bias that may be undefined.
void check_linear(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  WICK_CHECK(weight.rank(op) == 2, op, ": weight needs 2 axes or 1: got shape ", weight.shape());
  WICK_CHECK(x.rank(op) >= 1 && x.size(-1) == weight.size(1), op, ": features differ: got x ",
             x.shape(), " and weight ", weight.shape(), ", expected equal last sizes");
  if (!bias.defined()) return;
  WICK_CHECK(bias.rank() == 1 && bias.size(0) == weight.size(0), op,
             ": bias has the wrong shape: got ", bias.shape(), ", expected [", weight.size(0), "]");
}

// Kernels want one of the last two strides to be 1 and the other to step over it.
Tensor with_kernel_strides(const Tensor& x) {
  const int rank = x.rank();
  const int64_t rows = x.size(-2), columns = x.size(-1);
  const int64_t row = x.strides()[rank - 2], column = x.strides()[rank - 1];
  const bool by_rows = (column == 1 || columns <= 1) && (rows <= 1 || row >= columns);
  const bool by_columns = (row == 1 || rows <= 1) && (columns <= 1 || column >= rows);
  return by_rows || by_columns ? x : x.contiguous();
}

// Each operand is kept for the gradient of the other.
void save_operands(Saved& saved, const Tensor& a, const Tensor& b) {
  saved.save(saved.needs(1) ? a : Tensor(), saved.needs(0) ? b : Tensor());
}

// What follows a product; `before`, if it is not null, gets the activation's argument.
struct Epilogue {
  Tensor bias = {};
  Activation activation = Activation::kNone;
  Tensor* before = nullptr;
  Tensor residual = {};  // of the product's shape; with neither activation nor scale
  double scale = 1;      // with nothing else
};

// Multiplies on views. All of one dtype.
Tensor multiply(const Tensor& a, const Tensor& b, const Shape& shape, const Epilogue& epilogue) {
  const Tensor& bias = epilogue.bias;
  if (multiplies_in_float32(a.device(), a.dtype())) {
    Epilogue in_float32 = epilogue;
    for (Tensor* x : {&in_float32.bias, &in_float32.residual}) {
      if (x->defined()) *x = x->to(kFloat32);
    }
    const Tensor y = multiply(a.to(kFloat32), b.to(kFloat32), shape, in_float32);
    if (epilogue.before != nullptr) *epilogue.before = epilogue.before->to(a.dtype());
    return y.to(a.dtype());
  }
  Tensor y = empty(shape, a.dtype(), a.device());
  if (epilogue.before != nullptr) *epilogue.before = empty(shape, a.dtype(), a.device());
  if (y.numel() == 0) return y;
  const Tensor ka = with_kernel_strides(a), kb = with_kernel_strides(b);
  const Tensor kbias = bias.defined() ? bias.contiguous() : bias;
  const Tensor& residual = epilogue.residual;
  const Tensor kresidual = residual.defined() ? residual.contiguous() : residual;
  MatMulEpilogue follows;
  follows.activation = epilogue.activation;
  follows.scale = epilogue.scale;
  if (kresidual.defined()) follows.residual = kresidual.view_for_kernel();
  if (kbias.defined()) follows.bias = kbias.view_for_kernel();
  if (epilogue.before != nullptr) follows.before = epilogue.before->view_for_kernel();
  planned_matmul(ka.view_for_kernel(), kb.view_for_kernel(), follows, y.view_for_kernel());
  return y;
}

Shape with_last_two(Shape batch, int64_t rows, int64_t columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}

// a · b of rank 2 or more, times `scale`.
Tensor multiply_batch(const char* op, const Tensor& a, const Tensor& b, double scale) {
  check_matmul_dtypes(op, a, b);
  WICK_CHECK(a.dtype() != kBool, op,
             ": wrong dtype: got bool, expected numbers: convert to int64 or float32");
  Shape batch_a = a.shape(), batch_b = b.shape();
  for (Shape* shape : {&batch_a, &batch_b}) {
    shape->erase(shape->rank() - 1);
    shape->erase(shape->rank() - 1);
  }
  const Shape batch = broadcast_shapes(op, batch_a, batch_b);
  const int64_t m = a.size(-2), k = a.size(-1), n = b.size(-1);
  Epilogue epilogue;
  epilogue.scale = scale;
  const auto expanded = [](const Tensor& x, const Shape& shape) {
    return x.shape() == shape ? x : x.expand(shape);
  };
  return multiply(expanded(a, with_last_two(batch, m, k)), expanded(b, with_last_two(batch, k, n)),
                  with_last_two(batch, m, n), epilogue);
}

struct MatMul {
  static constexpr OpInfo info{.name = "matmul", .autocast = kLower, .broadcasts = true};

  // Ranks are 2 or more.
  Tensor forward(Saved& saved, const Tensor& a, const Tensor& b) const {
    save_operands(saved, a, b);
    return multiply_batch("matmul", a, b, 1);
  }

  Gradients backward(const Saved& saved, const Tensor& dy) const {
    // A product that is to be summed over the batch is rounded after that.
    const auto as_needed = [&](int i, const Tensor& x) {
      const Shape& shape = saved.input(i).shape;
      const int last = shape.rank() - 2;
      bool sums = shape.rank() != dy.rank();
      for (int axis = 0; axis < last && !sums; ++axis) sums = shape[axis] != dy.size(axis);
      return sums ? wide(x) : x;
    };
    Gradients grads(2);
    if (saved.needs(0)) {
      grads[0] = matmul(as_needed(0, dy), as_needed(0, saved[1]).transpose(-2, -1));
    }
    if (saved.needs(1)) {
      grads[1] = matmul(as_needed(1, saved[0]).transpose(-2, -1), as_needed(1, dy));
    }
    return grads;
  }

  double flops(std::span<const Tensor> inputs, const Tensor& y) const {
    return 2.0 * static_cast<double>(y.numel()) * static_cast<double>(inputs[0].size(-1));
  }
};

// The rows of a tensor of `shape` seen as one tall matrix.
int64_t rows_of(const Shape& shape) {
  int64_t rows = 1;
  for (int axis = 0; axis + 1 < shape.rank(); ++axis) rows *= shape[axis];
  return rows;
}

// dy times the derivative of the activation `F`, at what it has kept.
template <class F>
Tensor activation_gradient(const Tensor& dy, const Tensor& kept) {
  if (grad_enabled()) return F{}.gradient(wide(dy), wide(kept)).to(dy.dtype());
  return apply(UnaryBackward<F>{}, dy, kept);
}

// Outputs: y, and for backward alone GELU's argument, which is not defined where none is kept.
// Being an output, it has a history, and so GELU a second derivative.
template <Activation kActivation>
struct Linear {
  static constexpr bool kIsGelu = kActivation == Activation::kGeluTanh;
  static constexpr OpInfo info{.name = kIsGelu                            ? "linear_gelu"
                                       : kActivation == Activation::kRelu ? "linear_relu"
                                                                          : "linear",
                               .autocast = kLower};

  std::array<Tensor, 2> forward(Saved& saved, const Tensor& x, const Tensor& weight,
                                const Tensor& bias) const {
    check_linear(info.name, x, weight, bias);
    check_matmul_dtypes(info.name, x, weight);
    if (bias.defined()) check_matmul_dtypes(info.name, x, bias);
    WICK_CHECK(is_floating(x.dtype()), info.name, ": needs a floating dtype: got ",
               to_string(x.dtype()));
    save_operands(saved, x, weight);
    const int64_t k = weight.size(1), n = weight.size(0);
    const int64_t rows = rows_of(x.shape());
    Shape shape = x.shape();
    shape[x.rank() - 1] = n;
    Tensor before;
    Tensor* const kept = kIsGelu && saved.recording() ? &before : nullptr;
    const Tensor y =
        multiply(x.reshape({rows, k}), weight.t(), {rows, n}, {bias, kActivation, kept})
            .reshape(shape);
    if (kept != nullptr) before = before.reshape(shape);
    if (kIsGelu) saved.save(before);
    if (kActivation == Activation::kRelu) saved.save(y);
    return {y, before};
  }

  // dbefore: of GELU's argument, in a second derivative.
  Gradients backward(const Saved& saved, const Tensor& dy, const Tensor& dbefore) const {
    Tensor d = dy;
    if constexpr (kActivation == Activation::kRelu) d = activation_gradient<fn::Relu>(dy, saved[2]);
    if constexpr (kIsGelu) {
      if (dy.defined()) d = activation_gradient<fn::GeluTanh>(dy, saved[2]);
      if (dbefore.defined()) d = d.defined() ? d + dbefore : dbefore;
    }
    Gradients grads(3);
    const Shape& weight = saved.input(1).shape;
    const int64_t k = weight[1], n = weight[0], rows = rows_of(d.shape());
    if (saved.needs(0)) grads[0] = matmul(d, saved[1]);
    if (saved.needs(1)) grads[1] = matmul(d.reshape({rows, n}).t(), saved[0].reshape({rows, k}));
    if (saved.needs(2)) grads[2] = d.reshape({rows, n}).sum({0});
    return grads;
  }

  double flops(std::span<const Tensor> inputs, const Tensor& y) const {
    return 2.0 * static_cast<double>(y.numel()) * static_cast<double>(inputs[1].size(1));
  }
};

struct MatMulScaled {
  static constexpr OpInfo info{
      .name = "matmul_scaled", .broadcasts = true, .differentiable = false};
  double scale = 1;
  static constexpr auto fields = std::tuple{field("scale", &MatMulScaled::scale)};

  Tensor forward(Saved&, const Tensor& a, const Tensor& b) const {
    check_matmul_operands(info.name, a, b, 2);
    WICK_CHECK(is_floating(a.dtype()) && std::isfinite(scale), info.name, ": dtype and scale: got ",
               a.dtype(), " and ", scale, ", expected a floating dtype and a finite number");
    if (a.size(-1) == 0) return multiply_batch(info.name, a, b, 1);
    return multiply_batch(info.name, a, b, scale);
  }
  double flops(std::span<const Tensor> inputs, const Tensor& y) const {
    return 2.0 * static_cast<double>(y.numel()) * static_cast<double>(inputs[0].size(-1));
  }
};

struct LinearSum {
  static constexpr OpInfo info{.name = "linear_sum", .differentiable = false};

  Tensor forward(Saved&, const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const Tensor& residual) const {
    check_linear(info.name, x, weight, bias);
    for (const Tensor* other : {&weight, &bias, &residual}) {
      if (other->defined()) check_matmul_dtypes(info.name, x, *other);
    }
    Shape shape = x.shape();
    shape[x.rank() - 1] = weight.size(0);
    WICK_CHECK(is_floating(x.dtype()) && residual.shape() == shape, info.name,
               ": the residual has the wrong shape or dtype: got ", residual.dtype(),
               residual.shape(), ", expected a floating dtype and ", shape);
    const int64_t rows = rows_of(x.shape()), k = weight.size(1), n = weight.size(0);
    if (k == 0) return linear(x, weight, bias) + residual;
    Epilogue epilogue;
    epilogue.bias = bias;
    epilogue.residual = residual.reshape({rows, n});
    return multiply(x.reshape({rows, k}), weight.t(), {rows, n}, epilogue).reshape(shape);
  }
  double flops(std::span<const Tensor> inputs, const Tensor& y) const {
    return 2.0 * static_cast<double>(y.numel()) * static_cast<double>(inputs[1].size(1));
  }
};

struct Dot {
  static constexpr OpInfo info{.name = "dot", .autocast = {.cuda = Autocast::kPromote}};

  Tensor forward(Saved& saved, const Tensor& a, const Tensor& b) const {
    save_operands(saved, a, b);
    return matmul(a, b);
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    Gradients grads(2);
    if (saved.needs(0)) grads[0] = saved[1] * dy;
    if (saved.needs(1)) grads[1] = saved[0] * dy;
    return grads;
  }
};

// beta x + alpha a b
struct AddMm {
  static constexpr OpInfo info{.name = "addmm", .autocast = kLower, .broadcasts = true};
  Scalar beta, alpha;
  static constexpr auto fields =
      std::tuple{field("beta", &AddMm::beta), field("alpha", &AddMm::alpha)};

  Tensor forward(Saved& saved, const Tensor& x, const Tensor& a, const Tensor& b) const {
    saved.save(saved.needs(2) ? a : Tensor(), saved.needs(1) ? b : Tensor());
    return add(beta.to_double() == 1 ? x : mul(x, beta), matmul(a, b), alpha);
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    Gradients grads(3);
    if (saved.needs(0)) grads[0] = mul(dy, beta).to(saved.input(0).dtype);
    const Tensor scaled = mul(dy, alpha).to(saved.input(1).dtype);
    if (saved.needs(1)) grads[1] = matmul(scaled, saved[1].t());
    if (saved.needs(2)) grads[2] = matmul(saved[0].t(), scaled);
    return grads;
  }
};

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  check_matmul_operands("matmul", a, b, 1);
  if (a.rank() == 1) return matmul(a.unsqueeze(0), b).squeeze(b.rank() == 1 ? 0 : -2);
  if (b.rank() == 1) return matmul(a, b.unsqueeze(1)).squeeze(-1);
  if (a.rank() > 2 && b.rank() == 2) {  // one tall matrix instead of a batch of them
    Shape shape = a.shape();
    const int64_t k = a.size(-1);
    shape[a.rank() - 1] = b.size(1);
    return apply(MatMul{}, a.reshape({rows_of(a.shape()), k}), b).reshape(shape);
  }
  return apply(MatMul{}, a, b);
}

namespace {
void check_ranks(const char* op, const Tensor& a, const Tensor& b, int rank) {
  WICK_CHECK(a.rank(op) == rank && b.rank(op) == rank, op, ": wrong number of axes: got shapes ",
             a.shape(), " and ", b.shape(), ", expected ", rank, " axes each");
}
}  // namespace

Tensor matmul_scaled(const Tensor& a, const Tensor& b, double scale) {
  return apply(MatMulScaled{scale}, a, b);
}
Tensor linear_sum(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Tensor& residual) {
  return apply(LinearSum{}, x, weight, bias, residual);
}

Tensor mm(const Tensor& a, const Tensor& b) {
  check_ranks("mm", a, b, 2);
  return matmul(a, b);
}
Tensor bmm(const Tensor& a, const Tensor& b) {
  check_ranks("bmm", a, b, 3);
  WICK_CHECK(a.size(0) == b.size(0), "bmm: batch sizes differ: got ", a.shape(), " and ", b.shape(),
             ", expected equal first sizes");
  return matmul(a, b);
}
Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) {
  check_ranks("addmm", a, b, 2);
  return apply(AddMm{beta, alpha}, x, a, b);
}
Tensor dot(const Tensor& a, const Tensor& b) {
  check_ranks("dot", a, b, 1);
  return apply(Dot{}, a, b);
}
Tensor outer(const Tensor& a, const Tensor& b) {
  check_ranks("outer", a, b, 1);
  return mul(a.unsqueeze(1), b);
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation) {
  if (weight.rank() == 1) {
    WICK_CHECK(!bias.defined(), "linear: a weight of 1 axis takes no bias: got bias ", bias.shape(),
               ", expected none");
    return linear(x, weight.unsqueeze(0), {}, activation).squeeze(-1);
  }
  check_linear("linear", x, weight, bias);
  switch (activation) {
    case Activation::kNone: break;
    case Activation::kRelu: return apply(Linear<Activation::kRelu>{}, x, weight, bias)[0];
    case Activation::kGeluTanh: return apply(Linear<Activation::kGeluTanh>{}, x, weight, bias)[0];
  }
  return apply(Linear<Activation::kNone>{}, x, weight, bias)[0];
}

}  // namespace wick
