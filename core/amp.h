#pragma once

#include <optional>

#include "wick/core/base/device.h"
#include "wick/core/base/dtype.h"

// Automatic mixed precision, after Micikevicius et al.: Mixed precision training (ICLR 2018):
// weights stay float32, each op runs in the precision that suits it. `wick ops` lists which.

namespace wick::amp {

/// What autocast does with ops on one kind of device.
struct DeviceAutocast {
  bool enabled = false;
  Dtype dtype = kFloat16;  // the lower precision
  friend bool operator==(const DeviceAutocast&, const DeviceAutocast&) = default;
};

/// All that decides how autocast treats this thread's ops. To run something later as it would run
/// now, keep the state and let an Autocast restore it.
struct AutocastState {
  DeviceAutocast cpu{false, kBFloat16};
  DeviceAutocast cuda{false, kFloat16};
  bool cache_weights = true;
  friend bool operator==(const AutocastState&, const AutocastState&) = default;
};

AutocastState autocast_state();

/// While it lives, this thread's out-of-place ops on devices of `device`'s kind run in the
/// precision of their autocast class (`OpInfo::autocast`). Float32 and 16-bit inputs are cast as
/// needed, by recorded ops, so that gradients come back in the dtype of what was cast. Float64 and
/// other tensors are not cast. Backward runs in the dtypes that forward used, inside or outside a
/// guard. Guards nest; with `enabled` false it makes a region without autocast.
///
/// A float32 leaf that requires a gradient is cast to the lower precision once: the copy is kept
/// until the leaf changes, it is cast on another stream or the outermost guard of the thread ends,
/// unless `cache_weights` is false.
class Autocast {
 public:
  /// `dtype`: float16 or bfloat16, by default float16 for GPUs and bfloat16 for the CPU. Error for
  /// another dtype.
  explicit Autocast(Device device, std::optional<Dtype> dtype = {}, bool enabled = true,
                    bool cache_weights = true);
  /// Restores a state.
  explicit Autocast(const AutocastState& state);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  AutocastState before_;
  bool paused_before_;
};

}  // namespace wick::amp
