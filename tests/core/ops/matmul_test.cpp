#include "wick/core/ops/matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "wick/core/apply.h"
#include "wick/core/ops/activation.h"
#include "wick/core/ops/detail/matmul_fused.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/stream.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/op_case.h"

namespace wick::testing {
namespace {

// Products of the last two axes by plain loops; batch axes broadcast. Ranks are 2 or more.
HostArray matrix_product(const HostArray& a, const HostArray& b) {
  Shape batch_a = a.shape, batch_b = b.shape;
  for (Shape* batch : {&batch_a, &batch_b}) {
    batch->erase(batch->rank() - 1);
    batch->erase(batch->rank() - 1);
  }
  const Shape batch = broadcast_shapes("product", batch_a, batch_b);
  const int64_t m = a.shape[a.shape.rank() - 2], k = a.shape.back(), n = b.shape.back();
  const auto matrix = [&](int64_t index, const Shape& own) {
    int64_t offset = 0, step = 1;
    for (int axis = batch.rank() - 1; axis >= 0; --axis) {
      const int own_axis = axis - batch.rank() + own.rank();
      if (own_axis >= 0) {
        offset += own[own_axis] == 1 ? 0 : index % batch[axis] * step;
        step *= own[own_axis];
      }
      index /= batch[axis];
    }
    return offset;
  };
  Shape shape = batch;
  shape.push_back(m);
  shape.push_back(n);
  HostArray y{shape, std::vector<double>(static_cast<size_t>(shape.numel()))};
  for (int64_t i = 0; i < batch.numel(); ++i) {
    const double* pa = a.values.data() + matrix(i, batch_a) * m * k;
    const double* pb = b.values.data() + matrix(i, batch_b) * k * n;
    for (int64_t r = 0; r < m; ++r) {
      for (int64_t c = 0; c < n; ++c) {
        double sum = 0;
        for (int64_t j = 0; j < k; ++j) sum += pa[r * k + j] * pb[j * n + c];
        y.values[static_cast<size_t>((i * m + r) * n + c)] = sum;
      }
    }
  }
  return y;
}

HostArray transposed(const HostArray& x) {
  const int64_t rows = x.shape[0], columns = x.shape[1];
  HostArray y{{columns, rows}, x.values};
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      y.values[static_cast<size_t>(j * rows + i)] = x.values[static_cast<size_t>(i * columns + j)];
    }
  }
  return y;
}

WICK_OP_CASE(
    matmul,
    .samples = {{normal({3, 4}), normal({4, 5})},
                {normal({31, 33}), normal({33, 127})},
                {normal({1, 7}), normal({7, 1})},
                {normal({130, 3}), normal({3, 129})},
                {normal({0, 4}), normal({4, 5})},
                {normal({3, 0}), normal({0, 5})},
                {normal({2, 3, 4}), normal({4, 5})},
                {normal({3, 4}), normal({2, 4, 5})},
                {normal({6, 3, 4}), normal({6, 4, 5})},
                {normal({2, 1, 3, 4}), normal({3, 4, 2})},
                {normal({2, 0, 3}), normal({2, 3, 4})}},
    .call = [](const Tensors& x) -> Tensors { return {matmul(x[0], x[1])}; },
    .reference = [](const Arrays& x) -> Arrays { return {matrix_product(x[0], x[1])}; },
    .tolerance = Tolerance::matmul(), .second_order = true);

WICK_OP_CASE(
    matmul_transposed,
    .samples = {{normal({4, 3}), normal({5, 4})}, {normal({40, 150}), normal({9, 40})}},
    .call = [](const Tensors& x) -> Tensors { return {matmul(x[0].t(), x[1].t())}; },
    .reference = [](const Arrays& x) -> Arrays {
      return {matrix_product(transposed(x[0]), transposed(x[1]))};
    },
    .tolerance = Tolerance::matmul(), .second_order = true);

