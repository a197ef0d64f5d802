#include "wick/bench/kernels/row.h"

#include <cmath>
#include <memory>

#include "wick/core/apply.h"
#include "wick/core/autograd.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/reduce.h"

namespace wick::bench {

namespace {

std::vector<Row>& registry() {
  static std::vector<Row> all;
  return all;
}

std::vector<std::function<void()>>& later() {
  static std::vector<std::function<void()>> all;
  return all;
}

Tensors to_dtype(const Tensors& tensors, Dtype from, Dtype to, Device device) {
  Tensors result;
  for (const Tensor& x : tensors) {
    result.push_back((x.dtype() == from ? x.to(to) : x).to(device));
  }
  return result;
}

Tensors floating(const Tensors& tensors) {
  Tensors result;
  for (const Tensor& x : tensors) {
    if (is_floating(x.dtype())) result.push_back(x);
  }
  return result;
}

// Numbers that are the same in every call: gradients of outputs.
Tensors weights_like(const Tensors& outputs) {
  Generator generator(7);
  Tensors result;
  for (const Tensor& y : outputs) {
    // With few bits, so that they are the same in every dtype.
    const Tensor weight = (rand(y.shape(), kFloat32, kCpu, &generator) - 0.5).to(kBFloat16);
    result.push_back(empty_like(y.detach()).copy_(weight));
  }
  return result;
}

// Outputs, and with `backward` the gradients of the floating inputs too.
Tensors results(const Function& function, const Tensors& inputs, bool backward) {
  if (!backward) {
    const NoGrad no_grad;
    return function(inputs);
  }
  Tensors leaves;
  for (const Tensor& x : inputs) {
    leaves.push_back(x.detach().clone());
    if (is_floating(x.dtype())) leaves.back().set_requires_grad();
  }
  const Tensors outputs = floating(function(leaves));
  return grad(outputs, floating(leaves), weights_like(outputs));
}

std::string check(const OpRow& op, const Setting& setting, Dtype dtype, bool backward) {
  const Setting small{setting.device, setting.shrink * op.check_shrink};
  const Tensors inputs = to_dtype(op.inputs(small), kFloat32, dtype, setting.device);
  const Tensors got = results(op.call, inputs, backward);
  const Tensors wide = to_dtype(inputs, dtype, kFloat64, kCpu);
  return difference(got, results(op.plain ? op.plain : op.call, wide, backward), dtype);
}

Work prepare_forward(const OpRow& op, Dtype dtype, const Setting& setting) {
  const Tensors inputs = to_dtype(op.inputs(setting), kFloat32, dtype, setting.device);
  Work work;
  {
    const NoGrad no_grad;
    const FlopCounter counter;
    const Tensors outputs = op.call(inputs);
    work.flops = counter.flops();
    work.bytes = op.bytes ? op.bytes(inputs) : bytes_of(inputs) + bytes_of(outputs);
  }
  work.call = [call = op.call, inputs] {
    const NoGrad no_grad;
    call(inputs);
  };
  work.check = [op, setting, dtype] { return check(op, setting, dtype, false); };
  return work;
}

Work prepare_backward(const OpRow& op, Dtype dtype, const Setting& setting) {
  const Tensors inputs = to_dtype(op.inputs(setting), kFloat32, dtype, setting.device);
  for (const Tensor& x : floating(inputs)) x.set_requires_grad();
  const Tensors outputs = floating(op.call(inputs));
  const Tensors weights = weights_like(outputs);
  const auto run = [outputs, leaves = floating(inputs), weights] {
    grad(outputs, leaves, weights, /*retain_graph=*/true);
  };
  Work work;
  {
    const FlopCounter counter;
    run();
    work.flops = counter.flops();
  }
  work.bytes = 2 * bytes_of(floating(inputs)) + bytes_of(weights);
  work.call = run;
  work.check = [op, setting, dtype] { return check(op, setting, dtype, true); };
  return work;
}

// Whether every element of `got` is near enough.
std::string difference(const Tensor& got, const Tensor& want, Dtype dtype) {
  if (got.shape() != want.shape()) {
    return concat("wrong shape: got ", got.shape(), ", expected ", want.shape());
  }
  if (got.numel() == 0) return {};
  if (!is_floating(want.dtype())) {
    return equal(got.cpu(), want.cpu()) ? "" : "wrong values";
  }
  const Tensor x = got.cpu().to(kFloat64), y = want.cpu().to(kFloat64);
  const double largest = abs(y).amax().item();
  const bool narrow = dtype == kBFloat16 || dtype == kFloat16;
  const double relative = narrow ? 0x1p-6 : 1e-5, absolute = (narrow ? 0x1p-6 : 1e-5) * largest;
  const Tensor error = abs(x - y);
  const Tensor right = error <= abs(y) * relative + absolute;  // NaN is not
  const int64_t wrong = x.numel() - right.to(kInt64).sum().item<int64_t>();
  // Where a ReLU or a maximum is near its kink, rounding may put an element on the other side.
  if (wrong <= x.numel() / 250'000) return {};
  return concat("wrong values: ", wrong, " of ", x.numel(), " differ, by up to ",
                error.amax().item());
}

}  // namespace

const std::vector<Row>& rows() {
  static const bool sorted = [] {
    for (const auto& add : later()) add();
    std::sort(registry().begin(), registry().end(),
              [](const Row& a, const Row& b) { return a.name < b.name; });
    return true;
  }();
  static_cast<void>(sorted);
  return registry();
}

bool add_row(Row row) {
  registry().push_back(std::move(row));
  return true;
}

bool add_rows_later(std::function<void()> add) {
  later().push_back(std::move(add));
  return true;
}

bool add_op(const OpRow& op) {
  for (const Dtype dtype : op.dtypes) {
    add_row({.name = concat(op.name, "/forward/", to_string(dtype)),
             .dtype = dtype,
             .prepare = [op, dtype](const Setting& s) { return prepare_forward(op, dtype, s); }});
    if (!op.backward) continue;
    add_row({.name = concat(op.name, "/backward/", to_string(dtype)),
             .dtype = dtype,
             .prepare = [op, dtype](const Setting& s) { return prepare_backward(op, dtype, s); }});
  }
  return true;
}

double bytes_of(const Tensors& tensors) {
  double sum = 0;
  for (const Tensor& x : tensors) sum += bytes_of(x);
  return sum;
}

std::string difference(const Tensors& got, const Tensors& want, Dtype dtype) {
  const NoGrad no_grad;
  if (got.size() != want.size()) return "wrong number of results";
  for (size_t i = 0; i < got.size(); ++i) {
    const std::string found = difference(got[i], want[i], dtype);
    if (!found.empty()) return found;
  }
  return {};
}

Tensor normal(const Shape& shape) { return empty(shape).normal_(); }
Tensor uniform(const Shape& shape, double low, double high) {
  return empty(shape).uniform_(low, high);
}
Tensor normal_images(const Shape& shape) {
  return empty(shape, kFloat32, kCpu, MemoryFormat::kChannelsLast).normal_();
}
Tensor indices(const Shape& shape, int64_t high) { return randint(0, high, shape); }

}  // namespace wick::bench
