// Sizes that overflow: each is a wick::Error (or what the arithmetic says), never undefined
// behaviour. Worth most under UndefinedBehaviorSanitizer.
#include <gtest/gtest.h>

#include <functional>

#include "wick/core/ops/conv.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/index.h"
#include "wick/core/ops/interpolate.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/pool.h"
#include "wick/core/ops/slice.h"
#include "wick/core/ops/view.h"
#include "wick/tests/harness/expect_error.h"

namespace wick {
namespace {

using wick::testing::error_of;

constexpr int64_t kMax = INT64_MAX, kMin = INT64_MIN, k32 = int64_t{1} << 32,
                  k62 = int64_t{1} << 62;

struct Case {
  const char* name;
  std::function<void()> action;
};

void expect_errors(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    EXPECT_THROW(c.action(), Error);
  }
}

TEST(Sizes, OfNewTensors) {
  float memory[4] = {};
  expect_errors({
      {"product",
       [] {
         empty({k32, k32});
       }},
      {"bytes", [] { empty({kMax / 4 + 1}); }},
      {"beside 0",
       [] {
         empty({0, k32, k32});
       }},
      {"negative",
       [] {
         empty({-2, -3});
       }},
      {"strided",
       [] {
         empty_strided({2, 2}, {kMax, 1}, kFloat32, kCpu);
       }},
      {"from_blob",
       [&] {
         from_blob(memory, {k32, k32}, kFloat32);
       }},
      {"from_blob beside 0",
       [&] {
         from_blob(memory, {0, k32, k32}, kFloat32);
       }},
      {"from_blob strides", [&] { from_blob(memory, {3}, kFloat32, {}, Strides{kMax}); }},
      {"from_blob strides of 2",
       [&] {
         from_blob(memory, {2, 2}, kFloat32, {}, Strides{k62, k62});
       }},
      {"from_blob bytes", [&] { from_blob(memory, {2}, kFloat32, {}, Strides{k62}); }},
      {"linspace", [] { linspace(0, 1, kMax); }},
      {"eye", [] { eye(k32); }},
  });
  EXPECT_EQ(empty_strided({2, 0}, {kMax, -1}, kFloat32, kCpu).slice(0, 0, 2, 2).numel(), 0);
}

TEST(Sizes, OfViews) {
  const Tensor x = ones({2}), none = ones({0});
  expect_errors({
      {"reshape",
       [=] {
         x.reshape({k62 + 1, 2});
       }},
      {"reshape to none",
       [=] {
         none.reshape({k32, k32});
       }},
      {"reshape with -1",
       [=] {
         none.reshape({k32, k32, -1});
       }},
      {"reshape negative",
       [=] {
         x.reshape({-2, -1});
       }},
      {"view",
       [=] {
         x.view({k62 + 1, 2});
       }},
      {"unflatten",
       [=] {
         unflatten(x, 0, {k62 + 1, 2});
       }},
      {"unflatten negative",
       [=] {
         unflatten(x, 0, {-2, -1});
       }},
      {"unflatten twice -1",
       [=] {
         unflatten(x, 0, {-1, -1});
       }},
      {"unflatten none",
       [=] {
         unflatten(none, 0, {0, -1});
       }},
      {"expand",
       [] {
         ones({1}).expand({k32, k32});
       }},
      {"expand beside 0",
       [] {
         ones({1}).expand({0, k32, k32});
       }},
      {"masked_select",
       [] {
         masked_select(ones({1, 1}).expand({k32 / 16, 1}), ones({1, 1}, kBool).expand({1, k32}));
       }},
      {"narrow", [=] { x.narrow(0, 1, kMax); }},
      {"chunk of none", [=] { none.chunk(kMax); }},
      {"split to many", [=] { x.narrow(0, 0, 1).expand({k32}).split(1); }},
      {"split sizes",
       [=] {
         split(x, {kMax, kMax, 4});
       }},
  });
}

TEST(Sizes, OfFarSlices) {
  const Tensor x = tensor<float>({0, 1, 2, 3, 4, 5}, Shape{2, 3});
  EXPECT_EQ(x.slice(0, 1, 2, kMax).contiguous().to_vector<float>(), (std::vector<float>{3, 4, 5}));
  EXPECT_EQ(x.slice(1, kMin, kMax, kMax).shape(), (Shape{2, 1}));
  EXPECT_EQ(x.chunk(kMax).size(), 2u);
  EXPECT_EQ(x.split(kMax, 1).size(), 1u);
  for (const int64_t far : {kMin, kMin + 1, int64_t{-2}, int64_t{3}, kMax}) {
    SCOPED_TRACE(far);
    EXPECT_EQ(diagonal(x, far).numel(), 0);
    const Tensor nothing = zeros({2, 3});
    EXPECT_EQ(tril(x, far).to_vector<float>(), (far < 0 ? nothing : x).to_vector<float>());
    EXPECT_EQ(triu(x, far).to_vector<float>(), (far > 0 ? nothing : x).to_vector<float>());
  }
}

TEST(Sizes, OfWhatIsJoined) {
  const Tensor x = ones({2});
  const Tensor huge = ones({1}).expand({k62 / 16});
  expect_errors({
      {"pad",
       [=] {
         pad(x, {kMax, kMax});
       }},
      {"pad one side",
       [=] {
         pad(x, {kMax, 1});
       }},
      {"crop",
       [=] {
         pad(x, {kMin, kMin});
       }},
      {"crop and pad",
       [=] {
         pad(x, {kMin, kMax});
       }},
      {"replicate",
       [=] {
         pad(x, {kMax, kMax}, 0, PadMode::kReplicate);
       }},
      {"replicate much",
       [=] {
         pad(x, {k62 / 1024, 0}, 0, PadMode::kReplicate);
       }},
      {"repeat", [=] { repeat(x, {k62}); }},
      {"repeat none",
       [] {
         repeat(ones({k32, 0}), {k32, 1});
       }},
      {"repeat 0 times",
       [=] {
         repeat(x, {k62, 0});
       }},
      {"cat", [=] { cat(std::vector<Tensor>(40, huge)); }},
      {"one_hot", [] { one_hot(tensor<int64_t>({kMax})); }},
      {"one_hot of many", [] { one_hot(tensor<int64_t>({0}), k62); }},
  });
}

TEST(Sizes, OfImages) {
  const Tensor x = ones({1, 1, 4, 4}), w = ones({1, 1, 3, 3});
  for (const int64_t much : {k32 / 2, k62, kMax}) {
    SCOPED_TRACE(much);
    expect_errors({
        {"conv padding", [=] { conv2d(x, w, {}, {1}, {much}); }},
        {"conv dilation",
         [=] {
           conv2d(x, w, {}, {1}, {0}, {much, 1});
         }},
        {"conv stride", [=] { conv2d(x, w, {}, {much}); }},
        {"transposed stride",
         [=] {
           conv_transpose2d(x, w, {}, {much, 1});
         }},
        {"transposed padding", [=] { conv_transpose2d(x, w, {}, {1}, {much}); }},
        {"pool", [=] { max_pool2d(x, {much}, {1}, {much / 2}); }},
        {"adaptive",
         [=] {
           adaptive_avg_pool2d(x, {much, much});
         }},
        {"interpolate",
         [=] {
           interpolate(x, Shape{much, much});
         }},
    });
  }
  EXPECT_NE(error_of([=] { max_pool2d(x, {k32 / 4}, {1}, {k32 / 8}); }).find("too large"),
            std::string::npos);
}

}  // namespace
}  // namespace wick
