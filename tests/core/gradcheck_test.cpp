#include "wick/core/gradcheck.h"

#include <gtest/gtest.h>

#include "wick/core/core.h"
#include "wick/nn/linear.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/host_array.h"

namespace wick::testing {
namespace {

// x * y, its gradient wrong in a chosen way.
struct Product {
  enum Fault : int {
    kNone,
    kSign,
    kFactor,
    kIgnoresIncoming,
    kOneElement,
    kSecondDerivative,
    kOnlyTogether,
    kRandom,
  };
  static constexpr OpInfo info{.name = "test_product"};
  int fault;
  Tensor forward(Saved& saved, const Tensor& x, const Tensor& y) const {
    saved.save(x, y);
    return x * y;
  }
  Gradients backward(const Saved& saved, const Tensor& dz) const {
    static int calls = 0;
    const Tensor x = saved[0];
    const Tensor y = saved[1];
    Tensor dx = dz * y;
    Tensor dy = dz * x;
    switch (fault) {
      case kSign: dx = -dx; break;
      case kFactor: dy = dy * 1.01; break;
      case kIgnoresIncoming: dx = y * 1.0; break;
      case kOneElement: {
        std::vector<double> error(static_cast<size_t>(dx.numel()));
        error.back() = 1e-3;
        dx = dx + tensor(error, dx.shape());
        break;
      }
      case kSecondDerivative: dx = dz * y.detach(); break;
      case kOnlyTogether:
        if (!saved.needs(0)) dy = dy * 2;
        break;
      case kRandom: dx = dx * (1 + 1e-14 * ++calls); break;
      default: break;
    }
    return {dx, dy};
  }
};

Tensors points(Device device = kCpu) {
  return {make_tensor({{2, 3}, {1, -2, 3, 0.5, 2, -1}}, kFloat64).to(device).set_requires_grad(),
          make_tensor({{2, 3}, {2, 1, -1, 4, 0.25, 3}}, kFloat64).to(device).set_requires_grad()};
}

TensorFunction product(int fault) {
  return [fault](const Tensors& x) -> Tensors { return {apply(Product{fault}, x[0], x[1])}; };
}

TEST(Gradcheck, AcceptsRightGradients) {
  for (const Device device : devices()) {
    const Tensors x = points(device);
    EXPECT_TRUE(gradcheck(product(Product::kNone), x));
    EXPECT_TRUE(gradcheck(product(Product::kNone), x, {.fast_mode = true}));
    EXPECT_TRUE(gradgradcheck(product(Product::kNone), x));
    EXPECT_TRUE(bit_equal(x[0].detach(), points(device)[0].detach())) << "an input was moved";
    EXPECT_TRUE(gradcheck(product(Product::kNone), {x[0].detach(), x[1]}));
  }
}

TEST(Gradcheck, FindsEachFault) {
  for (const int fault : {Product::kSign, Product::kFactor, Product::kIgnoresIncoming,
                          Product::kOneElement, Product::kOnlyTogether, Product::kRandom}) {
    EXPECT_THROW(gradcheck(product(fault), points()), GradcheckError) << "fault " << fault;
    EXPECT_FALSE(gradcheck(product(fault), points(), {.raise_exception = false}));
    EXPECT_FALSE(
        gradcheck(product(fault), points(), {.raise_exception = false, .fast_mode = true}));
  }
  EXPECT_TRUE(gradcheck(product(Product::kSecondDerivative), points()));
  EXPECT_THROW(gradgradcheck(product(Product::kSecondDerivative), points()), GradcheckError);
  EXPECT_FALSE(
      gradgradcheck(product(Product::kSecondDerivative), points(), {}, {.raise_exception = false}));
}

TEST(Gradcheck, ReportsTheJacobians) {
  const std::string wrong = error_of([] { gradcheck(product(Product::kFactor), points()); });
  for (const char* part :
       {"gradcheck: Jacobian mismatch for output 0 with respect to input 1: got 3.03",
        " at [2, 2], expected ", "within 1e-05 + 0.001 of it; 6 of 36 elements are wrong",
        "\nnumerical:\n", "\nanalytical:\n", "1.0100"}) {
    EXPECT_NE(wrong.find(part), std::string::npos) << part << " is not in: " << wrong;
  }
}

TEST(Gradcheck, AllowsWhatItsOptionsSay) {
  EXPECT_TRUE(gradcheck(product(Product::kFactor), points(), {.rtol = 0.02}));
  EXPECT_TRUE(gradcheck(product(Product::kRandom), points(), {.nondet_tol = 1e-9}));
  const Tensor single = ones({2}).set_requires_grad();
  const TensorFunction cube = [](const Tensors& x) -> Tensors { return {x[0] * x[0] * x[0]}; };
  expect_error([&] { gradcheck(cube, {single}, {.fast_mode = true}); },
               {"input 0 is float32, in which a difference of step 1e-06 is mostly rounding"});
  EXPECT_TRUE(gradcheck(cube, {single}, {.eps = 1e-2, .atol = 1e-2}));
}

// The sum and the product, of which backward takes the second's gradient to be there.
struct SumAndProduct {
  static constexpr OpInfo info{.name = "test_sum_and_product"};
  std::array<Tensor, 2> forward(Saved& saved, const Tensor& x, const Tensor& y) const {
    saved.save(x, y);
    return {x + y, x * y};
  }
  Gradients backward(const Saved& saved, const Tensor& ds, const Tensor& dp) const {
    if (!dp.defined()) return {Tensor(), Tensor()};
    if (!ds.defined()) return {dp * saved[1], dp * saved[0]};
    return {ds + dp * saved[1], ds + dp * saved[0]};
  }
};

TEST(Gradcheck, LeavesGradientsUndefined) {
  const TensorFunction both = [](const Tensors& x) -> Tensors {
    const auto parts = apply(SumAndProduct{}, x[0], x[1]);
    return {parts[0], parts[1]};
  };
  expect_error([&] { gradcheck(both, points()); }, {"with undefined gradients of the other"});
}

TEST(Gradcheck, ChecksWhatIsCaptured) {
  nn::Linear layer(3, 2);
  layer.to(kFloat64);
  const Tensor x = randn({4, 3}, kFloat64);
  const auto call = [&](const Tensors&) -> Tensors { return {layer(x)}; };
  EXPECT_TRUE(gradcheck(call, layer.parameters()));
}

TEST(Gradcheck, FindsOutputsThatForgetTheirInput) {
  const auto cut = [](const Tensors& x) -> Tensors { return {x[0].detach() * 2}; };
  expect_error([&] { gradcheck(cut, points()); },
               {"output 0 requires no gradient, yet changes with input 0"});
  const auto constant = [](const Tensors& x) -> Tensors { return {x[0].sign().detach()}; };
  EXPECT_TRUE(gradcheck(constant, points()));
}

TEST(Gradcheck, RefusesWhatItCannotCheck) {
  const TensorFunction same = product(Product::kNone);
  expect_error(
      [&] {
        gradcheck(same, {ones({2}, kFloat64), ones({2}, kFloat64)});
      },
      {"gradcheck: no input requires a gradient: got 2 inputs"});
  const Tensor wide = ones({1}, kFloat64).expand({3}).detach().set_requires_grad();
  expect_error(
      [&] {
        gradcheck(same, {wide, ones({3}, kFloat64)});
      },
      {"gradcheck: elements of input 0 share memory: got stride 0 along axis 0"});
  expect_error(
      [&] {
        gradgradcheck(same, points(), {ones({2, 3}), ones({2, 3})});
      },
      {"gradgradcheck: wrong number of grad_outputs: got 2, expected 1"});
}

}  // namespace
}  // namespace wick::testing
