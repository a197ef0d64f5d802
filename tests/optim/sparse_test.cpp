// Optimizers, and what works on gradients, where those are sparse.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "wick/core/core.h"
#include "wick/nn/linear.h"
#include "wick/optim/optim.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/host_array.h"

namespace wick::testing {
namespace {

using namespace optim;

constexpr int64_t kRows = 7, kWidth = 5;

Tensor table(Device device = kCpu, Dtype dtype = kFloat32) {
  manual_seed(11);
  return randn({kRows, kWidth}).to(dtype).to(device).set_requires_grad();
}

// The gradient of step `step`: some rows, other ones in each.
void differentiate(const Tensor& weight, int step, bool sparse) {
  const std::vector<std::vector<int64_t>> rows = {{1, 4, 1}, {6, 1}, {0, 4, 4, 2}};
  const Tensor index = tensor(rows[static_cast<size_t>(step) % rows.size()]).to(weight.device());
  const Tensor y = embedding(weight, index, {}, sparse);
  (y * y.detach().sin()).sum().backward();
}

// What a row's elements see at their own updates, in plain doubles.
struct Row {
  std::vector<double> w, first, second;
};

TEST(SparseAdam, IsThatOfPyTorch) {
  const SparseAdamOptions o{.lr = 0.05, .beta1 = 0.8, .beta2 = 0.9, .eps = 1e-2};
  for (const Device device : devices()) {
    for (const bool maximize : {false, true}) {
      SparseAdamOptions options = o;
      options.maximize = maximize;
      const Tensor weight = table(device, kFloat64);
      SparseAdam optimizer({weight}, options);
      HostArray w = read(weight), first{w.shape, {}}, second{w.shape, {}};
      first.values.resize(w.values.size());
      second.values.resize(w.values.size());
      for (int step = 0; step < 6; ++step) {
        optimizer.zero_grad();
        differentiate(weight, step, true);
        const SparseRows sparse = sparse_rows(weight.grad());
        const HostArray g = read(sparse.values);
        const std::vector<int64_t> rows = sparse.rows.cpu().to_vector<int64_t>();
        optimizer.step();
        const double size =
            o.lr * std::sqrt(1 - std::pow(o.beta2, step + 1)) / (1 - std::pow(o.beta1, step + 1));
        for (size_t k = 0; k < g.values.size(); ++k) {
          const auto i = static_cast<size_t>(rows[k / kWidth]) * kWidth + k % kWidth;
          const double d = maximize ? -g.values[k] : g.values[k];
          first.values[i] += (1 - o.beta1) * (d - first.values[i]);
          second.values[i] += (1 - o.beta2) * (d * d - second.values[i]);
          w.values[i] -= size * first.values[i] / (std::sqrt(second.values[i]) + o.eps);
        }
        EXPECT_EQ(difference(read(weight), w, 1e-12, 1e-12), "") << "step " << step;
      }
      const StateDict state = optimizer.state_dict();
      EXPECT_EQ(difference(read(state.at("state.0.0.exp_avg")), first, 1e-12, 1e-12), "");
      EXPECT_EQ(state.at("state.0.0.step").item<int64_t>(), 6);
    }
  }
}

TEST(SparseAdam, HasTheDefaultsOfPyTorch) {
  const SparseAdamOptions o;
  EXPECT_EQ(o.lr, 1e-3);
  EXPECT_EQ(o.beta1, 0.9);
  EXPECT_EQ(o.beta2, 0.999);
  EXPECT_EQ(o.eps, 1e-8);
  EXPECT_FALSE(o.maximize);
}

TEST(SparseAdam, RefusesDenseGradients) {
  const Tensor weight = table();
  SparseAdam optimizer({weight});
  differentiate(weight, 0, false);
  expect_error([&] { optimizer.step(); },
               {"sparse_adam: a gradient is dense", "[7, 5]", "use Adam for the others"});
}

// Without momentum and decay, a row without a gradient is not moved by a dense step either.
template <class O>
void expect_dense_steps(const typename O::Options& options) {
  for (const Device device : devices()) {
    for (const Dtype dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
      const Tensor dense = table(device, dtype), sparse = table(device, dtype);
      O a({dense}, options), b({sparse}, options);
      for (int step = 0; step < 5; ++step) {
        a.zero_grad();
        b.zero_grad();
        differentiate(dense, step, false);
        differentiate(sparse, step, true);
        a.step({.max_norm = 0.9});
        b.step({.max_norm = 0.9});
        const double tolerance = is_reduced(dtype) ? 1e-2 : 1e-6;
        EXPECT_EQ(difference(read(sparse), read(dense), tolerance, tolerance), "")
            << dtype << " after step " << step << " on " << device;
      }
      EXPECT_TRUE(sparse.grad().is_sparse());
    }
  }
}

TEST(SparseGradients, MoveTheirRowsBySGD) { expect_dense_steps<SGD>({.lr = 0.3}); }
TEST(SparseGradients, MoveTheirRowsByAdagrad) {
  expect_dense_steps<Adagrad>({.lr = 0.3, .lr_decay = 0.1, .initial_accumulator_value = 0.1});
}

TEST(SparseGradients, AreRefusedBesideWhatMovesAllRows) {
  const auto error_with = [](auto&& make) {
    const Tensor weight = table();
    const auto optimizer = make(weight);
    differentiate(weight, 0, true);
    const Tensor before = weight.detach().clone();
    const std::string error = error_of([&] { optimizer->step(); });
    EXPECT_TRUE(bit_equal(before, weight.detach()));
    return error;
  };
  EXPECT_EQ(error_with([](const Tensor& w) {
              return std::make_unique<SGD>(std::vector{w}, SGDOptions{.momentum = 0.9});
            }),
            "sgd: a gradient is sparse: got that of a parameter of shape [7, 5], but momentum "
            "moves every row in each step: expected momentum 0");
  EXPECT_NE(error_with([](const Tensor& w) {
              return std::make_unique<SGD>(std::vector{w}, SGDOptions{.weight_decay = 0.1});
            }).find("weight decay changes every row in each step"),
            std::string::npos);
  EXPECT_NE(error_with([](const Tensor& w) {
              return std::make_unique<Adagrad>(std::vector{w}, AdagradOptions{.weight_decay = 0.1});
            }).find("adagrad: a gradient is sparse"),
            std::string::npos);
  EXPECT_NE(error_with([](const Tensor& w) {
              return std::make_unique<AdamW>(std::vector{w});
            }).find("use SparseAdam, or SGD or Adagrad"),
            std::string::npos);
}

TEST(SparseGradients, HaveANormAndAreClipped) {
  for (const Device device : devices()) {
    for (const double p : {2.0, 1.0, 0.0, HUGE_VAL, -HUGE_VAL}) {
      const Tensor dense = table(device), sparse = table(device);
      differentiate(dense, 0, false);
      differentiate(sparse, 0, true);
      EXPECT_NEAR(clip_grad_norm_({sparse}, 0.5, p).item(), clip_grad_norm_({dense}, 0.5, p).item(),
                  1e-6);
      EXPECT_EQ(difference(read(sparse.grad().to_dense()), read(dense.grad()), 1e-6, 1e-6), "");
      clip_grad_value_({dense}, 0.01);
      clip_grad_value_({sparse}, 0.01);
      EXPECT_EQ(difference(read(sparse.grad().to_dense()), read(dense.grad()), 1e-6, 1e-6), "");
    }
  }
}

TEST(SparseGradients, AreUnscaled) {
  for (const Device device : devices()) {
    const Tensor dense = table(device), sparse = table(device);
    SGD a({dense}, {.lr = 0.1}), b({sparse}, {.lr = 0.1});
    amp::GradScaler scaler_a({.init_scale = 1024}), scaler_b({.init_scale = 1024});
    const Tensor index = tensor<int64_t>({3, 3, 1}).to(device);
    for (const bool unscale : {false, true}) {
      a.zero_grad();
      b.zero_grad();
      scaler_a.scale(embedding(dense, index).square().sum()).backward();
      scaler_b.scale(embedding(sparse, index, {}, true).square().sum()).backward();
      if (unscale) {
        scaler_a.unscale_(a);
        scaler_b.unscale_(b);
      }
      scaler_a.step(a);
      scaler_b.step(b);
      scaler_a.update();
      scaler_b.update();
      EXPECT_EQ(difference(read(sparse), read(dense), 1e-6, 1e-6), "");
    }
    // An infinity skips the step, and is named.
    b.zero_grad();
    const Tensor before = sparse.detach().clone();
    (scaler_b.scale(embedding(sparse, index, {}, true).sum()) * HUGE_VAL).backward();
    scaler_b.step(b);
    scaler_b.update();
    EXPECT_TRUE(bit_equal(before, sparse.detach()));
    EXPECT_EQ(scaler_b.get_scale(), 512);
  }
}

TEST(SparseGradients, AreAccumulatedAndZeroed) {
  nn::Embedding layer(20, 3, {.padding_idx = 2, .sparse = true});
  SGD optimizer(layer.parameters(), {.lr = 1});
  const Tensor before = layer.weight.detach().clone();
  GradAccumulator accumulator(optimizer, {.every = 2});
  for (const int64_t row : {5, 2}) {
    accumulator.backward(layer(tensor<int64_t>({row, 7})).sum(), 2);
    accumulator.step();
  }
  Tensor moved = before - layer.weight.detach();
  EXPECT_NEAR(moved[5].sum().item(), 1.5, 1e-5);
  EXPECT_NEAR(moved[7].sum().item(), 3, 1e-5);
  EXPECT_EQ(moved[2].abs().sum().item(), 0);
  EXPECT_FALSE(layer.weight.grad().defined());
  layer(tensor<int64_t>({4})).sum().backward();
  optimizer.zero_grad(false);
  EXPECT_EQ(sparse_rows(layer.weight.grad()).rows.numel(), 0);
  const Tensor same = layer.weight.detach().clone();
  optimizer.step();
  EXPECT_TRUE(bit_equal(same, layer.weight.detach()));
}

}  // namespace
}  // namespace wick::testing
