#include "wick/core/conv_plan.h"

#include <algorithm>
#include <string>
#include <vector>

#include "wick/core/base/check.h"
#include "wick/core/plans.h"
#include "wick/kernels/conv_key.h"

namespace wick {

namespace {

constexpr std::array<std::string_view, 3> kDirectionNames = {"forward", "backward_input",
                                                             "backward_weight"};

// A plan as the number of a candidate.
int number_of(const ConvPlan& plan) {
  return plan.engine == kAnyEngine ? static_cast<int>(plan.algorithm)
                                   : kConvAlgorithms + plan.engine;
}
ConvPlan plan_of(int number) {
  if (number < kConvAlgorithms) return static_cast<ConvAlgorithm>(number);
  return {ConvAlgorithm::kLibrary, number - kConvAlgorithms};
}

std::string name_of(ConvAlgorithm algorithm) {
  return std::string(kConvAlgorithmNames[static_cast<size_t>(algorithm)]);
}

// What computes a problem on a device, the algorithm that a fixed rule prefers first.
struct Candidates {
  ConvAlgorithm algorithms[kConvAlgorithms];
  int count = 0;
  std::vector<std::string> engines;

  Candidates(const Conv2dProblem& problem, Device device) {
    WICK_DISPATCH(device, conv2d_algorithms(problem, device, algorithms, &count));
    if (contain(ConvAlgorithm::kLibrary)) {
      WICK_DISPATCH(device, conv2d_engines(problem, device, &engines));
    }
  }

  bool contain(ConvAlgorithm algorithm) const {
    return std::find(algorithms, algorithms + count, algorithm) != algorithms + count;
  }

  std::string text_of(const ConvPlan& plan) const {
    std::string text = name_of(plan.algorithm);
    if (plan.engine != kAnyEngine) text += "/" + engines[static_cast<size_t>(plan.engine)];
    return text;
  }

  std::vector<Candidate> all() const {
    std::vector<Candidate> list;
    const auto add = [&](const ConvPlan& plan) {
      list.push_back({number_of(plan), text_of(plan)});
    };
    for (int i = 0; i < count; ++i) {
      if (algorithms[i] != ConvAlgorithm::kLibrary || engines.empty()) {
        add(algorithms[i]);
        continue;
      }
      for (size_t e = 0; e < engines.size(); ++e) add({algorithms[i], static_cast<int>(e)});
    }
    return list;
  }
};

ConvPlan plan_by_rule(const Conv2dProblem& problem, Device device) {
  ConvAlgorithm algorithms[kConvAlgorithms];
  int count = 0;
  WICK_DISPATCH(device, conv2d_algorithms(problem, device, algorithms, &count));
  return algorithms[0];
}

class PlannedConvolution final : public PlannedProblem {
 public:
  PlannedConvolution(const Conv2dProblem& problem, Device device,
                     const std::function<void(const ConvPlan&)>& run)
      : problem_(problem), device_(device), run_(run) {}

  Device device() const override { return device_; }
  Dtype dtype() const override { return problem_.dtype; }
  PlanKey key() const override { return plan_key(device_, problem_); }
  std::string words() const override {
    const Conv2dParams& p = problem_.params;
    return concat(kDirectionNames[static_cast<size_t>(problem_.direction)], " ",
                  to_string(problem_.dtype), " x=", in_words(problem_.x),
                  " weight=", in_words(problem_.weight), " y=", in_words(problem_.y),
                  " stride=", p.stride[0], "x", p.stride[1], " padding=", p.padding[0], "x",
                  p.padding[1], " dilation=", p.dilation[0], "x", p.dilation[1],
                  " groups=", p.groups);
  }
  std::vector<Candidate> candidates() const override { return Candidates(problem_, device_).all(); }
  void run(int candidate) const override { run_(plan_of(candidate)); }

 private:
  const Conv2dProblem& problem_;
  Device device_;
  const std::function<void(const ConvPlan&)>& run_;
};

}  // namespace

void conv_plan_set(const Conv2dProblem& problem, Device device, const ConvPlan& plan) {
  const Candidates candidates(problem, device);
  const std::function<void(const ConvPlan&)> none;
  const PlannedConvolution planned(problem, device, none);
  WICK_CHECK(candidates.contain(plan.algorithm) &&
                 plan.engine < static_cast<int>(candidates.engines.size()),
             "conv_plan_set: ", name_of(plan.algorithm), " cannot compute ", planned.words());
  plan_set(planned, candidates.text_of(plan));
}

ConvPlan conv_plan(const Conv2dProblem& problem, Device device,
                   const std::function<void(const ConvPlan&)>& run) {
  const int candidate = planned_candidate(PlannedConvolution(problem, device, run));
  return candidate == kAnyCandidate ? plan_by_rule(problem, device) : plan_of(candidate);
}

}  // namespace wick
