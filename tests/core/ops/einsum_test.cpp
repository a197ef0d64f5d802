#include "wick/core/ops/einsum.h"

#include <gtest/gtest.h>

#include <cmath>

#include "wick/core/amp.h"
#include "wick/core/autograd.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/slice.h"
#include "wick/tests/core/ops/remap.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

TensorFunction equation(const char* text) {
  return [text](const Tensors& x) -> Tensors { return {einsum(text, x)}; };
}

// Terms of one sign: in half types sums of both signs lose what is compared.
Input positive(const Shape& shape) { return uniform(shape, 0.5, 1.5); }

WICK_OP_CASE(
    einsum_batches, .samples = {{positive({2, 3, 5}), positive({2, 5, 4})}},
    .call = equation("bij, bjk -> bik"),
    .composed = [](const Tensors& x) -> Tensors { return {matmul(x[0], x[1])}; },
    .tolerance = Tolerance::matmul(), .second_order = true);
WICK_OP_CASE(
    einsum_heads, .samples = {{positive({2, 3, 4, 5}), positive({2, 6, 4, 5})}},
    .call = equation("bqhd,bkhd->bhqk"),
    .composed = [](const Tensors& x) -> Tensors {
      return {matmul(x[0].permute({0, 2, 1, 3}), x[1].permute({0, 2, 3, 1}))};
    },
    .tolerance = Tolerance::matmul());
WICK_OP_CASE(
    einsum_three,
    .samples = {{positive({3}), positive({3, 4}), positive({4})},
                {positive({31}), positive({31, 33}), positive({33})}},
    .call = equation("i,ij,j->"),
    .composed = [](const Tensors& x) -> Tensors { return {sum(x[0].unsqueeze(1) * x[1] * x[2])}; },
    .tolerance = Tolerance::matmul());
WICK_OP_CASE(
    einsum_ellipsis, .samples = {{positive({2, 1, 3, 5}), positive({4, 5, 3})}},
    .call = equation("...ij,...ji->...i"),
    .composed = [](const Tensors& x) -> Tensors {
      return {sum(x[0] * x[1].transpose(1, 2), {-1})};
    },
    .tolerance = Tolerance::matmul());
WICK_OP_CASE(
    einsum_products, .samples = {{positive({3, 4}), positive({3, 5})}},
    .call = equation("ab,ac->abc"), .composed = [](const Tensors& x) -> Tensors {
      return {x[0].unsqueeze(2) * x[1].unsqueeze(1)};
    });

// Sums between two products exceed float16, and the result does not.
TEST(Einsum, StaysFiniteBetweenItsProducts) {
  struct Product {
    const char* equation;
    Tensors operands;
    double result;
  };
  const Product products[] = {
      {"ij,jk->k", {full({1000, 4}, 100), full({4, 1}, 0x1p-10)}, 400000 * 0x1p-10},
      {"ij,jk,kl->il", {full({2, 64}, 40), full({64, 2}, 40), full({2, 2}, 0x1p-10)}, 200}};
  for (const Device device : devices()) {
    for (const Product& product : products) {
      Tensors leaves;
      for (const Tensor& x : product.operands) {
        leaves.push_back(x.to(kFloat16).to(device).requires_grad_());
      }
      const Tensor y = einsum(product.equation, leaves);
      EXPECT_EQ(y.dtype(), kFloat16);
      EXPECT_NEAR(y.reshape({-1})[0].item(), product.result, 0.25) << product.equation;
      (mean(y) * 0x1p-4).backward();
      for (const Tensor& leaf : leaves) {
        EXPECT_TRUE(isfinite(leaf.grad()).all().item<bool>()) << product.equation;
      }
    }
  }
}

TEST(Einsum, HasTheDtypeOfAutocast) {
  const amp::Autocast autocast(kCpu);
  const Tensor x = ones({2, 2});
  EXPECT_EQ(einsum("ij,jk", {x, x}).dtype(), kBFloat16);
  EXPECT_EQ(einsum("ij,jk,kl", {x, x.to(kBFloat16), x}).dtype(), kBFloat16);
  EXPECT_EQ(einsum("ij,jk->k", {x, x}).dtype(), kBFloat16);
}

