#include "wick/optim/muon.h"

#include <gtest/gtest.h>

#include <cmath>

#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/optim/reference.h"

namespace wick::testing {
namespace {

using namespace optim;

// Row-major.
struct Matrix {
  int64_t rows, columns;
  Numbers x;

  double& at(int64_t i, int64_t j) { return x[static_cast<size_t>(i * columns + j)]; }
  double at(int64_t i, int64_t j) const { return x[static_cast<size_t>(i * columns + j)]; }
  Matrix transposed() const {
    Matrix t{columns, rows, Numbers(x.size())};
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) t.at(j, i) = at(i, j);
    }
    return t;
  }
  Matrix times(const Matrix& b) const {
    Matrix y{rows, b.columns, Numbers(static_cast<size_t>(rows * b.columns))};
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t k = 0; k < columns; ++k) {
        for (int64_t j = 0; j < b.columns; ++j) y.at(i, j) += at(i, k) * b.at(k, j);
      }
    }
    return y;
  }
  // alpha * this + beta * b
  Matrix mixed(double alpha, double beta, const Matrix& b) const {
    Matrix y = *this;
    for (size_t i = 0; i < x.size(); ++i) y.x[i] = alpha * x[i] + beta * b.x[i];
    return y;
  }
};

Matrix orthogonal(const MuonOptions& o, const Matrix& direction) {
  const bool is_tall = direction.rows > direction.columns;
  Matrix y = is_tall ? direction.transposed() : direction;
  const double size = std::max(norm_of(y.x), o.eps);
  for (double& value : y.x) value /= size;
  for (int step = 0; step < o.ns_steps; ++step) {
    const Matrix gram = y.times(y.transposed());
    const Matrix poly = gram.mixed(o.ns_b, o.ns_c, gram.times(gram));
    y = y.mixed(o.ns_a, 1, poly.times(y));
  }
  return is_tall ? y.transposed() : y;
}

void update_matrix(const MuonOptions& o, Reference& p, const Numbers& g) {
  const int64_t rows = p.shape[0], columns = rows == 0 ? 0 : p.shape.numel() / rows;
  Matrix direction{rows, columns, g};
  for (size_t i = 0; i < g.size(); ++i) {
    double& buffer = p.states[i][0];
    buffer += (1 - o.momentum) * (g[i] - buffer);
    direction.x[i] = o.nesterov ? g[i] + o.momentum * (buffer - g[i]) : buffer;
  }
  const double m = static_cast<double>(rows), n = static_cast<double>(columns);
  const bool is_original = o.adjust_lr_fn == AdjustLr::kOriginal;
  const double ratio = o.adjust_lr_fn == AdjustLr::kMatchRmsAdamw
                           ? 0.2 * std::sqrt(std::max(m, n))
                           : std::sqrt(is_original ? std::max(1.0, m / n) : m / n);
  const Matrix update = orthogonal(o, direction);
  for (size_t i = 0; i < g.size(); ++i) {
    p.w[i] = p.w[i] * (1 - o.lr * o.weight_decay) - o.lr * ratio * update.x[i];
  }
}

void update_by_adamw(const MuonOptions& o, Reference& p, const Numbers& g, int step) {
  for (size_t i = 0; i < g.size(); ++i) {
    double &first = p.states[i][0], &second = p.states[i][1];
    first += (1 - o.adamw_beta1) * (g[i] - first);
    second += (1 - o.adamw_beta2) * (g[i] * g[i] - second);
    const double mean = first / (1 - std::pow(o.adamw_beta1, step));
    const double root = std::sqrt(second / (1 - std::pow(o.adamw_beta2, step)));
    p.w[i] *= 1 - o.adamw_lr * o.adamw_weight_decay;
    p.w[i] -= o.adamw_lr * mean / (root + o.adamw_eps);
  }
}

Rule rule_of(const MuonOptions& o) {
  return [o](Reference& p, const Numbers& g, int step) {
    p.shape.rank() >= 2 ? update_matrix(o, p, g) : update_by_adamw(o, p, g, step);
  };
}

