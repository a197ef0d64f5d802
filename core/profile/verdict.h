#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "wick/core/profile/event.h"

namespace wick::profile {

/// What a step's time may go to.
enum class Bound : uint8_t {
  kCompute,        // arithmetic of long operations
  kMemory,         // their reading and writing
  kLaunches,       // calling operations: more than the operations do
  kData,           // waiting for batches
  kCommunication,  // waiting for other ranks
  kOutside,        // the program's own code, between operations
};
inline constexpr size_t kBounds = 6;

/// "compute", "launches"
const char* to_string(Bound bound);

/// What the hardware does at best.
struct Ceilings {
  double flops_per_second = 100e9;
  double bytes_per_second = 10e9;
};

/// What a large product and a large sum in float32 reach on `device` now. Takes some milliseconds.
Ceilings measure_ceilings(Device device);

/// Where a step's time goes.
struct Verdict {
  /// The time of one Bound.
  struct Part {
    double seconds = 0;     // of all steps
    std::string_view most;  // name of the events that took most of it
  };

  int64_t steps = 0;
  double seconds = 0;  // of all steps
  std::array<Part, kBounds> parts;
  int64_t operations = 0;        // of all steps
  int64_t synchronizations = 0;  // waits of the host for a GPU
  std::string_view synchronizes_most;

  /// What takes most.
  Bound bound() const;
  /// 0 to 1.
  double share(Bound bound) const;
  /// In words: what bounds the step, by how much, what else takes time, and what helps.
  std::string text() const;
};

/// Judges the steps of a recording, or all of it if it has none, by the thread that took them.
/// Error for a recording without events.
///
/// An operation of the CPU shorter than 10 us, and the host's part of any of a GPU, counts as a
/// call. Of longer ones those are arithmetic whose FLOPs take longer at `ceilings` than their bytes
/// do. Where the times of a GPU's kernels are known they are the step's first, and the host has
/// what is left. Else the GPU is taken to work while the host waits for it.
Verdict judge(const Recording& recording, const Ceilings& ceilings = {});

}  // namespace wick::profile
