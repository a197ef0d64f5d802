#pragma once

#include <array>
#include <functional>
#include <string_view>

#include "wick/kernels/conv.h"

// By which algorithm each convolution runs: see wick/core/plans.h.

namespace wick {

/// By ConvAlgorithm. In files of plans an engine of the library's is library/ENGINE.
inline constexpr std::array<std::string_view, kConvAlgorithms> kConvAlgorithmNames = {
    "direct", "winograd", "im2col", "library", "amx"};

/// Fixes how `device` computes `problem`, as tests of each algorithm do. Error unless the plan is
/// one that computes it.
void conv_plan_set(const Conv2dProblem& problem, Device device, const ConvPlan& plan);

/// The plan for `problem`: known, measured with `run` if benchmark() is on, or by the rule.
ConvPlan conv_plan(const Conv2dProblem& problem, Device device,
                   const std::function<void(const ConvPlan&)>& run);

}  // namespace wick
