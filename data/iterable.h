#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "wick/data/dataset.h"

namespace wick::data {

/// A walk through samples that have an order but no numbers.
class SampleIterator {
 public:
  virtual ~SampleIterator() = default;
  /// Writes the next sample: field i to `out[i]`. What is random about it comes from `random`.
  /// False at the end. An iterator that throws is at its end, unless the loader skips errors.
  virtual bool next(PhiloxStream random, std::span<void* const> out);
  /// The same for a data set without fields: the sample as tensors of its own, none at the end.
  virtual std::optional<Sample> get(PhiloxStream random);
};

/// Samples that can only be had one after the other: from a stream, an archive, a socket. They come
/// in one or more shards, each read by one thread at a time, all of them side by side. Batches take
/// turns among the shards and so do not depend on the number of workers.
class IterableDataset {
 public:
  virtual ~IterableDataset() = default;
  /// Empty where samples have no shape known beforehand, and come from SampleIterator::get.
  virtual const std::vector<Field>& fields() const { return no_fields(); }
  /// Parts that can be read side by side.
  virtual int num_shards() const { return 1; }
  /// A new walk through shard `shard` (0 to num_shards() - 1) in epoch `epoch`. The same samples
  /// for the same arguments, if runs are to be resumed exactly.
  virtual std::unique_ptr<SampleIterator> iterate(int shard, int64_t epoch) const = 0;
  /// How many samples each epoch has in all, where that is known.
  virtual std::optional<int64_t> size() const { return {}; }
  /// What errors and time-outs call a shard. May be empty.
  virtual std::string name(int /*shard*/) const { return {}; }
};

}  // namespace wick::data