TEST(Einsum, FollowsTheEquation) {
  const Tensor x = arange(9, kFloat64).reshape({3, 3}), y = arange(3, kFloat64);
  EXPECT_EQ(einsum("ii", {x}).item(), 12);
  EXPECT_TRUE(equal(einsum("ii->i", {x}), diagonal(x)));
  EXPECT_TRUE(equal(einsum("ba", {x}), x.t()));  // in alphabetical order
  EXPECT_TRUE(equal(einsum("ij->j", {x}), x.sum(0)));
  EXPECT_TRUE(equal(einsum("...->...", {x}), x));
  EXPECT_NE(einsum("ij->ij", {x}).raw_data(), x.raw_data());
  EXPECT_TRUE(equal(einsum("i,j", {y, y}), outer(y, y)));
  EXPECT_TRUE(equal(einsum("ij,j", {x, y}), matmul(x, y)));
  EXPECT_EQ(einsum(",", {scalar_tensor(2.0), scalar_tensor(3.0)}).item(), 6);
  EXPECT_EQ(einsum("ij,kl->", {x, x}).item(), 36 * 36);
  for (const char* wrong :
       {"ij", "ij,jk,kl", "i,j", "ij,jk->ii", "ij,jk->m", "i?,jk", "ij,jk->i1"}) {
    EXPECT_THROW(einsum(wrong, {x, ones({3, 4}, kFloat64).narrow(1, 0, 3)}), Error) << wrong;
  }
  EXPECT_EQ(error_of([&] {
              einsum("ij,jk", {x, ones({4, 2}, kFloat64)});
            }),
            "einsum: \"j\" has two sizes, 3 and 4: got \"ij,jk\"");
  EXPECT_THROW(einsum("i", {}), Error);
}

WICK_OP_CASE(
    tensordot, .samples = {{positive({3, 4, 5}), positive({5, 3, 2})}},
    .call = [](const Tensors& x) -> Tensors {
      return {tensordot(x[0], x[1], {2, 0}, {0, 1})};
    },
    .composed = [](const Tensors& x) -> Tensors { return {einsum("ijk,kil->jl", x)}; },
    .tolerance = Tolerance::matmul(), .second_order = true);
