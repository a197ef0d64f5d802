#include "wick/data/dataset.h"

#include <cstring>

#include "wick/data/detail/streams.h"
#include "wick/data/iterable.h"

namespace wick::data {

PhiloxStream BatchRead::random(int64_t i) const {
  const auto& place = randomness_.first_place;
  const uint64_t number = place ? kStreamsOfPlaces + static_cast<uint64_t>(*place + i)
                                : static_cast<uint64_t>(index(i));
  return data_stream(randomness_.seed, randomness_.epoch, number);
}

void Dataset::read_batch(const BatchRead& batch) const {
  std::vector<void*> places(batch.num_fields());
  for (int64_t i = 0; i < batch.size() && batch.begin(i); ++i) {
    for (size_t f = 0; f < places.size(); ++f) places[f] = batch.place(f, i);
    read(batch.index(i), batch.random(i), places);
  }
}

const std::vector<Field>& no_fields() {
  static const std::vector<Field> none;
  return none;
}

void Dataset::read(int64_t, PhiloxStream, std::span<void* const>) const {
  detail::fail("data set: has fields and no read, expected both overridden, or get alone");
}

Sample Dataset::get(int64_t index, PhiloxStream random) const {
  WICK_CHECK(!fields().empty(),
             "data set: got no fields and no get, expected fields and read overridden, or get");
  Sample sample;
  std::vector<void*> places;
  for (const Field& field : fields()) {
    Shape one = field.shape;
    one.insert(0, 1);
    sample.push_back(empty(one, field.dtype, kCpu, field.format).select(0, 0));
    places.push_back(sample.back().raw_data());
  }
  read(index, random, places);
  return sample;
}

bool SampleIterator::next(PhiloxStream, std::span<void* const>) {
  detail::fail("sample iterator: its data set has fields, expected it to override next");
}

std::optional<Sample> SampleIterator::get(PhiloxStream) {
  detail::fail("sample iterator: its data set has no fields, expected it to override get");
}

TensorDataset::TensorDataset(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {
  WICK_CHECK(!tensors_.empty(), "tensor dataset: got no tensors, expected one or more");
  for (Tensor& tensor : tensors_) {
    WICK_CHECK(tensor.device().is_cpu(), "tensor dataset: wrong device: got ",
               to_string(tensor.device()), ", expected cpu");
    WICK_CHECK(tensor.rank() > 0,
               "tensor dataset: got a tensor of rank 0, expected samples along "
               "the first axis");
    WICK_CHECK(tensor.size(0) == tensors_[0].size(0), "tensor dataset: lengths differ: got ",
               tensor.size(0), " rows in one tensor and ", tensors_[0].size(0),
               " in the first, expected as many in each");
    tensor = tensor.detach().contiguous();
    Shape shape = tensor.shape();
    shape.erase(0);
    fields_.push_back({shape, tensor.dtype(), MemoryFormat::kContiguous});
    row_bytes_.push_back(static_cast<size_t>(shape.numel() * size_of(tensor.dtype())));
  }
  size_ = tensors_[0].size(0);
}

void TensorDataset::read(int64_t index, PhiloxStream, std::span<void* const> out) const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const auto* rows = static_cast<const char*>(tensors_[i].raw_data());
    std::memcpy(out[i], rows + static_cast<size_t>(index) * row_bytes_[i], row_bytes_[i]);
  }
}

void TensorDataset::read_batch(const BatchRead& batch) const {
  for (size_t f = 0; f < tensors_.size(); ++f) {
    const auto* rows = static_cast<const char*>(tensors_[f].raw_data());
    const size_t bytes = row_bytes_[f];
    for (int64_t i = 0; i < batch.size() && batch.begin(i); ++i) {
      const char* row = rows + static_cast<size_t>(batch.index(i)) * bytes;
      if (bytes == sizeof(int64_t)) {
        std::memcpy(batch.place(f, i), row, sizeof(int64_t));
      } else {
        std::memcpy(batch.place(f, i), row, bytes);
      }
    }
  }
}

FunctionDataset::FunctionDataset(int64_t size, Get get) : size_(size), get_(std::move(get)) {
  WICK_CHECK(size >= 0, "function dataset: wrong size: got ", size, ", expected 0 or more");
  WICK_CHECK(get_, "function dataset: got no function, expected one that gives samples");
}

}  // namespace wick::data
