// One step of each optimizer over 8 tensors of 2^20 elements; checked against itself in float64.
// Bytes: parameter, gradient and state read, parameter and state written.
#include "wick/optim/optim.h"

#include <memory>

#include "wick/bench/kernels/row.h"
#include "wick/core/ops/random.h"
#include "wick/core/random.h"

namespace wick::bench::optim_rows {
namespace {

constexpr int kTensors = 8;

// The same numbers in every dtype that has as many digits; gradients are `scale` times as large.
Tensors parameters(const Setting& s, Dtype dtype, Device device, double scale) {
  Generator generator(3);
  Tensors params;
  for (int i = 0; i < kTensors; ++i) {
    const auto draw = [&] {
      return randn({s.some(1 << 20)}, kFloat32, kCpu, &generator).to(dtype).to(device);
    };
    const Tensor param = draw();
    param.set_requires_grad();
    param.set_grad(draw() * scale);
    params.push_back(param);
  }
  return params;
}

template <class O, class Options>
std::string check(const Setting& s, Dtype dtype, const Options& options, double scale) {
  const Tensors got = parameters(s, dtype, s.device, scale);
  const Tensors want = parameters(s, kFloat64, kCpu, scale);
  if (dtype != kFloat32) {  // as narrow as those are
    for (int i = 0; i < kTensors; ++i) {
      want[static_cast<size_t>(i)].detach().copy_(got[static_cast<size_t>(i)].detach());
      want[static_cast<size_t>(i)].set_grad(got[static_cast<size_t>(i)].grad().cpu().to(kFloat64));
    }
  }
  O ours(got, options), reference(want, options);
  for (int step = 0; step < 2; ++step) {
    ours.step();
    reference.step();
  }
  return difference(got, want, dtype);
}

// `state`: float32 tensors kept for each parameter, and a master copy of a narrow one.
template <class O, class Options>
bool add_optimizer(const char* name, const Options& options, int state, Dtype dtype = kFloat32,
                   double scale = 1) {
  return add_row({.name = concat("optim/", name, "/step/", to_string(dtype)),
                  .prepare = [=](const Setting& s) {
                    const auto optimizer =
                        std::make_shared<O>(parameters(s, dtype, s.device, scale), options);
                    optimizer->step();
                    const auto elements = static_cast<double>(kTensors * s.some(1 << 20));
                    const auto size = static_cast<double>(size_of(dtype));
                    return Work{.call = [=] { optimizer->step(); },
                                .check = [=] { return check<O>(s, dtype, options, scale); },
                                .bytes = elements * (3 * size + 8.0 * state)};
                  }});
}

using namespace optim;

[[maybe_unused]] const bool kOptimizers[] = {
    add_optimizer<SGD>("sgd", SGDOptions{}, 0),
    add_optimizer<SGD>("sgd_momentum", SGDOptions{.momentum = 0.9}, 1),
    add_optimizer<Adam>("adam", AdamOptions{}, 2),
    add_optimizer<AdamW>("adamw", AdamWOptions{}, 2),
    add_optimizer<AdamW>("adamw", AdamWOptions{}, 3, kBFloat16),
    add_optimizer<AdamW>("adamw_vanished_gradients", AdamWOptions{}, 2, kFloat32, 1e-21),
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