bool add(const char* name, const MuonOptions& options) {
  OptimizerCase added{name, {}, rule_of(options)};
  added.make = [options](const std::vector<Tensor>& params) {
    return std::make_unique<Muon>(params, options);
  };
  added.tolerance = 2e-4;  // products are in bfloat16 on GPUs
  added.passes = 0;
  return add_case(std::move(added));
}
[[maybe_unused]] const bool kMuonCases[] = {
    add("muon", {}),
    add("muon_spectral", {.adjust_lr_fn = AdjustLr::kSpectralUnclamped}),
    add("muon_all", {.lr = 2e-3,
                     .momentum = 0.8,
                     .weight_decay = 0.3,
                     .nesterov = false,
                     .ns_a = 2,
                     .ns_b = -1.5,
                     .ns_c = 0.5,
                     .ns_steps = 7,
                     .adjust_lr_fn = AdjustLr::kMatchRmsAdamw,
                     .adamw_lr = 0.02,
                     .adamw_weight_decay = 0.1,
                     .adamw_beta1 = 0.7,
                     .adamw_beta2 = 0.9,
                     .adamw_eps = 1e-3}),
};

TEST(MuonTest, HasTheDefaultsOfPyTorch) {
  EXPECT_EQ(all_of(MuonOptions()),
            "lr 0.001, momentum 0.95, weight_decay 0.1, nesterov 1, ns_a 3.4445, ns_b -4.775, "
            "ns_c 2.0315, eps 1e-07, ns_steps 5, adjust_lr_fn 0, use_muon 1, adamw_lr 0.001, "
            "adamw_weight_decay 0.01, adamw_beta1 0.9, adamw_beta2 0.999, adamw_eps 1e-08");
}

// What one step takes from 0 is the orthogonal update, whatever the size of the gradient.
TEST(MuonTest, MakesUpdatesOrthogonalOfEachShape) {
  const MuonOptions options{.lr = 1, .weight_decay = 0};
  for (const Device device : devices()) {
    for (const Dtype dtype : {kFloat32, kFloat64}) {
      const bool is_exact = dtype == kFloat64;
      const double tolerance = is_exact ? 1e-11 : device.is_cuda() ? 0.1 : 1e-4;
      for (const Shape& shape : {Shape{64, 16}, Shape{16, 64}, Shape{33, 33}, Shape{1, 40},
                                 Shape{40, 1}, Shape{6, 3, 2, 2}, Shape{7, 5, 3}}) {
        for (const double factor : {1.0, 1e-4}) {
          const Tensor w = zeros(shape, dtype, device).set_requires_grad();
          const Tensor grad = random_tensor(shape, 3, dtype) * factor;
          w.set_grad(grad.to(device));
          Reference want(w);
          Muon({w}, options).step();
          update_matrix(options, want, doubles(grad));
          const Numbers got = doubles(w);
          for (size_t i = 0; i < got.size(); ++i) {
            ASSERT_NEAR(got[i], want.w[i], tolerance) << "element " << i << " of " << shape;
          }
        }
      }
    }
  }
}

TEST(MuonTest, TakesMatricesOfAnyLayout) {
  const Tensor plain = random_tensor({5, 3, 4, 2}, 1), flipped = random_tensor({6, 4}, 2);
  const std::vector<Tensor> relaid = {
      plain.contiguous(MemoryFormat::kChannelsLast).clone(),
      plain.permute({3, 2, 1, 0}).contiguous().permute({3, 2, 1, 0}), flipped.t().contiguous().t()};
  for (const Tensor& w : relaid) {
    const Tensor same = w.contiguous(MemoryFormat::kContiguous).clone();
    const Tensor grad = random_tensor(w.shape(), 3);
    for (const Tensor& x : {w, same}) {
      x.set_requires_grad();
      x.set_grad(grad);
      Muon({x}, {.lr = 1}).step();
    }
    EXPECT_TRUE(allclose(w.detach(), same.detach(), 1e-5, 1e-5));
  }
}

