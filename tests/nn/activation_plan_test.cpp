// Plans of what to make again in backward, within a budget.
#include "wick/nn/activation_plan.h"

#include <gtest/gtest.h>

#include <random>

#include "wick/core/core.h"
#include "wick/nn/nn.h"
#include "wick/tests/harness/expect_error.h"

namespace {

using namespace wick;
using nn::ActivationPlan;
using nn::ActivationProfile;
using nn::ActivationUnit;

// The least seconds from unit i on with `bytes` kept before it; infinity if nothing fits.
double least_seconds(const ActivationProfile& profile, size_t i, int64_t bytes, int64_t budget) {
  const auto& units = profile.units;
  constexpr double kNever = std::numeric_limits<double>::infinity();
  if (i == units.size()) return bytes + profile.working <= budget ? 0 : kNever;
  const ActivationUnit& unit = units[i];
  const int64_t here = bytes + unit.between;
  double best = kNever;
  if (here + unit.kept + unit.working <= budget) {
    best = least_seconds(profile, i + 1, here + unit.kept, budget);
  }
  int64_t recomputed = 0, working = 0;
  double seconds = 0;
  for (size_t j = i; j < units.size(); ++j) {
    if (j > i && (units[j].parent != unit.parent || units[j].between != 0)) break;
    recomputed += units[j].recomputed;
    working = std::max(working, units[j].working);
    seconds += units[j].seconds;
    if (here + recomputed + working > budget) continue;
    best = std::min(best, seconds + least_seconds(profile, j + 1, here + units[j].output, budget));
  }
  return best;
}

ActivationProfile random_profile(std::mt19937& random, nn::Sequential* parents) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  ActivationProfile profile;
  const int64_t units = 1 + below(7);
  for (int64_t i = 0; i < units; ++i) {
    ActivationUnit unit;
    unit.parent = &parents[i < 3 ? 0 : 1];
    unit.child = i < 3 ? i : i - 3;
    unit.between = below(3) == 0 ? below(20) : 0;
    unit.output = 1 + below(20);
    unit.kept = unit.output + below(100);
    unit.recomputed = unit.kept + below(10);
    unit.working = below(30);
    unit.seconds = static_cast<double>(1 + below(50));
    profile.units.push_back(unit);
  }
  profile.working = below(40);
  return profile;
}

TEST(ActivationPlan, IsTheBestThereIs) {
  std::mt19937 random(3);
  nn::Sequential parents[2];
  for (int trial = 0; trial < 300; ++trial) {
    const ActivationProfile profile = random_profile(random, parents);
    const int64_t budget = 20 + static_cast<int64_t>(random() % 500);
    const double least = least_seconds(profile, 0, 0, budget);
    const std::optional<ActivationPlan> plan = plan_activations(profile, budget);
    ASSERT_EQ(plan.has_value(), std::isfinite(least)) << trial;
    if (!plan) continue;
    EXPECT_EQ(plan->seconds, least) << trial;
    EXPECT_LE(plan->peak, budget) << trial;
    double seconds = 0;
    for (const auto& part : plan->ranges) {
      for (const ActivationUnit& unit : profile.units) {
        const bool in = unit.parent == part.parent && unit.child >= part.range.first &&
                        unit.child < part.range.last;
        if (in) seconds += unit.seconds;
      }
    }
    EXPECT_EQ(plan->seconds, seconds) << trial;
  }
}

TEST(ActivationPlan, KnowsTheSmallestBudget) {
  std::mt19937 random(4);
  nn::Sequential parents[2];
  for (int trial = 0; trial < 50; ++trial) {
    const ActivationProfile profile = random_profile(random, parents);
    const int64_t smallest = smallest_activation_budget(profile);
    EXPECT_TRUE(std::isfinite(least_seconds(profile, 0, 0, smallest))) << trial;
    EXPECT_FALSE(std::isfinite(least_seconds(profile, 0, 0, smallest - 1))) << trial;
  }
}

class ActivationFitOn : public ::testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    if (!GetParam().is_cpu() && !cuda_is_available()) GTEST_SKIP() << why_no_cuda();
    manual_seed(3);
    for (int i = 0; i < kBlocks; ++i) {  // of different sizes, so that most budgets can be met
      const int64_t hidden = 96 + 32 * (i * 5 % kBlocks);
      net_.push_back(nn::Sequential(nn::Linear(32, hidden), nn::GELU(), nn::BatchNorm1d(hidden),
                                    nn::Dropout(0.1), nn::Linear(hidden, 32)));
    }
    net_.to(GetParam());
    // A real GPU's matrix products work in some MiB, beside which activations must be large.
    const bool real = GetParam().is_cuda() && !device_properties(GetParam()).simulated;
    x_ = randn({real ? 4096 : 64, 32}).to(GetParam());
  }
  std::function<void()> step() {
    return [this] { net_(x_).pow(2).sum().backward(); };
  }
  nn::ActivationFit fit(int64_t budget) {
    return nn::fit_activations(net_, GetParam(), budget, step());
  }
  std::vector<std::vector<float>> gradients() {
    manual_seed(9);
    net_.zero_grad();
    step()();
    std::vector<std::vector<float>> all;
    for (const Tensor& parameter : net_.parameters()) {
      all.push_back(parameter.grad().to_vector<float>());
    }
    net_.zero_grad();
    return all;
  }

  static constexpr int kBlocks = 12;
  nn::Sequential net_;
  Tensor x_;
};