WICK_OP_CASE(
    matmul_vectors, .samples = {{normal({5}), normal({5}), normal({5, 3})}},
    .call = [](const Tensors& x) -> Tensors {
      return {matmul(x[0], x[1]), matmul(x[0], x[2]), matmul(x[2].t(), x[1]),
              matmul(x[0], x[2].unsqueeze(0))};
    },
    .reference = [](const Arrays& x) -> Arrays {
      HostArray row = x[0], column = x[1];
      row.shape = {1, 5};
      column.shape = {5, 1};
      Arrays y{matrix_product(row, column), matrix_product(row, x[2]),
               matrix_product(transposed(x[2]), column), matrix_product(row, x[2])};
      y[0].shape = {};
      y[1].shape = {3};
      y[2].shape = {3};
      y[3].shape = {1, 3};
      return y;
    },
    .tolerance = Tolerance::matmul(), .second_order = true);

// activation(x[0] · x[1]ᵀ + x[2])
Arrays reference_linear(const Arrays& x, double (*activation)(double)) {
  HostArray rows = x[0];
  const int64_t k = x[1].shape[1], n = x[1].shape[0];
  rows.shape.erase(rows.shape.rank() - 1);
  rows.shape = {rows.shape.numel(), k};
  HostArray y = matrix_product(rows, transposed(x[1]));
  for (size_t i = 0; i < y.values.size(); ++i) {
    y.values[i] = activation(y.values[i] + x[2].values[i % static_cast<size_t>(n)]);
  }
  y.shape = x[0].shape;
  y.shape[y.shape.rank() - 1] = n;
  return {y};
}

WICK_OP_CASE(
    linear,
    .samples = {{normal({4, 3}), normal({5, 3}), normal({5})},
                {normal({3}), normal({2, 3}), normal({2})},
                {normal({2, 3, 17}), normal({9, 17}), normal({9})},
                {normal({200, 33}), normal({31, 33}), normal({31})},
                {normal({0, 3}), normal({2, 3}), normal({2})}},
    .call = [](const Tensors& x) -> Tensors { return {linear(x[0], x[1], x[2])}; },
    .reference = [](const Arrays& x) { return reference_linear(x, [](double v) { return v; }); },
    .tolerance = Tolerance::matmul(), .second_order = true);

// Of one matrix and of batches with one step and with several; results of one row and column.
WICK_OP_CASE(
    matmul_scaled, .covers = {"matmul_scaled"},
    .samples = {{normal({3, 4}), normal({4, 5})},
                {normal({2, 3, 7, 33}), normal({2, 3, 33, 9})},
                {normal({2, 1, 65, 70}), normal({1, 3, 70, 31})},
                {normal({300, 300}), normal({300, 64})},
                {normal({1, 40}), normal({40, 1})},
                {normal({3, 0}), normal({0, 2})},
                {normal({0, 3}), normal({3, 2})}},
    .call = [](const Tensors& x) -> Tensors { return {matmul_scaled(x[0], x[1], -0.3)}; },
    .reference =
        [](const Arrays& x) {
          HostArray y = matrix_product(x[0], x[1]);
          for (double& value : y.values) value *= -0.3;
          return Arrays{y};
        },
    .composed = [](const Tensors& x) -> Tensors { return {matmul(x[0], x[1]) * -0.3}; },
    .tolerance = Tolerance::matmul(), .differentiable = false);

WICK_OP_CASE(
    linear_sum, .covers = {"linear_sum"},
    .samples = {{normal({4, 3}), normal({5, 3}), normal({5}), normal({4, 5})},
                {normal({3}), normal({2, 3}), normal({2}), normal({2})},
                {normal({2, 3, 17}), normal({9, 17}), normal({9}), normal({2, 3, 9})},
                {normal({200, 330}), normal({64, 330}), normal({64}), normal({200, 64})},
                {normal({1, 33}), normal({1, 33}), normal({1}), normal({1, 1})},
                {normal({2, 0}), normal({3, 0}), normal({3}), normal({2, 3})},
                {normal({0, 3}), normal({2, 3}), normal({2}), normal({0, 2})}},
    .call = [](const Tensors& x) -> Tensors { return {linear_sum(x[0], x[1], x[2], x[3])}; },
    .reference =
        [](const Arrays& x) {
          Arrays y = reference_linear(x, [](double v) { return v; });
          for (size_t i = 0; i < y[0].values.size(); ++i) y[0].values[i] += x[3].values[i];
          return y;
        },
    .composed = [](const Tensors& x) -> Tensors { return {linear(x[0], x[1], x[2]) + x[3]}; },
    // 16 bits are rounded before the sum, too.
    .dtypes = {kFloat64, kFloat32}, .tolerance = Tolerance::matmul(), .differentiable = false);

