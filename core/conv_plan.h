#pragma once

#include <functional>
#include <string>

#include "wick/kernels/conv.h"

// By which algorithm each convolution runs, and by which engine of a GPU vendor's library. Without
// plans a fixed rule decides from the shapes, and the library by its own heuristics.

namespace wick {

/// Whether a convolution seen for the first time is measured by every algorithm, on a GPU by every
/// engine that the library's heuristics propose, and the fastest one planned from then on. What
/// fails is passed over. Off unless set. Two measured runs may differ in the last bits; runs that
/// load the same plans do not.
bool benchmark();
void set_benchmark(bool on);

/// Writes the plans made or loaded so far as text, a line each. Errors name the file.
void conv_plans_save(const std::string& path);
/// Adds the plans of a file that conv_plans_save wrote; a convolution among them is not measured
/// again. A plan that this device cannot follow is passed over. Error, and nothing is added, for
/// any other content.
void conv_plans_load(const std::string& path);
void conv_plans_clear();

/// Fixes how `device` computes `problem`, as tests of each algorithm do. Error unless the plan is
/// one that computes it.
void conv_plan_set(const Conv2dProblem& problem, Device device, const ConvPlan& plan);

/// The plan for `problem`: known, measured with `run` if benchmark() is on, or by the rule.
ConvPlan conv_plan(const Conv2dProblem& problem, Device device,
                   const std::function<void(const ConvPlan&)>& run);

}  // namespace wick