TEST(MuonTest, GivesAdamwWhatHasOneAxisAndWhatItIsTold) {
  const Tensor head = random_tensor({4, 3}, 1).set_requires_grad();
  const Tensor body = random_tensor({5, 4}, 2).set_requires_grad();
  const Tensor bias = random_tensor({5}, 3).set_requires_grad();
  Muon split({body, bias}, {.lr = 0.02, .adamw_lr = 0.003, .adamw_weight_decay = 0.5});
  ASSERT_EQ(split.num_groups(), 2);
  EXPECT_EQ(split.lr(0), 0.02);
  EXPECT_EQ(split.lr(1), 0.003);
  EXPECT_EQ(split.options(1).weight_decay, 0.5);
  EXPECT_EQ(Muon({bias}).num_groups(), 1);
  split.add_param_group({head}, {{"use_muon", 0}, {"lr", 0.01}});
  for (const Tensor& x : {body, bias, head}) x.set_grad(ones_like(x));
  split.step();
  const StateDict state = split.state_dict();
  EXPECT_TRUE(state.contains("state.0.0.momentum_buffer"));
  EXPECT_FALSE(state.contains("state.0.0.exp_avg"));
  EXPECT_TRUE(state.contains("state.1.0.exp_avg"));
  EXPECT_TRUE(state.contains("state.2.0.exp_avg_sq"));
  EXPECT_FALSE(state.contains("state.2.0.momentum_buffer"));
}

TEST(MuonTest, ByNameGivesAdamwTheLastMatrix) {
  const OptimizerEntry& entry = find_optimizer("muon");
  std::vector<Tensor> params;
  for (const Shape& shape : {Shape{4, 3}, Shape{4}, Shape{2, 4}, Shape{2}}) {
    params.push_back(zeros(shape).set_requires_grad());
  }
  const auto optimizer = entry.make(params, 0.1, 0.2);
  ASSERT_EQ(optimizer->num_groups(), 2);
  EXPECT_EQ(optimizer->params(0).size(), 1u);
  EXPECT_EQ(optimizer->lr(1), 0.1);
  EXPECT_EQ(optimizer->hyperparameter(1, "weight_decay"), 0.2);
  EXPECT_EQ(optimizer->hyperparameter(1, "use_muon"), 0);
  EXPECT_EQ(entry.make({params[0]}, 0.1, 0.2)->hyperparameter(0, "use_muon"), 1);
}

TEST(MuonTest, RefusesWhatDoesNotFit) {
  const Tensor matrix = zeros({2, 3}).set_requires_grad(), bias = zeros({3}).set_requires_grad();
  const std::string vectors =
      "muon: a parameter of a group with use_muon: got shape [3], expected two axes or more";
  EXPECT_EQ(error_of([&] {
              Muon(std::vector<ParamGroup<MuonOptions>>{{.params = {matrix, bias}}});
            }),
            vectors);
  Muon muon({matrix});
  EXPECT_EQ(error_of([&] { muon.add_param_group({bias}); }), vectors);
  EXPECT_EQ(muon.num_groups(), 1);
  muon.add_param_group({bias}, {{"use_muon", 0}});
  muon.set_hyperparameter(1, "use_muon", 1);
  for (const Tensor& x : {matrix, bias}) x.set_grad(ones_like(x));
  EXPECT_EQ(error_of([&] { muon.step(); }), vectors);
  EXPECT_EQ(doubles(matrix), Numbers(6, 0));  // nothing has changed
  EXPECT_EQ(error_of([&] { Muon({matrix}, {.ns_steps = 100}); }),
            "muon: ns_steps: got 100, expected less than 100");
  EXPECT_EQ(error_of([&] { Muon({matrix}, {.ns_b = NAN}); }),
            "muon: ns_b: got nan, expected a finite value");
  EXPECT_EQ(error_of([&] { Muon({matrix}, {.adamw_beta2 = 1}); }),
            "muon: adamw_beta2: got 1, expected a value in [0, 1)");
  for (const double unknown : {3.0, 0.5, -1.0, 1e9}) {
    EXPECT_EQ(error_of([&] { muon.set_hyperparameter(0, "adjust_lr_fn", unknown); }),
              concat("muon: adjust_lr_fn: got ", unknown, ", expected 0, 1 or 2"));
  }
}

}  // namespace
}  // namespace wick::testing