WICK_OP_CASE(
    linear_with_a_vector, .samples = {{normal({2, 4, 3}), normal({3})}, {normal({3}), normal({3})}},
    .call = [](const Tensors& x) -> Tensors { return {linear(x[0], x[1])}; },
    .composed = [](const Tensors& x) -> Tensors { return {sum(x[0] * x[1], {-1})}; },
    .tolerance = Tolerance::matmul(), .second_order = true);

// Biases that keep what is rectified away from 0, where rounding would choose the gradient.
Tensor away_from_zero(const Tensor& bias) { return (bias + 1.0 / 16) * 32; }

WICK_OP_CASE(
    linear_relu,
    .samples = {{uniform({4, 3}, -0.5, 0.5), uniform({5, 3}, -0.5, 0.5), distinct({5})},
                {uniform({3}, -0.5, 0.5), uniform({2, 3}, -0.5, 0.5), distinct({2})},
                {uniform({2, 3, 7}, -0.5, 0.5), uniform({16, 7}, -0.5, 0.5), distinct({16})},
                {uniform({200, 6}, -0.5, 0.5), uniform({31, 6}, -0.5, 0.5), distinct({31})},
                {uniform({2, 0}), uniform({3, 0}), distinct({3})},
                {uniform({0, 3}), uniform({2, 3}), distinct({2})}},
    .call = [](const Tensors& x) -> Tensors {
      return {linear(x[0], x[1], away_from_zero(x[2]), Activation::kRelu)};
    },
    .reference =
        [](Arrays x) {
          for (double& bias : x[2].values) bias = (bias + 1.0 / 16) * 32;
          return reference_linear(x, [](double v) { return v > 0 ? v : 0; });
        },
    .composed = [](const Tensors& x) -> Tensors {
      return {relu(linear(x[0], x[1], away_from_zero(x[2])))};
    },
    .tolerance = Tolerance::matmul(), .second_order = true);

