#include <gtest/gtest.h>

#include <cmath>

#include "wick/core/ops/elementwise.h"
#include "wick/core/stream.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/optim/reference.h"
#ifdef WICK_SIM
#include "wick/kernels/sim/simulator.h"
#include "wick/tests/harness/scoped_blocks.h"
#include "wick/tests/optim/launches.h"
#endif

// LARS, LAMB and NovoGrad against plain loops in doubles, written from their papers.

namespace wick::testing {
namespace {

using namespace optim;
using Numbers = std::vector<double>;

double norm_of(const Numbers& x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return std::sqrt(sum);
}

// A parameter, its moments, and what is kept of its gradient's norm.
struct Reference {
  Numbers w, first, second;
  double norm = 0;

  explicit Reference(const Numbers& start) : w(start), first(start.size()), second(start.size()) {}
};

void follow(const LARSOptions& o, Reference& p, const Numbers& g, int) {
  const double decay = o.decoupled_weight_decay ? 0 : o.weight_decay;
  const double size = norm_of(p.w), slope = norm_of(g);
  double local = 1;
  if (o.trust_coefficient > 0 && size > 0 && slope > 0) {
    local = o.trust_coefficient * size / (slope + decay * size + o.eps);
  }
  for (size_t i = 0; i < g.size(); ++i) {
    const double d = (o.maximize ? -g[i] : g[i]);
    if (o.decoupled_weight_decay) p.w[i] *= 1 - o.lr * o.weight_decay;
    p.first[i] = o.momentum * p.first[i] + o.lr * local * (d + decay * p.w[i]);
    p.w[i] -= p.first[i];
  }
}

void follow(const LAMBOptions& o, Reference& p, const Numbers& g, int step) {
  const double bias1 = o.bias_correction ? 1 - std::pow(o.beta1, step) : 1;
  const double bias2 = o.bias_correction ? 1 - std::pow(o.beta2, step) : 1;
  Numbers u(g.size());
  for (size_t i = 0; i < g.size(); ++i) {
    const double d = o.maximize ? -g[i] : g[i];
    p.first[i] = o.beta1 * p.first[i] + (o.grad_averaging ? 1 - o.beta1 : 1) * d;
    p.second[i] = o.beta2 * p.second[i] + (1 - o.beta2) * d * d;
    u[i] = p.first[i] / bias1 / (std::sqrt(p.second[i] / bias2) + o.eps) + o.weight_decay * p.w[i];
  }
  const double size = norm_of(p.w), length = norm_of(u);
  const bool adapts = (o.weight_decay != 0 || o.use_nvlamb) && size > 0 && length > 0;
  for (size_t i = 0; i < g.size(); ++i) p.w[i] -= o.lr * (adapts ? size / length : 1) * u[i];
}

void follow(const NovoGradOptions& o, Reference& p, const Numbers& g, int step) {
  const double square = norm_of(g) * norm_of(g);
  p.norm = step == 1 && !o.init_zero ? square : o.beta2 * p.norm + (1 - o.beta2) * square;
  const double bias1 = o.bias_correction ? 1 - std::pow(o.beta1, step) : 1;
  const double bias2 = o.bias_correction ? 1 - std::pow(o.beta2, step) : 1;
  const double size = std::sqrt(p.norm / bias2) + o.eps;
  const double decay = o.decoupled_weight_decay ? 0 : o.weight_decay;
  for (size_t i = 0; i < g.size(); ++i) {
    const double d = o.maximize ? -g[i] : g[i];
    if (o.decoupled_weight_decay) p.w[i] *= 1 - o.lr * o.weight_decay;
    const double joins = d / size + decay * p.w[i];
    p.first[i] = o.beta1 * p.first[i] + (o.grad_averaging ? 1 - o.beta1 : 1) * joins;
    p.w[i] -= o.lr / bias1 * p.first[i];
  }
}

double clipped_norm(const LAMBOptions& o) { return o.max_grad_norm; }
template <class Options>
double clipped_norm(const Options&) {
  return 0;
}

template <class O>
void train_and_compare(const typename O::Options& options, Device device, Dtype dtype,
                       double tolerance) {
  std::vector<Tensor> params;
  std::vector<Reference> references;
  uint64_t seed = 0;
  for (const int64_t n : {1, 0, 127, 4096, 20005}) {
    params.push_back(random_tensor({n}, ++seed, dtype).to(device));
    references.emplace_back(doubles(params.back()));
  }
  params.push_back(zeros({33}, dtype, device));
  references.emplace_back(doubles(params.back()));
  for (const Tensor& param : params) param.set_requires_grad();
  O optimizer(params, options);
  for (int step = 1; step <= 6; ++step) {
    double square = 0;
    for (size_t i = 0; i < params.size(); ++i) {
      // The first tensor's gradients are 0, and so are the last one's at first.
      const bool none = i == 0 || (step == 1 && i + 1 == params.size());
      const Tensor grad = random_tensor(params[i].shape(), ++seed, dtype) * (none ? 0.0 : 1.0);
      params[i].set_grad(grad.to(device));
      square += norm_of(doubles(grad)) * norm_of(doubles(grad));
    }
    const double most = clipped_norm(options), norm = std::sqrt(square);
    const double share = most > 0 ? std::min(1.0, most / (norm + 1e-6)) : 1;
    optimizer.step();
    for (size_t i = 0; i < params.size(); ++i) {
      Numbers grad = doubles(params[i].grad());
      for (double& g : grad) g *= share;
      follow(options, references[i], grad, step);
      const Numbers got = doubles(params[i]);
      for (size_t k = 0; k < got.size(); ++k) {
        ASSERT_NEAR(got[k], references[i].w[k], tolerance * (1 + std::abs(references[i].w[k])))
            << "tensor " << i << " element " << k << " step " << step;
      }
    }
  }
}

const std::vector<LARSOptions> kLars = {
    {},
    {.lr = 2, .momentum = 0.8, .weight_decay = 0.1, .trust_coefficient = 0.02, .maximize = true},
    {.weight_decay = 0.1, .decoupled_weight_decay = true},
    {.lr = 0.01, .trust_coefficient = 0},
};
const std::vector<LAMBOptions> kLamb = {
    {},
    {.lr = 0.02, .beta1 = 0.7, .beta2 = 0.9, .weight_decay = 0, .max_grad_norm = 0},
    {.lr = 0.02,
     .weight_decay = 0,
     .max_grad_norm = 50,
     .bias_correction = false,
     .grad_averaging = false,
     .use_nvlamb = true,
     .maximize = true},
};
const std::vector<NovoGradOptions> kNovoGrad = {
    {},
    {.lr = 0.02,
     .beta1 = 0.7,
     .beta2 = 0.8,
     .weight_decay = 0.1,
     .bias_correction = true,
     .grad_averaging = true,
     .init_zero = true,
     .maximize = true},
    {.weight_decay = 0.1, .decoupled_weight_decay = true},
};

void compare_all(Device device) {
  for (const auto& [dtype, tolerance] : {std::pair(kFloat32, 2e-5), std::pair(kFloat64, 1e-12)}) {
    for (const auto& options : kLars) {
      train_and_compare<LARS>(options, device, dtype, tolerance);
    }
    for (const auto& options : kLamb) {
      train_and_compare<LAMB>(options, device, dtype, tolerance);
    }
    for (const auto& options : kNovoGrad) {
      train_and_compare<NovoGrad>(options, device, dtype, tolerance);
    }
  }
}

TEST(Layerwise, FollowPlainLoops) { compare_all(kCpu); }
TEST(Layerwise, FollowPlainLoopsOnAGpu) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  compare_all(cuda_device(0));
}

template <class O>
void update_many(const typename O::Options& options, Device device) {
  constexpr uint64_t kCount = 1000;  // of whose numbers no launch of a simulated GPU takes all
  int64_t filled = 0;
  std::vector<Tensor> together, alone;
  for (uint64_t i = 0; i < kCount; ++i) {
    const auto n = static_cast<int64_t>(i % 200 == 0 ? 4097 + i : i % 60);
    filled += n > 0;
    for (auto* all : {&together, &alone}) {
      all->push_back(random_tensor({n}, i).to(device).set_requires_grad());
      all->back().set_grad(random_tensor({n}, i + 5000).to(device));
    }
  }
  O optimizer(together, options);
  optimizer.step();
  const size_t apart = device.is_cuda() ? 37 : 1;
  for (size_t i = 0; i < alone.size(); i += apart) {
    O({alone[i]}, options).step();
    ASSERT_EQ(doubles(together[i]), doubles(alone[i])) << "tensor " << i;
  }
#ifdef WICK_SIM
  if (!device.is_cuda()) return;
  const int states = states_of(
      [&](const std::vector<Tensor>& params) { return std::make_unique<O>(params, options); });
  std::vector<uint64_t> blocks;  // all of those that make records
  for (uint64_t b = 0; b < 16; ++b) blocks.push_back(b);
  const ScopedBlocks only(blocks);
  const int64_t before = sim::calls();
  optimizer.step();
  EXPECT_EQ(sim::calls() - before,
            2 * (launches_for_records(kCount) + launches_for_elements(filled, states)));
  synchronize(device);
#endif
}

void update_many_with_each(Device device) {
  update_many<LARS>({}, device);
  update_many<LAMB>({.max_grad_norm = 0}, device);
  update_many<NovoGrad>({}, device);
}
TEST(Layerwise, UpdateAThousandTensorsLikeEachAlone) { update_many_with_each(kCpu); }
TEST(Layerwise, UpdateAThousandTensorsOnAGpuInFewKernels) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  update_many_with_each(cuda_device(0));
}

TEST(Layerwise, GoOnFromTheirStateWithTheSameBits) {
  for (const Device device : {kCpu, cuda_is_available() ? cuda_device(0) : kCpu}) {
    const Tensor whole = random_tensor({70}, 1).to(device).set_requires_grad();
    const Tensor part = whole.detach().clone().set_requires_grad();
    NovoGrad one({whole}), two({part});
    for (int step = 0; step < 6; ++step) {
      for (const Tensor& param : {whole, part}) {
        param.set_grad(random_tensor({70}, 100 + static_cast<uint64_t>(step)).to(device));
      }
      one.step();
      if (step == 3) {
        NovoGrad three({part});
        three.load_state_dict(two.state_dict());
        EXPECT_TRUE(two.state_dict().contains("state.0.0.grad_norm_sq"));
        three.step();
        two.load_state_dict(three.state_dict());
      } else {
        two.step();
      }
    }
    EXPECT_EQ(doubles(whole), doubles(part));
  }
}

}  // namespace
}  // namespace wick::testing
