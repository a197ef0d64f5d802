// One step of each optimizer over 8 tensors of 2^20 elements, or a thousand tiny ones; checked
// against itself in float64.
// Bytes: parameter, gradient and state read, parameter and state written.
#include "wick/optim/optim.h"

#include <memory>

#include "wick/bench/kernels/row.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/random.h"
#include "wick/core/random.h"

namespace wick::bench::optim_rows {
namespace {

// What there is to update. Gradients are `scale` times as large as the parameters.
struct Model {
  bool tiny = false;
  Dtype dtype = kFloat32;
  double scale = 1;

  int64_t tensors(const Setting& s) const { return tiny ? s.some(1000) : 8; }
  int64_t elements(const Setting& s) const { return tiny ? 300 : s.some(1 << 20); }
};

// The same numbers in every dtype that has as many digits.
Tensors parameters(const Setting& s, const Model& model, Dtype dtype, Device device) {
  Generator generator(3);
  Tensors params;
  for (int64_t i = 0; i < model.tensors(s); ++i) {
    const auto draw = [&] {
      return randn({model.elements(s)}, kFloat32, kCpu, &generator).to(dtype).to(device);
    };
    const Tensor param = draw();
    param.set_requires_grad();
    param.set_grad(draw() * model.scale);
    params.push_back(param);
  }
  return params;
}

using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(const Tensors& params)>;

std::string check(const Setting& s, const Model& model, const MakeOptimizer& make) {
  const Tensors got = parameters(s, model, model.dtype, s.device);
  const Tensors want = parameters(s, model, kFloat64, kCpu);
  if (model.dtype != kFloat32) {  // as narrow as those are
    for (size_t i = 0; i < got.size(); ++i) {
      want[i].detach().copy_(got[i].detach());
      want[i].set_grad(got[i].grad().cpu().to(kFloat64));
    }
  }
  const auto ours = make(got), reference = make(want);
  for (int step = 0; step < 2; ++step) {
    ours->step();
    reference->step();
  }
  return difference(got, want, model.dtype);
}

void add_optimizer(const std::string& name, const MakeOptimizer& make, const Model& model = {}) {
  add_row({.name = concat("optim/", name, "/step/", to_string(model.dtype)),
           .prepare = [=](const Setting& s) {
             const std::shared_ptr<optim::Optimizer> optimizer =
                 make(parameters(s, model, model.dtype, s.device));
             optimizer->step();
             const auto elements = static_cast<double>(model.tensors(s) * model.elements(s));
             const auto size = static_cast<double>(size_of(model.dtype));
             const auto state = static_cast<double>(optimizer->state_bytes());
             return Work{.call = [=] { optimizer->step(); },
                         .check = [=] { return check(s, model, make); },
                         .bytes = elements * 3 * size + 2 * state};
           }});
}

template <class O>
MakeOptimizer with(const typename O::Options& options) {
  return [options](const Tensors& params) { return std::make_unique<O>(params, options); };
}

[[maybe_unused]] const bool kOptimizers = add_rows_later([] {
  for (const std::string& name : optim::optimizer_names()) {
    const optim::OptimizerEntry& entry = optim::find_optimizer(name);
    if (entry.make_default) add_optimizer(name, entry.make_default);
  }
  add_optimizer("sgd_momentum", with<optim::SGD>({.momentum = 0.9}));
  const MakeOptimizer adamw = with<optim::AdamW>({});
  add_optimizer("adamw", adamw, {.dtype = kBFloat16});
  add_optimizer("adamw_vanished_gradients", adamw, {.scale = 1e-21});
  add_optimizer("adamw_1000_tiny_tensors", adamw, {.tiny = true});
});

}  // namespace
}  // namespace wick::bench::optim_rows