double gelu_tanh(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

// Rows of 8 and 16 elements, whose arguments cuBLASLt can keep, and of others.
WICK_OP_CASE(
    linear_gelu,
    .samples = {{normal({4, 3}), normal({5, 3}), normal({5})},
                {normal({3}), normal({8, 3}), normal({8})},
                {normal({2, 3, 17}), normal({16, 17}), normal({16})},
                {normal({200, 33}), normal({31, 33}), normal({31})},
                {normal({2, 0}), normal({3, 0}), normal({3})},
                {normal({0, 3}), normal({2, 3}), normal({2})}},
    .call = [](const Tensors& x) -> Tensors {
      return {linear(x[0], x[1], x[2], Activation::kGeluTanh)};
    },
    .reference = [](const Arrays& x) { return reference_linear(x, &gelu_tanh); },
    .composed = [](const Tensors& x) -> Tensors {
      return {gelu(linear(x[0], x[1], x[2]), GeluApproximation::kTanh)};
    },
    .tolerance = Tolerance::matmul(), .second_order = true);

WICK_OP_CASE(
    linear_with_activation_alone, .samples = {{normal({4, 3}), normal({8, 3})}},
    .call = [](const Tensors& x) -> Tensors {
      return {linear(x[0], x[1], {}, Activation::kGeluTanh)};
    },
    .composed = [](const Tensors& x) -> Tensors {
      return {gelu(linear(x[0], x[1]), GeluApproximation::kTanh)};
    },
    .tolerance = Tolerance::matmul(), .second_order = true);

TEST(MatMul, CountsFlops) {
  const Tensor a = ones({3, 4, 5}).set_requires_grad();
  const Tensor b = ones({5, 6}).set_requires_grad();
  FlopCounter counter;
  const Tensor y = matmul(a, b);
  EXPECT_EQ(counter.flops(), 2.0 * 3 * 4 * 5 * 6);
  y.backward(ones_like(y));
  EXPECT_EQ(counter.flops(), 3 * 2.0 * 3 * 4 * 5 * 6);
  FlopCounter of_linear;
  linear(a, b.t().detach());
  EXPECT_EQ(of_linear.flops(), 2.0 * 3 * 4 * 5 * 6);
}

// The CPU, and a GPU if there is one.
class MatMulOn : public ::testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    if (GetParam().is_cuda() && !cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, MatMulOn, ::testing::Values(kCpu, cuda_device(0)),
                         [](const auto& test) { return test.param.is_cpu() ? "cpu" : "cuda"; });

TEST_P(MatMulOn, MultipliesIntegers) {
  const Tensor a = tensor<int64_t>({1, 2, 3, 4}, Shape{2, 2}).to(GetParam());
  EXPECT_EQ(matmul(a, a).to_vector<int64_t>(), (std::vector<int64_t>{7, 10, 15, 22}));
  EXPECT_EQ(matmul(a, a.t()).to_vector<int64_t>(), (std::vector<int64_t>{5, 11, 11, 25}));
  const Tensor bytes = tensor<uint8_t>({200, 1}, Shape{1, 2}).to(GetParam());
  EXPECT_EQ(matmul(bytes.t(), bytes).to_vector<uint8_t>(),
            (std::vector<uint8_t>{64, 200, 200, 1}));  // 200 * 200 wraps
  const Tensor batch = tensor<int32_t>({1, -2, 3, 4, 5, 6}, Shape{3, 1, 2}).to(GetParam());
  EXPECT_EQ(matmul(batch, batch.transpose(1, 2)).to_vector<int32_t>(),
            (std::vector<int32_t>{5, 25, 61}));
}

// Batches whose matrices lie at no single distance, as attention's heads do.
TEST_P(MatMulOn, TakesBatchesInAnyOrder) {
  HostArray a{{3, 4, 2, 5}, {}}, b{{3, 6, 2, 5}, {}};
  for (HostArray* x : {&a, &b}) {
    for (int64_t i = 0; i < x->shape.numel(); ++i) {
      x->values.push_back(static_cast<double>(i * 7 % 11 - 5));
    }
  }
  const auto heads = [](const Tensor& x) { return x.transpose(1, 2); };  // [3, 2, n, 5]
  const HostArray left = read(heads(make_tensor(a, kFloat64)));
  const HostArray right = read(heads(make_tensor(b, kFloat64)).transpose(2, 3).contiguous());
  for (const Dtype dtype : {kFloat64, kFloat32, kInt64}) {
    const Tensor y =
        matmul(heads(make_tensor(a, dtype, Layout::kContiguous, GetParam())),
               heads(make_tensor(b, dtype, Layout::kContiguous, GetParam())).transpose(2, 3));
    EXPECT_EQ(difference(read(y), matrix_product(left, right), 0, 0), "") << to_string(dtype);
  }
}

TEST_P(MatMulOn, SumsOverNothingToZero) {
  const Tensor a = zeros({2, 0}, kFloat32, GetParam()), b = zeros({0, 3}, kFloat32, GetParam());
  EXPECT_EQ(matmul(a, b).to_vector<float>(), std::vector<float>(6, 0.0f));
  const Tensor bias = tensor<float>({1, 2, 3}, Shape{3}).to(GetParam());
  EXPECT_EQ(linear(a, b.t(), bias).to_vector<float>(), (std::vector<float>{1, 2, 3, 1, 2, 3}));
}

// Every way a matrix can lie in memory, for sizes on both sides of each choice of method.
TEST_P(MatMulOn, TakesEveryStride) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (const Dtype dtype : {kFloat64, kFloat32, kBFloat16, kFloat16}) {
    for (const int64_t m : {1, 2, 129}) {
      for (const int64_t n : {1, 5}) {
        for (const int64_t k : {1, 3, 20}) {
          HostArray a{{m, k}, {}}, b{{k, n}, {}};
          for (int64_t i = 0; i < m * k; ++i) a.values.push_back(uniform(random));
          for (int64_t i = 0; i < k * n; ++i) b.values.push_back(uniform(random));
          for (const Layout la : kAllLayouts) {
            for (const Layout lb : kAllLayouts) {
              const Tensor y = matmul(make_tensor(a, dtype, la, GetParam()),
                                      make_tensor(b, dtype, lb, GetParam()));
              const HostArray want = matrix_product(rounded(a, dtype, la), rounded(b, dtype, lb));
              const double tolerance = is_reduced(dtype) ? 1.0 / 64 : 1e-5;
              EXPECT_EQ(difference(read(y), want, tolerance, tolerance), "")
                  << to_string(dtype) << " " << m << "x" << k << " " << to_string(la) << " by " << k
                  << "x" << n << " " << to_string(lb);
            }
          }
        }
      }
    }
  }
}

