// Ops as a user writes them, whose forward gives back what is not their own.
#include <gtest/gtest.h>

#include "wick/core/apply.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/reduce.h"
#include "wick/tests/core/leaf.h"
#include "wick/tests/harness/expect_error.h"

using namespace wick;
using wick::testing::error_of;

namespace {

// The gradient reversal of domain adaptation (Ganin and Lempitsky 2015).
struct Reverse {
  static constexpr OpInfo info{.name = "reverse"};
  Tensor forward(Saved&, const Tensor& x) const { return x; }
  Gradients backward(const Saved&, const Tensor& dy) const { return {-dy}; }
};

// Gives back its input, which it keeps: the gradient is dy * x.
struct Keep {
  static constexpr OpInfo info{.name = "keep"};
  Tensor forward(Saved& saved, const Tensor& x) const {
    saved.save(x);
    return x;
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const { return {dy * saved[0]}; }
};

// All of a list as it came, with the gradients doubled, and nothing behind it.
struct PassList {
  static constexpr OpInfo info{.name = "pass_list"};
  std::vector<Tensor> forward(Saved&, std::span<const Tensor> x) const {
    std::vector<Tensor> y(x.begin(), x.end());
    y.emplace_back();
    return y;
  }
  Gradients backward(const Saved&, std::span<const Tensor> dy) const {
    Gradients dx;
    for (const Tensor& d : dy.first(dy.size() - 1)) dx.push_back(d.defined() ? d * 2 : Tensor());
    return dx;
  }
};

// One result twice, of which the second counts ten times.
struct Twice {
  static constexpr OpInfo info{.name = "twice"};
  std::array<Tensor, 2> forward(Saved& saved, const Tensor& x) const {
    const Tensor y = x * 1;
    saved.save(y);
    return {y, y};
  }
  Gradients backward(const Saved& saved, const Tensor& first, const Tensor& second) const {
    EXPECT_EQ(values(saved[0]), (List{3}));
    Tensor dx = zeros_like(saved[0]);
    if (first.defined()) dx = dx + first;
    if (second.defined()) dx = dx + second * 10;
    return {dx};
  }
};

// Adds the second to the first in place, and gives back both.
struct AddInto {
  static constexpr OpInfo info{.name = "add_into", .mutates = 1};
  std::array<Tensor, 2> forward(Saved&, const Tensor& x, const Tensor& y) const {
    x.copy_(x + y);
    return {x, y};
  }
  Gradients backward(const Saved&, const Tensor& dx, const Tensor& dy) const {
    return {dx, dy.defined() ? dx + dy * 100 : dx};
  }
};

// Its own tensor, which is a leaf.
struct Constant {
  static constexpr OpInfo info{.name = "constant"};
  Tensor value;
  Tensor forward(Saved&, const Tensor&) const { return value; }
  Gradients backward(const Saved&, const Tensor& dy) const { return {dy * 0}; }
};

struct ConstantInput {
  static constexpr OpInfo info{.name = "constant_input", .differentiable = false};
  Tensor forward(Saved&, const Tensor& x) const { return x; }
};

TEST(CustomOp, LeavesTheHandleThatItGivesBack) {
  const Tensor w = leaf({1});
  const Tensor h = w * 2;
  const Tensor y = apply(Reverse{}, h);
  EXPECT_FALSE(y.is_same(h));
  EXPECT_EQ(y.raw_data(), h.raw_data());
  EXPECT_EQ(h.grad_fn()->name().substr(0, 3), "mul");
  (y * 3 + h * 5).backward();
  EXPECT_EQ(values(w.grad()), (List{2 * (5 - 3)}));
}

TEST(CustomOp, LeavesALeafALeaf) {
  const Tensor w = leaf({2});
  (apply(Reverse{}, w) * 3).backward();
  EXPECT_TRUE(w.is_leaf());
  EXPECT_EQ(values(w.grad()), (List{-3}));
}

TEST(CustomOp, KeepsTheInputThatItGivesBack) {
  const Tensor w = leaf({3});
  const Tensor y = apply(Keep{}, w * 2);
  const Tensor first = grad({y}, {w}, {}, false, true)[0];
  EXPECT_EQ(values(first), (List{12}));  // 2 * (2 w)
  first.backward();
  EXPECT_EQ(values(w.grad()), (List{4}));
}

TEST(CustomOp, GivesBackAList) {
  const Tensor a = leaf({1}), b = leaf({2});
  const std::vector<Tensor> given = {a, b * 1, a};
  const std::vector<Tensor> y = apply(PassList{}, given);  // found without naming wick
  ASSERT_EQ(y.size(), 4u);
  EXPECT_FALSE(y[3].defined());
  EXPECT_FALSE(y[0].is_same(y[2]));
  (y[0] * 3 + y[1] * 5 + y[2] * 7 + a).backward();
  EXPECT_EQ(values(a.grad()), (List{2 * (3 + 7) + 1}));
  EXPECT_EQ(values(b.grad()), (List{2 * 5}));
}

TEST(CustomOp, TellsTwoOutputsThatAreOneTensorApart) {
  const Tensor w = leaf({3});
  const auto [first, second] = apply(Twice{}, w);
  EXPECT_FALSE(first.is_same(second));
  (first * 2 + second * 3).backward();
  EXPECT_EQ(values(w.grad()), (List{2 + 30}));
}

TEST(CustomOp, GivesBackWhatItChangesInPlace) {
  const Tensor w = leaf({1}), v = leaf({10});
  const Tensor x = w * 1;
  const auto [changed, same] = apply(AddInto{}, x, v);
  EXPECT_TRUE(changed.is_same(x));
  EXPECT_FALSE(same.is_same(v));
  EXPECT_TRUE(v.is_leaf());
  EXPECT_EQ(values(x), (List{11}));
  (changed + same).backward();
  EXPECT_EQ(values(w.grad()), (List{1}));
  EXPECT_EQ(values(v.grad()), (List{1 + 100}));
}

TEST(CustomOp, LeavesATensorOfItsOwn) {
  const Tensor w = leaf({1}), value = leaf({5});
  const Tensor y = apply(Constant{value}, w);
  EXPECT_TRUE(value.is_leaf());
  EXPECT_FALSE(y.is_leaf());
  EXPECT_EQ(values(y), (List{5}));
}

TEST(CustomOp, GivesAHandleOfItsOwnWhereNothingIsRecorded) {
  const Tensor x = tensor<double>({1});
  const Tensor y = apply(Reverse{}, x);
  y.detach().set_requires_grad();
  EXPECT_FALSE(y.is_same(x));
  const Tensor w = leaf({1});
  {
    const NoGrad no_grad;
    const Tensor constant = apply(Reverse{}, w);
    EXPECT_FALSE(constant.requires_grad());
  }
  EXPECT_FALSE(apply(ConstantInput{}, w).requires_grad());
  EXPECT_TRUE(w.requires_grad());
  Tensor inference;
  {
    const InferenceMode mode;
    inference = apply(Reverse{}, w);
  }
  EXPECT_NE(error_of([&] { inference* w; }).find("InferenceMode"), std::string::npos);
  EXPECT_EQ(values(w * 2), (List{2}));
}

TEST(CustomOp, SeesChangesInPlaceOfWhatItGaveBack) {
  const Tensor w = leaf({1});
  const Tensor h = w * 2;
  const Tensor y = apply(Reverse{}, h);
  EXPECT_NE(error_of([&] { y.add_(w); }).find("a view cannot be changed in place"),
            std::string::npos);
  h.add_(w);  // y shows the change, which its gradient would miss
  EXPECT_NE(error_of([&] { y * 3; }).find("a view was made before its base was changed"),
            std::string::npos);
  EXPECT_EQ(values(h * 3), (List{9}));
  const auto [first, second] = apply(Twice{}, leaf({3}));
  first.add_(w);
  EXPECT_NE(error_of([&, same = second] { same * 3; }).find("changed in place"), std::string::npos);
}

TEST(CustomOp, NamesItselfInErrors) {
  EXPECT_EQ(error_of([] { apply(Twice{}, std::vector<Tensor>(2)); }),
            "twice: wrong number of inputs: got 2, expected 1");
  EXPECT_EQ(error_of([] { apply(Twice{}, Tensor()); }).substr(0, 30),
            "twice: a tensor is undefined: ");
}

}  // namespace
