#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "wick/train/trial.h"

namespace wick::train {

/// How a loader was set up, and what it then gave.
struct LoaderTrial {
  int workers = 0, prefetch_factor = 2;
  bool pin_memory = false;
  double alone = 0, training = 0;  // samples per second, copies to the device included
  double seconds = 0;              // that the best measurement of training took
  double wait = 0;                 // share of the time of training
  double difference = 0;           // between rounds of training: relative
  int64_t resident_bytes = 0;      // of the process, after training
};

/// What find_loading found.
struct LoaderFinderResult {
  std::vector<LoaderTrial> trials;
  double in_memory = 0;  // samples per second of steps on data that is on the device already
  double noise = 0;      // by how much two measurements of the same thing differ
  LoaderTrial suggestion;
};

/// Options of find_loading.
struct LoaderFinderOptions {
  /// Numbers of workers to try. Empty: 0, then powers of two up to twice the cores, 2 at least.
  std::vector<int64_t> workers = {};
  /// Whether batches lie in pinned memory. Empty: both ways on a GPU, false on the CPU.
  std::vector<bool> pin_memory = {};
  std::vector<int> prefetch_factors = {2, 4};
  double seconds = 0.5;                // of each measurement
  std::optional<int64_t> epochs = {};  // in place of seconds: whole epochs
  /// What an interrupted search found, and its number of measurements. They are not repeated.
  LoaderFinderResult done = {};
  int64_t measured = 0;
  /// Called after each measurement, with what is found so far and the number of measurements.
  /// Null: not called.
  std::function<void(const LoaderFinderResult& found, int64_t measured)> on_measurement = {};
};

/// Measures loading alone and under training, by workers, prefetching and pinning, each twice. The
/// suggestion is the first trial, hence the one that needs least, that trains as fast as the
/// fastest but for noise. All that training changes is restored. Error for options out of range.
LoaderFinderResult find_loading(Trial& trial, const LoaderFinderOptions& options = {});

}  // namespace wick::train