TEST(MatMul, LinearWithoutOutputsHasGradients) {
  const Tensor x = ones({2, 3, 5}).set_requires_grad(), weight = ones({0, 5}).set_requires_grad();
  const Tensor bias = ones({0}).set_requires_grad(), y = linear(x, weight, bias);
  EXPECT_EQ(y.shape(), (Shape{2, 3, 0}));
  y.sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>(30, 0));
  EXPECT_EQ(weight.grad().shape(), weight.shape());
  EXPECT_EQ(bias.grad().shape(), bias.shape());
}

// ReLU keeps its output, GELU its argument, and neither of them without backward.
TEST_P(MatMulOn, ActivationsAreRectifiedInPlaceOfAPass) {
  const Tensor x = tensor<float>({1, -2}, Shape{2, 1}).to(GetParam());
  const Tensor w = tensor<float>({1, 3}, Shape{2, 1}).to(GetParam()).set_requires_grad();
  const Tensor y = linear(x, w, {}, Activation::kRelu);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1, 3, 0, 0}));
  EXPECT_EQ(y.grad_fn()->name(), "linear_relu");
  y.sum().backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{1, 1}));
  const NoGrad no_grad;
  EXPECT_EQ(linear(x, w, {}, Activation::kRelu).to_vector<float>(), y.to_vector<float>());
}

TEST(MatMul, RejectsWhatDoesNotFit) {
  const Tensor a = ones({2, 3});
  EXPECT_EQ(error_of([&] {
              matmul(a, ones({4, 5}));
            }),
            "matmul: inner sizes differ: got [2, 3] x [4, 5], expected [..., M, K] x [..., K, N]");
  EXPECT_EQ(error_of([&] { matmul(a, ones({})); }),
            "matmul: inputs need 1 axis or more: got shapes [2, 3] and []");
  EXPECT_EQ(error_of([&] { matmul(a, ones({3}, kFloat64)); }),
            "matmul: dtypes differ: got float32 and float64");
  EXPECT_NE(error_of([&] { matmul(ones({2, 2, 3}), ones({3, 3, 4})); }), "");
  EXPECT_NE(error_of([&] { matmul(a.to(kBool), ones({3, 1}, kBool)); }), "");
  EXPECT_EQ(error_of([&] {
              linear(a, ones({5, 4}));
            }),
            "linear: features differ: got x [2, 3] and weight [5, 4], expected equal last sizes");
  EXPECT_EQ(error_of([&] {
              linear(a, ones({5, 3}), ones({3}));
            }),
            "linear: bias has the wrong shape: got [3], expected [5]");
  EXPECT_EQ(error_of([&] {
              linear(a, ones({5, 3, 1}));
            }),
            "linear: weight needs 2 axes or 1: got shape [5, 3, 1]");
  EXPECT_EQ(error_of([&] { linear(a, ones({3}), ones({1})); }),
            "linear: a weight of 1 axis takes no bias: got bias [1], expected none");
}

}  // namespace
}  // namespace wick::testing
