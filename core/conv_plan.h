#pragma once

#include <functional>
#include <string>

#include "wick/kernels/conv.h"

// By which algorithm each convolution runs. Without plans a fixed rule decides from the shapes.

namespace wick {

/// Whether a convolution seen for the first time is measured by every algorithm, and the fastest
/// one planned from then on. Off unless set. Two measured runs may differ in the last bits; runs
/// that load the same plans do not.
bool benchmark();
void set_benchmark(bool on);

/// Writes the plans made or loaded so far as text, a line each. Errors name the file.
void conv_plans_save(const std::string& path);
/// Adds the plans of a file that conv_plans_save wrote; a convolution among them is not measured
/// again. A plan that this device cannot follow is passed over. Error, and nothing is added, for
/// any other content.
void conv_plans_load(const std::string& path);
void conv_plans_clear();

/// Fixes `problem`'s algorithm on `device`, as tests of each algorithm do. Error unless it is one
/// that computes the problem.
void conv_plan_set(const Conv2dProblem& problem, Device device, ConvAlgorithm algorithm);

/// The algorithm for `problem`: planned, measured with `run` if benchmark() is on, or by the rule.
ConvAlgorithm conv_algorithm(const Conv2dProblem& problem, Device device,
                             const std::function<void(ConvAlgorithm)>& run);

}  // namespace wick
