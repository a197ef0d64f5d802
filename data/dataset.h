#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "wick/core/base/philox.h"
#include "wick/core/tensor.h"

namespace wick::data {

/// One part of a sample, an image or a label, and how a batch of them is laid out.
struct Field {
  Shape shape;  // without the batch axis
  Dtype dtype = kFloat32;
  MemoryFormat format = MemoryFormat::kContiguous;
};

/// An empty list.
const std::vector<Field>& no_fields();

/// The samples that a loader asks a data set for at once, and where each of them belongs.
class BatchRead {
 public:
  /// Where one field of a batch is written: its first sample, and the bytes from one to the next.
  struct Column {
    char* first = nullptr;
    int64_t bytes = 0;
  };
  /// What the random streams of samples follow from. `first_place` is set where a sample can come
  /// twice in an epoch: then streams go by the place in the epoch and not by the sample.
  struct Randomness {
    uint64_t seed = 0;
    int64_t epoch = 0;
    std::optional<int64_t> first_place;
  };

  BatchRead(std::span<const int64_t> indices, std::vector<Column> columns,
            const Randomness& randomness, std::atomic<int64_t>& sample,
            const std::atomic<bool>& stop)
      : indices_(indices),
        columns_(std::move(columns)),
        randomness_(randomness),
        sample_(&sample),
        stop_(&stop) {}

  /// Samples asked for.
  int64_t size() const { return static_cast<int64_t>(indices_.size()); }
  size_t num_fields() const { return columns_.size(); }  // of a sample
  /// The i-th of them.
  int64_t index(int64_t i) const { return indices_[static_cast<size_t>(i)]; }
  /// Its own random stream in this epoch.
  PhiloxStream random(int64_t i) const;
  /// Where its field goes.
  void* place(size_t field, int64_t i) const {
    return columns_[field].first + i * columns_[field].bytes;
  }
  /// To be called before the i-th sample is read: errors and time-outs name it. False if
  /// the batch is not needed any more.
  bool begin(int64_t i) const {
    sample_->store(index(i), std::memory_order_relaxed);
    return !stop_->load(std::memory_order_relaxed);
  }

 private:
  std::span<const int64_t> indices_;
  std::vector<Column> columns_;
  Randomness randomness_;
  std::atomic<int64_t>* sample_;
  const std::atomic<bool>* stop_;
};

/// Samples stacked along a new first axis: one tensor per field of the data set.
struct Batch {
  std::vector<Tensor> fields;
  uint64_t seed = 0;  // that its epoch's order and random transforms follow from
  const Tensor& operator[](size_t field) const { return fields[field]; }
  /// Number of samples. Error without a field.
  int64_t size() const {
    WICK_CHECK(!fields.empty(), "batch: size: the batch has no fields: got 0, expected 1 or more");
    return fields[0].size(0);
  }
};

/// A sample on its own: a tensor per field.
using Sample = std::vector<Tensor>;

/// A numbered collection of samples: images, token sequences, rows of a table. Each has the same
/// number of fields. One whose samples have one shape, known beforehand, overrides fields() and
/// read(): its samples are written straight into batches. Another overrides get() alone: its
/// samples are tensors of their own, which the loader stacks, or hands to a `collate_fn`.
class Dataset {
 public:
  virtual ~Dataset() = default;
  /// Number of samples.
  virtual int64_t size() const = 0;
  /// Empty where only get() says what a sample is.
  virtual const std::vector<Field>& fields() const { return no_fields(); }
  /// Writes sample `index` (0 to size() - 1): field i to `out[i]`, which is the sample's place in a
  /// batch. What is random about it comes from `random`, the sample's own stream in this epoch.
  /// Several threads call this at once.
  virtual void read(int64_t index, PhiloxStream random, std::span<void* const> out) const;
  /// Writes all samples of `batch` as `read` writes each. To be overridden where it can be done
  /// with less work than one after the other.
  virtual void read_batch(const BatchRead& batch) const;
  /// Sample `index` as tensors of its own, on the CPU: a tensor per field, whose shapes may differ
  /// from sample to sample. Several threads call this at once.
  virtual Sample get(int64_t index, PhiloxStream random) const;
  /// What errors and time-outs call sample `index` beside its number: its file. May be empty.
  virtual std::string name(int64_t /*index*/) const { return {}; }
};

/// Samples that are rows of tensors on the CPU: field i of sample j is `tensors[i][j]`. Tensors
/// that are contiguous are not copied.
class TensorDataset final : public Dataset {
 public:
  explicit TensorDataset(std::vector<Tensor> tensors);
  int64_t size() const override { return size_; }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(int64_t index, PhiloxStream random, std::span<void* const> out) const override;
  void read_batch(const BatchRead& batch) const override;

 private:
  std::vector<Tensor> tensors_;
  std::vector<Field> fields_;
  std::vector<size_t> row_bytes_;
  int64_t size_ = 0;
};

/// Samples that a function makes, which several threads call at once: `get(index, random)` gives
/// the tensors of one sample, as Dataset::get.
class FunctionDataset final : public Dataset {
 public:
  using Get = std::function<Sample(int64_t index, PhiloxStream random)>;
  FunctionDataset(int64_t size, Get get);
  int64_t size() const override { return size_; }
  Sample get(int64_t index, PhiloxStream random) const override { return get_(index, random); }

 private:
  int64_t size_;
  Get get_;
};

}  // namespace wick::data
