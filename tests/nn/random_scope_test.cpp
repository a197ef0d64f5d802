// Random numbers of threads, of layers with a generator of their own, and of regions run again.
#include <gtest/gtest.h>

#include <thread>

#include "wick/core/core.h"
#include "wick/nn/nn.h"
#include "wick/optim/optim.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/host_array.h"

namespace wick::testing {
namespace {

using Weights = std::vector<std::vector<float>>;

// A few steps of a net with dropout, part of which is run again in backward.
Weights train(uint64_t seed) {
  const RandomScope own(seed);
  nn::Sequential first(nn::Linear(16, 32), nn::ReLU(), nn::Dropout(0.4));
  nn::Sequential second(nn::Linear(32, 32), nn::Dropout(0.3), nn::Linear(32, 4));
  std::vector<Tensor> params = first.parameters();
  for (const Tensor& p : second.parameters()) params.push_back(p);
  optim::SGD sgd(params, {.lr = 0.1});
  for (int step = 0; step < 40; ++step) {
    const Tensor x = randn({8, 16}), hidden = first(x);
    const Tensor y = nn::checkpoint([&](const Tensor& in) { return second(in); }, hidden);
    sgd.zero_grad();
    y.pow(2).mean().backward();
    sgd.step();
  }
  Weights weights;
  for (const Tensor& p : params) weights.push_back(p.detach().to_vector<float>());
  return weights;
}

TEST(RandomScope, ThreadsTrainAsTheyDoAlone) {
  const Weights alone[] = {train(1), train(2)};
  ASSERT_NE(alone[0], alone[1]);
  Weights together[2];
  std::thread other([&] { together[1] = train(2); });
  together[0] = train(1);
  other.join();
  for (const int i : {0, 1}) EXPECT_EQ(together[i], alone[i]) << i;
}

TEST(RandomScope, LeavesTheGeneratorsOfBefore) {
  manual_seed(4);
  const auto draw = [] { return rand({3}).to_vector<float>(); };
  const std::vector<float> first = draw(), second = draw();
  manual_seed(4);
  {
    const RandomScope scope;  // goes on from there
    EXPECT_EQ(draw(), first);
    EXPECT_EQ(default_generator(kCpu).get_state().offset, 1u);
    manual_seed(9);
    const std::vector<float> ninth = draw();
    {
      const RandomScope inner(9);
      EXPECT_EQ(draw(), ninth);
      EXPECT_EQ(random_states()[0].seed, 9u);
    }
    EXPECT_NE(draw(), ninth);
    std::vector<float> elsewhere;
    std::thread([&] { elsewhere = draw(); }).join();
    EXPECT_EQ(elsewhere, first) << "another thread draws from the process's";
  }
  EXPECT_EQ(draw(), second);
}

TEST(RandomScope, AGeneratorCanBeCloned) {
  Generator generator(3);
  generator.next(5);
  Generator copy = generator.clone();
  EXPECT_EQ(copy.get_state().offset, 5u);
  const auto want = rand({4}, kFloat32, kCpu, &generator).to_vector<float>();
  EXPECT_EQ(rand({4}, kFloat32, kCpu, &copy).to_vector<float>(), want);
  rand({4}, kFloat32, kCpu, &copy);
  EXPECT_EQ(generator.get_state().offset, 6u);
}

// Whatever has random numbers takes a generator, and then leaves the default one alone.
TEST(OwnGenerator, IsWhatEverythingDrawsFrom) {
  const Tensor x = ones({2, 3, 4, 4});
  const std::vector<std::function<Tensor(Generator*)>> all = {
      [&](Generator* g) { return nn::Dropout(0.5, g)(x); },
      [&](Generator* g) { return nn::Dropout2d(0.5, g)(x); },
      [&](Generator* g) {
        return scaled_dot_product_attention(x, x, x + rand(x.shape(), kFloat32, kCpu, g), {}, 0.5,
                                            false, {}, false, g);
      },
      [](Generator* g) { return empty({9}).uniform_(0, 1, g); },
      [](Generator* g) { return empty({9}).normal_(0, 1, g); },
      [](Generator* g) { return multinomial(ones({9}), 5, false, g); },
      [](Generator* g) { return multinomial(ones({9}), 5, true, g); }};
  const std::vector<void (*)(const Tensor&, Generator*)> inits = {
      [](const Tensor& w, Generator* g) { nn::init::uniform_(w, 0, 1, g); },
      [](const Tensor& w, Generator* g) { nn::init::normal_(w, 0, 1, g); },
      [](const Tensor& w, Generator* g) { nn::init::trunc_normal_(w, 0, 1, -1, 1, g); },
      [](const Tensor& w, Generator* g) { nn::init::trunc_normal_(w, 0, 1, 4, 5, g); },
      [](const Tensor& w, Generator* g) {
        nn::init::kaiming_uniform_(w, 0, nn::init::FanMode::kFanIn, g);
      },
      [](const Tensor& w, Generator* g) {
        nn::init::kaiming_normal_(w, 0, nn::init::FanMode::kFanIn, g);
      },
      [](const Tensor& w, Generator* g) { nn::init::xavier_uniform_(w, 1, g); },
      [](const Tensor& w, Generator* g) { nn::init::xavier_normal_(w, 1, g); },
      [](const Tensor& w, Generator* g) { nn::init::linear_default_(w, w, g); }};
  const auto check = [](const auto& make, size_t i) {
    Generator first(7), again(7), other(8);
    const uint64_t draws = default_generator(kCpu).get_state().offset;
    const HostArray a = read(make(&first)), b = read(make(&again)), c = read(make(&other));
    EXPECT_EQ(default_generator(kCpu).get_state().offset, draws) << i;
    EXPECT_EQ(a.values, b.values) << i;
    EXPECT_NE(a.values, c.values) << i;
  };
  for (size_t i = 0; i < all.size(); ++i) check(all[i], i);
  for (size_t i = 0; i < inits.size(); ++i) {
    check(
        [&](Generator* g) {
          const Tensor w = zeros({8, 8});
          inits[i](w, g);
          return w;
        },
        100 + i);
  }
}

// Of a dropout that is run again in backward, the gradient is the mask of its first run.
Tensor mask_gradient(Generator* generator, const std::function<void()>& between) {
  const Tensor x = ones({1000}).set_requires_grad();
  const Tensor y = nn::checkpoint(
      [generator](const Tensor& in) {
        return dropout(exp(in) * 0 + in * in, 0.5, true, generator) * in;
      },
      x);
  between();
  y.sum().backward();
  return x.grad() / 3 - y.detach();
}

TEST(RegionRunAgain, DrawsFromAnOwnGeneratorAgain) {
  Generator own(5);
  const Tensor wrong = mask_gradient(&own, [&] { own.next(3); });
  EXPECT_EQ(wrong.abs().sum().item(), 0);
  EXPECT_EQ(own.get_state().offset, 4u) << "the second run draws nothing new";
}

TEST(RegionRunAgain, DrawsAgainWhateverIsInForceThen) {
  const Tensor wrong = mask_gradient(nullptr, [] { manual_seed(77); });
  EXPECT_EQ(wrong.abs().sum().item(), 0);
  EXPECT_EQ(default_generator(kCpu).get_state().offset, 0u);
  std::optional<RandomScope> scope;
  const Tensor also_wrong = mask_gradient(nullptr, [&] { scope.emplace(3); });
  EXPECT_EQ(also_wrong.abs().sum().item(), 0);
  EXPECT_EQ(default_generator(kCpu).get_state().offset, 0u);
}

TEST(RegionRunAgain, DrawsAgainWithinARegion) {
  Generator own(5);
  const Tensor x = ones({1000}).set_requires_grad();
  const auto inner = [&own](const Tensor& in) { return dropout(in * in, 0.5, true, &own) * in; };
  const Tensor y = nn::checkpoint(
      [&](const Tensor& in) { return nn::checkpoint(inner, dropout(in, 0.5) * 1); }, x);
  y.sum().backward();
  EXPECT_EQ((x.grad() / 3 - y.detach()).abs().sum().item(), 0);
}

TEST(Multinomial, FollowsItsWeights) {
  Generator generator(1);
  const Tensor weights = tensor<float>({0, 1, 3, 0, 4, 0}, Shape{1, 6});
  const Tensor rows = cat({weights, ones({1, 6})});
  const auto places = multinomial(rows, 40000, true, &generator).to_vector<int64_t>();
  std::vector<double> counts(12);
  for (size_t i = 0; i < places.size(); ++i) {
    counts[static_cast<size_t>(places[i]) + (i < 40000 ? 0 : 6)] += 1.0 / 40000;
  }
  const double want[] = {0,       0.125,   0.375,   0,       0.5,     0,
                         1.0 / 6, 1.0 / 6, 1.0 / 6, 1.0 / 6, 1.0 / 6, 1.0 / 6};
  for (size_t i = 0; i < 12; ++i) EXPECT_NEAR(counts[i], want[i], want[i] == 0 ? 0 : 0.01) << i;

  double first_is_4 = 0;
  for (int i = 0; i < 3000; ++i) {
    auto drawn = multinomial(weights[0], 3, false, &generator).to_vector<int64_t>();
    first_is_4 += drawn[0] == 4 ? 1.0 / 3000 : 0;
    std::sort(drawn.begin(), drawn.end());
    ASSERT_EQ(drawn, (std::vector<int64_t>{1, 2, 4}));
  }
  EXPECT_NEAR(first_is_4, 0.5, 0.04);
}

TEST(Multinomial, OfNoRows) {
  for (const bool replacement : {false, true}) {
    const Tensor places = multinomial(ones({0, 3}), 2, replacement);
    EXPECT_EQ(places.shape(), (Shape{0, 2}));
    EXPECT_EQ(places.dtype(), kInt64);
  }
}

TEST(Multinomial, SaysWhatIsWrong) {
  const auto says = [](const Tensor& weights, int64_t n, bool replacement) {
    return error_of([&] { multinomial(weights, n, replacement); });
  };
  EXPECT_EQ(says(ones({3}), 4, false),
            "multinomial: too few weights above 0: got 3, expected 4 or more");
  EXPECT_EQ(says(zeros({3}), 1, true),
            "multinomial: too few weights above 0: got 0, expected 1 or more");
  EXPECT_EQ(says(ones({3}) * -1, 1, true), "multinomial: a weight is not finite, or below 0");
  EXPECT_EQ(says(ones({2, 2, 2}), 1, true),
            "multinomial: wrong shape of weights: got [2, 2, 2], expected [C] or [N, C]");
  EXPECT_EQ(says(ones({3}), 0, true), "multinomial: wrong num_samples: got 0, expected 1 or more");
}

}  // namespace
}  // namespace wick::testing
