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

template <class O, class Options>
std::string check(const Setting& s, const Model& model, const Options& options) {
  const Tensors got = parameters(s, model, model.dtype, s.device);
  const Tensors want = parameters(s, model, kFloat64, kCpu);
  if (model.dtype != kFloat32) {  // as narrow as those are
    for (size_t i = 0; i < got.size(); ++i) {
      want[i].detach().copy_(got[i].detach());
      want[i].set_grad(got[i].grad().cpu().to(kFloat64));
    }
  }
  O ours(got, options), reference(want, options);
  for (int step = 0; step < 2; ++step) {
    ours.step();
    reference.step();
  }
  return difference(got, want, model.dtype);
}

// `state`: float32 tensors kept for each parameter, and a master copy of a narrow one.
template <class O, class Options>
bool add_optimizer(const char* name, const Options& options, int state, const Model& model = {}) {
  return add_row({.name = concat("optim/", name, "/step/", to_string(model.dtype)),
                  .prepare = [=](const Setting& s) {
                    const auto optimizer =
                        std::make_shared<O>(parameters(s, model, model.dtype, s.device), options);
                    optimizer->step();
                    const auto elements = static_cast<double>(model.tensors(s) * model.elements(s));
                    const auto size = static_cast<double>(size_of(model.dtype));
                    return Work{.call = [=] { optimizer->step(); },
                                .check = [=] { return check<O>(s, model, options); },
                                .bytes = elements * (3 * size + 8.0 * state)};
                  }});
}

using namespace optim;

[[maybe_unused]] const bool kOptimizers[] = {
    add_optimizer<SGD>("sgd", SGDOptions{}, 0),
    add_optimizer<SGD>("sgd_momentum", SGDOptions{.momentum = 0.9}, 1),
    add_optimizer<Adam>("adam", AdamOptions{}, 2),
    add_optimizer<AdamW>("adamw", AdamWOptions{}, 2),
    add_optimizer<AdamW>("adamw", AdamWOptions{}, 3, {.dtype = kBFloat16}),
    add_optimizer<AdamW>("adamw_vanished_gradients", AdamWOptions{}, 2, {.scale = 1e-21}),
    add_optimizer<AdamW>("adamw_1000_tiny_tensors", AdamWOptions{}, 2, {.tiny = true}),
    add_optimizer<Adamax>("adamax", AdamaxOptions{}, 2),
    add_optimizer<NAdam>("nadam", NAdamOptions{}, 2),
    add_optimizer<RAdam>("radam", RAdamOptions{}, 2),
    add_optimizer<RMSprop>("rmsprop", RMSpropOptions{}, 1),
    add_optimizer<Adagrad>("adagrad", AdagradOptions{}, 1),
    add_optimizer<Adadelta>("adadelta", AdadeltaOptions{}, 2),
    add_optimizer<ASGD>("asgd", ASGDOptions{}, 1),
    add_optimizer<LARS>("lars", LARSOptions{}, 1),
    add_optimizer<LAMB>("lamb", LAMBOptions{}, 2),
    add_optimizer<NovoGrad>("novograd", NovoGradOptions{}, 1),
};

}  // namespace
}  // namespace wick::bench::optim_rows
