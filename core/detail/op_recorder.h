#pragma once

#include <span>

#include "wick/core/apply.h"

namespace wick {

class AccumulateGrad;

/// Who is told of each op that passes the door on this thread, other than those that ops run within
/// their forward. For the library's own use.
class OpRecorder {
 public:
  /// An op is about to run.
  virtual void begin(const OpType& type, std::span<const Tensor> inputs) = 0;
  /// It ran, and did not throw. `kept`: what it kept for backward; null unless it was recorded for
  /// that.
  virtual void record(const OpType& type, const void* op, std::span<const Tensor> inputs,
                      std::span<const Tensor> outputs, const KeptForBackward* kept) = 0;
  /// The host is about to read the elements of `x`: `what` is the function that does.
  virtual void host_read(const char* what, const Tensor& x) = 0;
  /// The host is about to read the gradient of a leaf (undefined if only its `accumulator` is
  /// known), or to replace it. `gradient`: what it is.
  virtual void gradient_use(const AccumulateGrad& accumulator, const Tensor& leaf,
                            const Tensor& gradient, bool is_replaced) = 0;
  /// The host is about to set whether `x` requires a gradient.
  virtual void requires_grad_use(const Tensor& x) = 0;
  /// Whether the recorder keeps the memory of `x` too.
  virtual bool holds(const Tensor& x) const = 0;

 protected:
  ~OpRecorder() = default;
};

/// This thread's recorder; null if there is none, and within an op's forward.
OpRecorder*& op_recorder();
/// The same, within an op's forward too.
OpRecorder*& thread_recorder();
/// Whether this thread runs an op of a graph, which may come from a file: what functions check of
/// elements before they apply an op, the op checks itself then.
bool& replays_op();

}  // namespace wick
