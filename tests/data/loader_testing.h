#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "wick/data/loader.h"
#include "wick/tests/data/data_testing.h"

namespace wick::data {

// Samples whose field 0 is a float "image" [2, 3, 2] of random values, and field 1 their index.
class RandomDataset : public Dataset {
 public:
  explicit RandomDataset(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(int64_t index, PhiloxStream random, std::span<void* const> out) const override {
    for (int i = 0; i < 12; ++i) static_cast<float*>(out[0])[i] = random.uniform();
    std::memcpy(out[1], &index, sizeof index);
  }

 private:
  int64_t size_;
  std::vector<Field> fields_ = {{{2, 3, 2}, kFloat32, MemoryFormat::kChannelsLast},
                                {{}, kInt64, MemoryFormat::kContiguous}};
};

// Throws at one sample.
class FaultyDataset final : public RandomDataset {
 public:
  FaultyDataset(int64_t size, int64_t fault) : RandomDataset(size), fault_(fault) {}
  void read(int64_t index, PhiloxStream random, std::span<void* const> out) const override {
    WICK_CHECK(index != fault_, "/data/", index, ".jpg: damaged JPEG");
    RandomDataset::read(index, random, out);
  }
  std::string name(int64_t index) const override { return index == 9 ? "nine" : ""; }

 private:
  int64_t fault_;
};

inline std::vector<int64_t> indices(const Batch& batch) {
  const auto* first = batch[1].data<int64_t>();
  return {first, first + batch.size()};
}

inline Bytes bytes(const Batch& batch) {
  Bytes all;
  for (const Tensor& field : batch.fields) {
    const auto* first = static_cast<const uint8_t*>(field.raw_data());
    all.insert(all.end(), first, first + field.numel() * size_of(field.dtype()));
  }
  return all;
}

inline DataLoader loader_of(int64_t samples, const DataLoaderOptions& options) {
  return {std::make_shared<RandomDataset>(samples), options};
}

// The bytes of the next `count` batches, ends of epochs included as empty ones.
inline std::vector<Bytes> take(DataLoader& loader, int count) {
  std::vector<Bytes> all;
  for (int i = 0; i < count; ++i) {
    const std::optional<Batch> batch = loader.next();
    all.push_back(batch ? bytes(*batch) : Bytes());
  }
  return all;
}

}  // namespace wick::data
