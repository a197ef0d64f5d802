#pragma once

#include <functional>
#include <string>
#include <vector>

#include "wick/core/tensor.h"
#include "wick/nn/module.h"

// Looks for habits that cost a training run time or accuracy for nothing, and measures here what
// they cost.
namespace wick::nn {

/// A habit that was found.
struct Lint {
  std::string rule;     // such as "bias-before-norm"
  std::string message;  // what was seen, and what to do about it
  double cost = 0;      // share of a step's time that it takes, measured (of waits: at most); 0
                        // where time is not what it costs, or where it cannot be switched off
};

/// Options of lint_training(), which throws unless `rounds` is 1 or more.
struct LintOptions {
  int rounds = 5;          // steps of each kind that a figure is the median of
  int64_t most_batch = 0;  // largest batch to try; 0: eight times the input's
};

/// Looks at `model` and at `step`, a whole training step on images or rows like `input` ([N, ...],
/// as the loader gives it, on the host), for any N. Rules:
///   bias-before-norm   a convolution or linear layer adds a bias that batch normalisation takes
///                      away again
///   no-norm            a convolution's result goes through an activation, but no normalisation, to
///                      the next layer
///   zeroed-gradients   the step fills gradients with zeros, where dropping them does the same
///   synchronization    the step makes the host wait for the device
///   pageable-copy      the input goes to a GPU from memory that is not pinned
///   unnormalized-input channels of the input (axis 1) are far from mean 0 and deviation 1
///   small-batch        steps on larger batches train noticeably more samples per second
///   debugging          a debugging build, a search for NaN or records of memory slow every step
/// Runs the step some fifty times: weights, statistics and random states change as they do in
/// training. What it switches off for a measurement is back afterwards, also where a step throws,
/// but records of memory, where they are on, begin anew.
std::vector<Lint> lint_training(Module& model, Device device, const Tensor& input,
                                const std::function<void(const Tensor& input)>& step,
                                const LintOptions& options = {});

}  // namespace wick::nn
