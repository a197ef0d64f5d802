#pragma once

// Autocast as the door and backward see it.

#include <span>
#include <vector>

#include "wick/core/apply.h"
#include "wick/core/base/scoped_value.h"

namespace wick {

/// "lower", "float32", ...: as `wick ops` shows a class.
std::string_view to_string(Autocast policy);

namespace amp {

/// Suspends autocast on this thread until it ends or an Autocast begins: inside of ops, which are
/// of one precision, and in backward.
class Pause {
 public:
  Pause();

 private:
  ScopedValue<bool> paused_;
};

/// Whether autocast is on for `device` on this thread, and not suspended.
bool is_on(Device device);

/// Drops this thread's copies of weights: work that is captured must make its own, and what is
/// replayed changes weights unseen.
void forget_casts();

/// Whether `x` is what autocast takes for a weight: a float32 leaf that requires a gradient and is
/// no view.
bool is_weight(const Tensor& x);

/// The inputs of an op in the precision that autocast wants, in `storage` if that is another than
/// they have. Error for a banned op.
std::span<const Tensor> cast_inputs(const OpInfo& info, std::span<const Tensor> inputs,
                                    std::vector<Tensor>& storage);

}  // namespace amp
}  // namespace wick
