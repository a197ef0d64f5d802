#pragma once

#include <span>
#include <string>

#include "wick/core/base/check.h"
#include "wick/core/base/scoped_value.h"

namespace wick {

class Tensor;

/// An operation gave NaN, or an infinity where those are looked for: the text names the operation,
/// the module that it belongs to, and whether it was handed one.
class AnomalyError : public Error {
 public:
  using Error::Error;
};

/// What DetectAnomaly looks for.
struct AnomalyOptions {
  /// NaN is an error. Without it only errors of a backward tell more: the operation and the module
  /// that it belongs to.
  bool check_nan = true;
  /// Infinities made of finite inputs are errors too.
  bool infinities = false;
};

/// While it lives, the results of every operation on this thread, and the gradients that backward
/// computes, are looked at; the first with NaN is an AnomalyError, but for operations with NaN or
/// an infinity among their attributes (a fill). Both forward and backward should run under it.
/// Reads every tensor more than once, and waits for a GPU at every operation: for a search, not for
/// whole runs. An inner one replaces the outer one.
class DetectAnomaly {
 public:
  explicit DetectAnomaly(const AnomalyOptions& options = {});

  const AnomalyOptions& options() const { return options_; }  // those given

 private:
  AnomalyOptions options_;
  ScopedValue<const DetectAnomaly*> in_force_;
};

/// The same for all threads, until it is switched off again: a DetectAnomaly of a thread is heeded
/// before it. Off unless set. PyTorch's torch.autograd.set_detect_anomaly.
void set_detect_anomaly(bool on, const AnomalyOptions& options = {});

// For the engine and for modules.
namespace anomaly {

/// What is searched for on this thread; null if nothing is.
const AnomalyOptions* search();

/// Suspends the search: what an operation does within is looked at by its results alone.
class Pause {
 public:
  Pause();

 private:
  ScopedValue<bool> paused_;
};

/// Dotted path of the module whose forward runs on this thread, kept by modules during a search.
std::string& module_path();

/// Errors for what the op described by `op` made of `inputs`, of which bit i of `mutated` tells
/// that it was changed in place.
void check_results(const std::string& op, std::span<const Tensor> inputs, uint32_t mutated,
                   std::span<const Tensor> results);
/// The same for its backward; `path` is where it was recorded.
void check_gradients(const std::string& op, const std::string& path,
                     std::span<const Tensor> incoming, std::span<const Tensor> gradients);
/// Throws `error` of a backward again, with the operation and `path` in its text.
[[noreturn]] void rethrow(const Error& error, const std::string& op, const std::string& path);

}  // namespace anomaly

}  // namespace wick
