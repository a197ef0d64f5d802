#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "wick/data/dataset.h"

namespace wick::data {

/// The work on samples cut in two: what loader threads still read, and what the device then does to
/// each batch.
struct DeviceWork {
  std::shared_ptr<const Dataset> dataset;
  /// Makes a batch of `dataset`, which is on the device, one of the whole data set. Random numbers
  /// follow from `batch.seed`, the epoch and the batch's number in it.
  std::function<Batch(Batch batch, int64_t epoch, int64_t number)> finish;
};

/// What a data set is beside Dataset if it can leave the end of its work to the device: images that
/// are cropped and normalised there, tokens that are masked there. `load_ahead` asks for it.
class DeviceWorkSource {
 public:
  virtual ~DeviceWorkSource() = default;
  /// Nothing if there is nothing to leave. `part`: which of the parts of each batch is loaded here
  /// (Batches::part), so that parts draw apart.
  virtual std::optional<DeviceWork> device_work(int64_t part) const = 0;
};

}  // namespace wick::data