TEST_P(ActivationFitOn, LandsWithinTenPercentOfItsBudget) {
  const auto expected = gradients();
  const std::vector<float> mean = net_.named_buffers()[0].second.to_vector<float>();
  const uint64_t draws = default_generator(GetParam()).get_state().offset;
  const nn::ActivationFit plain = fit(int64_t{1} << 40);
  EXPECT_EQ(plain.recomputed, 0);
  EXPECT_EQ(plain.units, kBlocks);
  for (const double share : {0.8, 0.6, 0.45}) {
    const auto budget = static_cast<int64_t>(share * static_cast<double>(plain.peak));
    const nn::ActivationFit found = fit(budget);
    EXPECT_LE(found.peak, budget) << share;
    EXPECT_GE(static_cast<double>(found.peak), 0.9 * static_cast<double>(budget)) << share;
    EXPECT_GT(found.recomputed, 0) << share;
    EXPECT_EQ(net_.named_buffers()[0].second.to_vector<float>(), mean);
    EXPECT_EQ(default_generator(GetParam()).get_state().offset, draws);
    EXPECT_FALSE(net_.parameters()[0].grad().defined());
    EXPECT_EQ(gradients(), expected) << share;
    for (const auto& [name, buffer] : net_.named_buffers()) buffer.zero_();
    net_.named_buffers()[0].second.copy_(tensor(mean));
  }
}

TEST_P(ActivationFitOn, NamesTheSmallestBudget) {
  const std::string error = wick::testing::error_of([&] { fit(1000); });
  EXPECT_NE(error.find("the budget is too small for this model and batch: got 1000 B, expected"),
            std::string::npos)
      << error;
  EXPECT_TRUE(net_.checkpointed().empty());
}

using Range = std::pair<int64_t, int64_t>;
std::vector<Range> checkpointed_of(const nn::Sequential& layers) {
  std::vector<Range> all;
  for (const nn::ChildRange& range : layers.checkpointed()) {
    all.emplace_back(range.first, range.last);
  }
  return all;
}

TEST_P(ActivationFitOn, ProfilesWithoutCheckpointsAndPutsThemBack) {
  net_.set_checkpointed({{1, 3}, {4, 5}});
  const std::vector<Range> own = checkpointed_of(net_);
  const nn::ActivationProfile profile = nn::profile_activations(net_, GetParam(), step());
  EXPECT_EQ(profile.units.size(), size_t{kBlocks});
  EXPECT_EQ(checkpointed_of(net_), own);
  EXPECT_GT(fit(int64_t{1} << 40).plain_peak, 0);
  EXPECT_TRUE(net_.checkpointed().empty()) << "the plan stays";
}

TEST_P(ActivationFitOn, MeasuresThePlainStepWithoutCheckpoints) {
  const int64_t plain = fit(int64_t{1} << 40).plain_peak;
  nn::checkpoint_every_child(net_);
  EXPECT_EQ(fit(int64_t{1} << 40).plain_peak, plain);
}

TEST_P(ActivationFitOn, PutsCheckpointsBackWhereTheBudgetIsTooSmall) {
  net_.set_checkpointed({{1, 3}});
  EXPECT_THROW(fit(1000), Error);
  EXPECT_EQ(checkpointed_of(net_), std::vector<Range>({{1, 3}}));
}

TEST_P(ActivationFitOn, PutsCheckpointsBackWhereAStepFails) {
  const int64_t budget = fit(int64_t{1} << 40).plain_peak / 2;
  int64_t steps = 0;
  for (bool failed = true; failed; ++steps) {
    net_.set_checkpointed({{1, 3}, {4, 5}});
    const std::vector<Range> own = checkpointed_of(net_);
    failed = false;
    int64_t left = steps;
    try {
      nn::fit_activations(net_, GetParam(), budget, [&] {
        if (left-- == 0) wick::detail::fail("no more steps");
        step()();
      });
    } catch (const Error& error) {
      failed = true;
      ASSERT_NE(std::string(error.what()).find("no more steps"), std::string::npos);
      EXPECT_EQ(checkpointed_of(net_), own) << "after " << steps << " steps";
    }
  }
  EXPECT_GT(steps, 5);
  EXPECT_NE(checkpointed_of(net_), std::vector<Range>({{1, 3}, {4, 5}})) << "the plan stays";
}

INSTANTIATE_TEST_SUITE_P(Devices, ActivationFitOn, ::testing::Values(kCpu, cuda_device(0)),
                         [](const auto& device) { return device.param.is_cpu() ? "cpu" : "cuda"; });

TEST(ActivationFit, RefusesModelsItCannotPlan) {
  nn::Mlp mlp(4, {4}, 2);
  EXPECT_NE(wick::testing::error_of([&] {
              nn::checkpoint_every_child(mlp);
            }).find("nothing to make again in backward"),
            std::string::npos);
  nn::Sequential twice(nn::Linear(4, 4));
  const Tensor x = randn({2, 4});
  const std::string error = wick::testing::error_of([&] {
    nn::fit_activations(twice, kCpu, 1 << 20, [&] { twice(twice(x)).sum().backward(); });
  });
  EXPECT_NE(error.find("is called twice in one step"), std::string::npos) << error;
}

TEST(ActivationFit, RefusesStepsThatDiffer) {
  nn::ModuleList<nn::Sequential> both;
  for (int i = 0; i < 2; ++i) both.push_back(nn::Sequential(nn::Linear(4, 4)));
  const Tensor x = randn({2, 4});
  int steps = 0;
  const std::string error = wick::testing::error_of([&] {
    nn::profile_activations(both, kCpu, [&] {
      const Tensor y = both[0](x);
      (++steps == 2 ? both[1](y) : y).sum().backward();
    });
  });
  EXPECT_EQ(error,
            "checkpoint: trial steps differ: the first calls 2 children of Sequentials, the second "
            "1, expected the same");
}

}  // namespace