WICK_OP_CASE(
    kron, .samples = {{positive({2, 3}), positive({4, 5})}, {positive({3}), positive({2, 2})}},
    .call = [](const Tensors& x) -> Tensors { return {kron(x[0], x[1])}; },
    .reference = [](const Arrays& in) -> Arrays {
      HostArray a = in[0];
      if (a.shape.rank() == 1) a.shape = {1, a.shape[0]};
      const Shape b = in[1].shape;
      HostArray y = filled({a.shape[0] * b[0], a.shape[1] * b[1]});
      for_each_coordinate(y.shape, [&](const Shape& c) {
        at(y, c) = at(a, {c[0] / b[0], c[1] / b[1]}) * at(in[1], {c[0] % b[0], c[1] % b[1]});
      });
      return {y};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);
WICK_OP_CASE(
    baddbmm, .samples = {{positive({4}), positive({2, 3, 5}), positive({2, 5, 4})}},
    .call = [](const Tensors& x) -> Tensors { return {baddbmm(x[0], x[1], x[2], 3, 2)}; },
    .composed = [](const Tensors& x) -> Tensors { return {x[0] * 3 + matmul(x[1], x[2]) * 2}; },
    .tolerance = Tolerance::matmul(), .second_order = true);
WICK_OP_CASE(
    addmv_addr, .samples = {{positive({3}), positive({3, 5}), positive({5})}},
    .call = [](const Tensors& x) -> Tensors {
      return {addmv(x[0], x[1], x[2], 0.5, 2), addr(x[1], x[0], x[2], 2, 3)};
    },
    .composed = [](const Tensors& x) -> Tensors {
      return {x[0] * 0.5 + matmul(x[1], x[2]) * 2, x[1] * 2 + outer(x[0], x[2]) * 3};
    },
    .tolerance = Tolerance::matmul());

TEST(MatrixProducts, KeepToTheirShapes) {
  const Tensor x = arange(6, kFloat32).reshape({2, 3}), v = ones({3});
  EXPECT_TRUE(equal(inner(x, x), matmul(x, x.t())));
  EXPECT_TRUE(equal(inner(x, scalar_tensor(2.f)), x * 2));
  EXPECT_TRUE(equal(tensordot(x, x.t(), 1), matmul(x, x.t())));
  EXPECT_EQ(tensordot(x, x).item(), 55);
  EXPECT_EQ(tensordot(x, x, 0).shape(), (Shape{2, 3, 2, 3}));
  EXPECT_TRUE(equal(mv(x, v), matmul(x, v)));
  // With beta 0 x is not read.
  EXPECT_TRUE(equal(addmv(full({2}, NAN), x, v, 0), matmul(x, v)));
  EXPECT_THROW(mv(v, x), Error);
  EXPECT_THROW(tensordot(x, x, {0, 0}, {0, 1}), Error);
  EXPECT_THROW(tensordot(x, x, 1), Error);
  EXPECT_THROW(tensordot(x, x, 3), Error);
}

TEST(MatrixProducts, OfIntegersAreIntegers) {
  const Tensor v = tensor<int64_t>({1, 2}), m = tensor<int64_t>({1, 2, 3, 4}).reshape({2, 2});
  const Tensor stack = m.unsqueeze(0);
  EXPECT_TRUE(equal(addmv(v, m, v, 1.7, 2.9), v + matmul(m, v) * 2));
  EXPECT_TRUE(equal(baddbmm(stack, stack, stack, 0.5, -1.5), -matmul(stack, stack)));
  EXPECT_TRUE(equal(addbmm(m, stack, stack, 2.5, 0.5), m * 2));
  EXPECT_TRUE(equal(addr(m, v, v, 2, 3), m * 2 + outer(v, v) * 3));
  EXPECT_EQ(error_of([&] { addr(m, v, v, 1, 0.5); }),
            "addr: factors of integers must be whole: got beta 1 and alpha 0.5");
  const Tensor yes = tensor<bool>({true, false}), none = zeros({2, 2}, kBool);
  EXPECT_TRUE(equal(addr(none, yes, yes), outer(yes, yes)));
  EXPECT_TRUE(equal(addr(none, yes, yes, 1, 0), none));
  EXPECT_TRUE(equal(addr(logical_not(none), yes, yes, 2, 2), logical_not(none)));
}

// --- Distances ----------------------------------------------------------------------------------

Arrays reference_distances(const Arrays& in, double p) {
  const int64_t rows = in[0].shape[0], others = in[1].shape[0];
  HostArray y = filled({rows, others});
  for_each_coordinate(y.shape, [&](const Shape& c) {
    double sum = 0;
    for (int64_t k = 0; k < in[0].shape[1]; ++k) {
      sum += std::pow(std::fabs(at(in[0], {c[0], k}) - at(in[1], {c[1], k})), p);
    }
    at(y, c) = std::pow(sum, 1 / p);
  });
  return {y};
}
WICK_OP_CASE(
    cdist_by_cubes, .samples = {{normal({5, 7}), normal({3, 7})}},
    .call = [](const Tensors& x) -> Tensors { return {cdist(x[0], x[1], 3)}; },
    .reference = [](const Arrays& in) { return reference_distances(in, 3); },
    .tolerance = Tolerance::reduction());
WICK_OP_CASE(
    cdist_by_products, .samples = {{uniform({31, 7}, 2, 3), uniform({3, 7}, -1, 0)}},
    .call = [](const Tensors& x) -> Tensors { return {cdist(x[0], x[1])}; },
    .reference = [](const Arrays& in) { return reference_distances(in, 2); },
    .tolerance = Tolerance::matmul(), .second_order = true);
WICK_OP_CASE(
    pdist, .samples = {{normal({5, 7})}, {normal({1, 3})}},
    .call = [](const Tensors& x) -> Tensors { return {pdist(x[0])}; },
    .reference = [](const Arrays& in) -> Arrays {
      const HostArray all = reference_distances({in[0], in[0]}, 2)[0];
      HostArray y{{0}, {}};
      for (int64_t i = 0; i < in[0].shape[0]; ++i) {
        for (int64_t j = i + 1; j < in[0].shape[0]; ++j) y.values.push_back(at(all, {i, j}));
      }
      y.shape = {static_cast<int64_t>(y.values.size())};
      return {y};
    },
    .tolerance = Tolerance::reduction(), .traceable = false);

TEST(Cdist, HasNoGradientWhereRowsAreEqual) {
  const Tensor few = ones({2, 3}, kFloat64).set_requires_grad();
  const Tensor many = ones({30, 3}, kFloat64).set_requires_grad();
  (cdist(few, few.detach()).sum() + cdist(many, many.detach()).sum()).backward();
  EXPECT_TRUE(equal(few.grad(), zeros({2, 3}, kFloat64)));
  EXPECT_TRUE(equal(many.grad(), zeros({30, 3}, kFloat64)));
  EXPECT_EQ(cdist(ones({4, 1, 2, 3}), ones({5, 6, 3})).shape(), (Shape{4, 5, 2, 6}));
  EXPECT_THROW(cdist(few, ones({2, 4}, kFloat64)), Error);
  EXPECT_THROW(cdist(few, few, -1), Error);
  EXPECT_THROW(pdist(ones({3})), Error);
}

}  // namespace
}  // namespace wick::testing
