#include <gtest/gtest.h>

#include <functional>

#include "wick/core/autograd.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/slice.h"
#include "wick/tests/core/leaf.h"
#include "wick/tests/harness/expect_error.h"

namespace wick {
namespace {

using wick::testing::error_of;

TEST(InPlace, NamesTheOpWhoseSavedTensorChanged) {
  const Tensor x = leaf({2});
  const Tensor y = x * 3;
  const Tensor z = y * y;
  y.add_(1);
  const std::string error = error_of([&] { z.backward(); });
  EXPECT_NE(error.find("mul: a tensor needed by backward was changed in place"), std::string::npos)
      << error;
}

TEST(InPlace, SeesChangesThroughViewsAndDetached) {
  const Tensor x = leaf({2, 3});
  const Tensor factor = tensor<double>({5, 7});
  const Tensor z = (x * factor).sum();
  factor.narrow(0, 1, 1).fill_(0);
  EXPECT_THROW(z.backward(), Error);
  const Tensor y = x.exp();
  const Tensor total = y.sum();
  y.detach().fill_(0);
  EXPECT_THROW(total.backward(), Error);
}

TEST(InPlace, ChangesWhatNobodyKept) {
  const Tensor x = leaf({2, 3});
  const Tensor y = x + 1;
  y.mul_(10);
  y.sum().backward();
  EXPECT_EQ(values(y), (List{30, 40}));
  EXPECT_EQ(values(x.grad()), (List{10, 10}));
}

TEST(InPlace, RefusesViewsMadeBefore) {
  const std::vector<Tensor (*)(const Tensor&)> views = {
      [](const Tensor& y) {
        return y.reshape({2, 2});
      },
      [](const Tensor& y) { return y.permute({0}); },
      [](const Tensor& y) { return y.slice(0, 0, 4, 2); },
      [](const Tensor& y) {
        return y.expand({2, 4});
      },
      [](const Tensor& y) { return y.split(2)[1]; }};
  for (const auto& view : views) {
    const Tensor x = leaf({1, 2, 3, -4});
    const Tensor y = x * 1;
    const Tensor before = view(y), used = before.sum();
    y.mul_(5);
    const std::string error = error_of([&] { before.sum(); });
    EXPECT_NE(error.find("before its base was changed in place"), std::string::npos) << error;
    EXPECT_THROW(before.backward(ones_like(before)), Error);
    used.backward({}, /*retain_graph=*/true);
    EXPECT_EQ(values(x.grad()), values(grad({view(x).sum()}, {x})[0]));
    EXPECT_EQ(values(before.detach().sum()), values(view(y.detach()).sum()));
    const Tensor after = view(y);
    {
      const NoGrad no_grad;
      y.add_(1);
    }
    after.sum().backward();
    EXPECT_GT(values(x.grad())[2], 4);
  }
}

TEST(InPlace, RefusesViewsMadeBeforeTheirBaseHadAHistory) {
  const Tensor w = leaf({1, 2, 3, 4});
  const Tensor y = zeros({4}, kFloat64);
  const Tensor before = y.reshape({2, 2}), constant = y.detach().reshape({2, 2});
  {
    const NoGrad no_grad;
    y.add_(1);
  }
  EXPECT_NO_THROW((before * w.reshape({2, 2})).sum());
  y.add_(w);
  const std::string error = error_of([&] { (before * w.reshape({2, 2})).sum(); });
  EXPECT_NE(error.find("before its base was changed in place"), std::string::npos) << error;
  EXPECT_NE(error.find("got one of shape [2, 2]"), std::string::npos) << error;
  for (const Tensor& each : {constant, before.detach()}) {
    EXPECT_EQ(values(grad({(each * w.reshape({2, 2})).sum()}, {w})[0]), (List{2, 3, 4, 5}));
  }
  EXPECT_EQ(values(grad({y.reshape({2, 2}).sum()}, {w})[0]), (List{1, 1, 1, 1}));
}

// No op here has another input that requires a gradient.
TEST(InPlace, RefusesAloneWhatWasMadeBeforeTheHistory) {
  const Tensor w = leaf({1, 2, 3});
  const Tensor y = zeros({3}, kFloat64);
  const Tensor before = y[0], constant = y.detach();
  const std::vector<Tensor> rows = y.unbind(0);
  EXPECT_EQ(values(before * 2), (List{0}));
  y.add_(w);
  const std::string outdated = "a view was made before its base was changed in place";
  const std::vector<std::function<void()>> uses = {
      [&] { before * 2; },          [&] { before.mul_(2); },
      [&] { before.fill_(0); },     [&] { before.copy_(ones({}, kFloat64)); },
      [&] { before.reshape({1}); }, [&] { rows[1].square(); }};
  for (size_t i = 0; i < uses.size(); ++i) {
    const std::string error = error_of(uses[i]);
    EXPECT_NE(error.find(outdated), std::string::npos) << i << ": " << error;
    const NoGrad no_grad;
    EXPECT_NO_THROW(uses[i]()) << i;
  }
  EXPECT_EQ(before.item(), 1);
  EXPECT_NO_THROW(before.detach() * 2);
  EXPECT_NO_THROW(before.detach().fill_(1));
  EXPECT_EQ(values(constant * 2), (List{2, 4, 6}));
  EXPECT_EQ(values(constant[0].add_(1)), (List{2}));
  EXPECT_EQ(values(grad({y[0] * 2 + y.sum()}, {w})[0]), (List{3, 1, 1}));
}

TEST(InPlace, CountsTheHistoryOfDetachedApart) {
  const Tensor w = leaf({1, 2, 3});
  const Tensor base = zeros({3}, kFloat64), of_base = base[0];
  const Tensor y = base.detach(), other = base[1].detach(), before = y[0];
  y.add_(w);
  EXPECT_THROW(before * 2, Error);
  EXPECT_EQ(values(of_base * 2), (List{2}));
  EXPECT_EQ(values(other * 2), (List{4}));
  EXPECT_EQ(values(grad({y[0] * 2 + y.sum()}, {w})[0]), (List{3, 1, 1}));
}

TEST(InPlace, RefusesViewsMadeUnderNoGrad) {
  const Tensor w = leaf({1, 2, 3});
  for (const Tensor& y : {w * 1, w}) {
    Tensor view, inner, inferred;
    {
      const NoGrad no_grad;
      view = y.slice(0, 0, 2);
      inner = view[0];
    }
    {
      const InferenceMode inference;
      inferred = y[0];
    }
    for (const Tensor& each : {view, inner, inferred, inner.reshape({1})}) {
      for (const auto& error : {error_of([&] { each.mul_(2); }), error_of([&] { each.zero_(); })}) {
        EXPECT_NE(error.find("a view made under NoGrad cannot be changed"), std::string::npos)
            << error;
      }
    }
    EXPECT_EQ(values(y), (List{1, 2, 3}));
    EXPECT_EQ(values(view * 2), (List{2, 4}));
    EXPECT_EQ(values(grad({(view * y.slice(0, 0, 2)).sum()}, {y})[0]), (List{1, 2, 0}));
    EXPECT_NO_THROW(view.clone().mul_(2));
    EXPECT_NO_THROW(view.detach().mul_(1));
    const NoGrad no_grad;
    EXPECT_NO_THROW(view.mul_(1));
  }
  const Tensor free = ones({3}, kFloat64);
  Tensor view;
  {
    const NoGrad no_grad;
    view = free[0];
  }
  view.mul_(2);
  EXPECT_EQ(values(free), (List{2, 1, 1}));
}

TEST(InPlace, SparesLeaves) {
  const Tensor x = leaf({2});
  EXPECT_NE(error_of([&] { x.add_(1); }).find("a leaf that requires a gradient"),
            std::string::npos);
  EXPECT_EQ(values(x), (List{2}));
  {
    const NoGrad off;
    x.add_(1);
  }
  EXPECT_EQ(values(x), (List{3}));
  const Tensor y = x * 2;
  EXPECT_NE(error_of([&] { y.narrow(0, 0, 1).fill_(0); }).find("in place"), std::string::npos);
}

}  // namespace
}  // namespace wick
