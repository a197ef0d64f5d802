#include "wick/data/detail/loader_reader.h"

#include <chrono>
#include <new>

#include "wick/core/ops/join.h"
#include "wick/core/stream.h"
#include "wick/data/detail/streams.h"

namespace wick::data::loading {

namespace {

// `what` with the name that the data set gives it, or alone where it gives none or throws: this is
// for errors, which go before those of their description.
template <class Name>
std::string with_name(std::string what, const Name& name) {
  std::string found;
  try {
    found = name();
  } catch (...) {
    return what;
  }
  return found.empty() ? what : concat(what, " (", found, ")");
}

Tensor new_tensor(const Shape& shape, Dtype dtype, MemoryFormat format, bool pinned) {
  if (!pinned) return empty(shape, dtype, kCpu, format);
  const Strides strides = format == MemoryFormat::kChannelsLast ? channels_last_strides(shape)
                                                                : contiguous_strides(shape);
  auto storage = Storage::pinned(static_cast<size_t>(shape.numel() * size_of(dtype)));
  return Tensor(make_ref<TensorImpl>(std::move(storage), 0, shape, strides, dtype));
}

std::shared_ptr<const Batches> batches_of(int64_t n, const DataLoaderOptions& options) {
  if (options.batch_sampler) return options.batch_sampler;
  std::shared_ptr<const Sampler> sampler = options.sampler;
  if (!sampler && options.shuffle) sampler = std::make_shared<RandomSampler>(n);
  if (!sampler) sampler = std::make_shared<SequentialSampler>(n);
  return std::make_shared<BatchSampler>(std::move(sampler), options.batch_size.value_or(1),
                                        options.drop_last);
}

}  // namespace

std::exception_ptr current_error_at(const std::string& place) {
  try {
    throw;
  } catch (const OutOfMemory& error) {
    return std::make_exception_ptr(
        OutOfMemory(place + error.what(), error.requested_bytes(), error.figures()));
  } catch (const DeviceError& error) {
    return std::make_exception_ptr(DeviceError(place + error.what()));
  } catch (const std::exception& error) {
    return std::make_exception_ptr(Error(place + error.what()));
  } catch (...) {
    return std::current_exception();
  }
}

Reader::Reader(const std::vector<Field>& fields, const DataLoaderOptions& options)
    : fields_(fields),
      options_(options),
      seed_(options.seed.value_or(0)),
      pinned_(options.pin_memory && cuda_is_available()) {
  for (const Field& field : fields_) bytes_.push_back(field.shape.numel() * size_of(field.dtype));
}

Result Reader::read(int64_t epoch, int64_t task, Status& status) {
  const auto start = std::chrono::steady_clock::now();
  Result result;
  status.sample = -1;
  try {
    make(epoch, task, status, result);
  } catch (...) {
    const int64_t sample = status.sample;
    result.batch = {};
    result.error = current_error_at(
        concat("data loader: ", status.who, "batch ", shards() > 0 ? task / shards() : task,
               " of epoch ", epoch, sample < 0 && shards() == 0 ? "" : ", ",
               sample < 0 && shards() == 0 ? "" : describe(task, sample), ": "));
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

Batch Reader::new_batch(int64_t count) const {
  Batch batch;
  for (const Field& field : fields_) {
    Shape shape = field.shape;
    shape.insert(0, count);
    Tensor tensor = new_tensor(shape, field.dtype, field.format, pinned_);
    batch.fields.push_back(options_.batch_size ? tensor : tensor.select(0, 0));
  }
  return batch;
}

std::vector<BatchRead::Column> Reader::columns(const Batch& batch) const {
  std::vector<BatchRead::Column> columns;
  for (size_t i = 0; i < batch.fields.size(); ++i) {
    columns.push_back({static_cast<char*>(batch.fields[i].raw_data()), bytes_[i]});
  }
  return columns;
}

void Reader::keep(int64_t count, int64_t all, Result& result) {
  result.missing = count == 0;
  if (count == 0) result.batch = {};
  if (count == all) return;
  for (Tensor& field : result.batch.fields) field = field.narrow(0, 0, count);
}

Batch Reader::stacked(std::vector<Sample>& samples) const {
  if (!options_.batch_size) return {std::move(samples[0])};
  Batch batch;
  for (size_t f = 0; f < samples[0].size(); ++f) {
    std::vector<Tensor> column;
    for (const Sample& sample : samples) {
      WICK_CHECK(sample.size() == samples[0].size(), "samples have unlike numbers of fields: got ",
                 samples[0].size(), " and ", sample.size(), ", expected equal ones");
      WICK_CHECK(
          sample[f].shape() == samples[0][f].shape() && sample[f].dtype() == samples[0][f].dtype(),
          "samples differ in field ", f, ": got ", samples[0][f].dtype(), " ",
          samples[0][f].shape(), " and ", sample[f].dtype(), " ", sample[f].shape(),
          ", expected one shape and dtype, or a collate_fn that makes batches of them");
      column.push_back(sample[f]);
    }
    batch.fields.push_back(stack(column));
  }
  return batch;
}

void Reader::collate(std::vector<Sample> samples, Result& result) const {
  result.missing = samples.empty();
  if (samples.empty()) return;
  result.batch = collates() ? options_.collate_fn(std::move(samples)) : stacked(samples);
  WICK_CHECK(!result.batch.fields.empty(), collates() ? "collate_fn: the batch" : "the sample",
             " has no fields: got 0, expected 1 or more");
  if (!pinned_) return;
  for (Tensor& field : result.batch.fields) field = field.pin_memory();
}

bool Reader::skips(const std::exception& error) const {
  return options_.on_error == OnError::kSkip &&
         dynamic_cast<const std::bad_alloc*>(&error) == nullptr &&
         dynamic_cast<const OutOfMemory*>(&error) == nullptr &&
         dynamic_cast<const DeviceError*>(&error) == nullptr;
}

// --- Samples with numbers -----------------------------------------------------------------------

MapReader::MapReader(std::shared_ptr<const Dataset> dataset, const DataLoaderOptions& options)
    : Reader(dataset->fields(), options),
      dataset_(std::move(dataset)),
      batches_(batches_of(dataset_->size(), options)) {
  const int64_t count = batches_->size();
  WICK_CHECK(count >= 0, "batch sampler: wrong number of batches: got ", count,
             ", expected 0 or more");
}

std::string MapReader::describe(int64_t, int64_t sample) const {
  return with_name(concat("sample ", sample), [&]() -> std::string {
    const bool known = sample >= 0 && sample < dataset_->size();
    return known ? dataset_->name(sample) : "";
  });
}

std::shared_ptr<const BatchOrder> MapReader::order_of(int64_t epoch) {
  const std::lock_guard lock(mutex_);
  Kept& kept = kept_[epoch & 1];
  if (kept.epoch != epoch) {
    std::shared_ptr<const BatchOrder> order = batches_->order(randomness(epoch).seed, epoch);
    WICK_CHECK(order != nullptr,
               "batch sampler: the order of an epoch is null: got none for epoch ", epoch,
               ", expected one");
    kept = {epoch, std::move(order)};
  }
  return kept.order;
}

void MapReader::make(int64_t epoch, int64_t task, Status& status, Result& result) {
  const std::shared_ptr<const BatchOrder> order = order_of(epoch);
  const std::vector<int64_t> samples = order->batch(task);
  for (const int64_t sample : samples) {
    WICK_CHECK(sample >= 0 && sample < dataset_->size(), "sampler: no such sample: got ", sample,
               ", expected 0 to ", dataset_->size() - 1);
  }
  BatchRead::Randomness from = randomness(epoch);
  if (batches_->repeats()) from.first_place = order->first_place(task);
  if (collates() || dataset_->fields().empty()) return gather(samples, from, status, result);
  stack(samples, from, status, result);
}

void MapReader::stack(const std::vector<int64_t>& samples, const BatchRead::Randomness& randomness,
                      Status& status, Result& result) const {
  result.batch = new_batch(static_cast<int64_t>(samples.size()));
  try {
    dataset_->read_batch(
        BatchRead(samples, columns(result.batch), randomness, status.sample, status.stop));
  } catch (const std::exception& error) {
    if (!skips(error)) throw;
    stack_readable(samples, randomness, status, result);
  }
}

void MapReader::stack_readable(const std::vector<int64_t>& samples,
                               const BatchRead::Randomness& randomness, Status& status,
                               Result& result) const {
  int64_t kept = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    std::vector<BatchRead::Column> places = columns(result.batch);
    for (BatchRead::Column& place : places) place.first += kept * place.bytes;
    BatchRead::Randomness own = randomness;
    if (own.first_place) *own.first_place += static_cast<int64_t>(i);
    try {
      dataset_->read_batch(
          BatchRead({&samples[i], 1}, std::move(places), own, status.sample, status.stop));
      ++kept;
    } catch (const std::exception& error) {
      if (!skips(error)) throw;
      ++result.skipped;
      result.last_skipped = concat(describe(0, samples[i]), ": ", error.what());
    }
  }
  keep(kept, static_cast<int64_t>(samples.size()), result);
}

void MapReader::gather(const std::vector<int64_t>& samples, const BatchRead::Randomness& randomness,
                       Status& status, Result& result) const {
  const BatchRead read(samples, {}, randomness, status.sample, status.stop);
  std::vector<Sample> all;
  for (int64_t i = 0; i < read.size() && read.begin(i); ++i) {
    try {
      all.push_back(dataset_->get(read.index(i), read.random(i)));
    } catch (const std::exception& error) {
      if (!skips(error)) throw;
      ++result.skipped;
      result.last_skipped = concat(describe(0, read.index(i)), ": ", error.what());
    }
  }
  status.sample = -1;
  collate(std::move(all), result);
}

// --- Samples one after the other ----------------------------------------------------------------

IterableReader::IterableReader(std::shared_ptr<const IterableDataset> dataset,
                               const DataLoaderOptions& options)
    : Reader(dataset->fields(), options), dataset_(std::move(dataset)) {
  constexpr int kMostShards = 1 << 20;
  const int count = dataset_->num_shards();
  WICK_CHECK(count > 0 && count <= kMostShards, "data loader: wrong num_shards: got ", count,
             ", expected 1 to ", kMostShards);
  for (int i = 0; i < count; ++i) shards_.push_back(std::make_unique<Shard>());
}

int64_t IterableReader::size() const {
  const std::optional<int64_t> n = dataset_->size();
  WICK_CHECK(n, "data loader: this iterable data set does not know its size");
  WICK_CHECK(*n >= 0, "data loader: wrong size of the iterable data set: got ", *n,
             ", expected 0 or more");
  const int64_t batch = options().batch_size.value_or(1);
  return *n / batch + (*n % batch != 0 && !options().drop_last ? 1 : 0);
}

std::string IterableReader::describe(int64_t task, int64_t) const {
  const auto shard = static_cast<int>(task % shards());
  return with_name(concat("shard ", shard), [&] { return dataset_->name(shard); });
}

bool IterableReader::wait_for_turn(Shard& shard, int64_t epoch, int64_t position,
                                   const Status& status) {
  std::unique_lock lock(shard.mutex);
  const auto turn = [&] {
    if (shard.busy) return false;
    return shard.epoch == epoch ? shard.position >= position : shard.epoch > epoch || position == 0;
  };
  // Those who read one shard in turns are told when it moves, but not when all is to stop.
  while (!shard.moved.wait_for(lock, std::chrono::milliseconds(20), turn)) {
    if (status.stop) return false;
  }
  // A task of the last epoch may come late: there all had ended.
  if (shard.epoch > epoch) return false;
  shard.busy = true;
  return true;
}

void IterableReader::make(int64_t epoch, int64_t task, Status& status, Result& result) {
  const auto index = static_cast<int>(task % shards());
  Shard& shard = *shards_[static_cast<size_t>(index)];
  const int64_t position = task / shards();
  result.ended = true;
  if (!wait_for_turn(shard, epoch, position, status)) return;
  // Whatever happens, the turn passes on.
  struct PassOn {
    Shard& shard;
    int64_t epoch, next;
    ~PassOn() {
      {
        const std::lock_guard lock(shard.mutex);
        shard.epoch = epoch;
        shard.position = next;
        shard.busy = false;
      }
      shard.moved.notify_all();
    }
  } const pass_on{shard, epoch, position + 1};
  result.ended = false;
  try {
    if (position == 0) {
      shard.samples = 0;
      shard.iterator = dataset_->iterate(index, epoch);
      WICK_CHECK(shard.iterator != nullptr, "iterate: the walk through shard ", index,
                 " is null: got none, expected an iterator");
    }
    make_next(shard, epoch, index, status, result);
  } catch (...) {
    shard.iterator.reset();
    throw;
  }
}

void IterableReader::make_next(Shard& shard, int64_t epoch, int index, Status& status,
                               Result& result) const {
  const int64_t wanted = options().batch_size.value_or(1);
  const bool unbatched = !options().batch_size;
  const bool own = dataset_->fields().empty();  // tensors of their own
  const bool gathers = collates() || own;
  std::vector<Sample> samples;
  if (!gathers) result.batch = new_batch(wanted);
  int64_t count = 0;
  for (; count < wanted && shard.iterator && !status.stop; ++count) {
    Batch one;
    if (gathers) one = own ? Batch() : new_batch(1);
    std::vector<void*> places;
    for (const BatchRead::Column& column : columns(gathers ? one : result.batch)) {
      places.push_back(column.first + (gathers ? 0 : count * column.bytes));
    }
    if (!next_sample(shard, epoch, index, places, own ? &one.fields : nullptr, result)) break;
    if (!gathers) continue;
    if (!own && !unbatched) {
      for (Tensor& field : one.fields) field = field.select(0, 0);
    }
    samples.push_back(std::move(one.fields));
  }
  result.ended = count == 0 || (count < wanted && options().drop_last);
  if (result.ended) {
    result.batch = {};
  } else if (gathers) {
    collate(std::move(samples), result);
  } else {
    keep(count, wanted, result);
  }
}

bool IterableReader::next_sample(Shard& shard, int64_t epoch, int index, std::span<void* const> out,
                                 Sample* sample, Result& result) const {
  constexpr int kMostFailures = 100;  // in a row: such a source is broken as a whole
  const BatchRead::Randomness from = randomness(epoch);
  for (int failures = 0; true; ++failures) {
    const uint64_t number = kStreamsOfShards + (static_cast<uint64_t>(index) << 40) +
                            static_cast<uint64_t>(shard.samples++);
    try {
      const PhiloxStream random = data_stream(from.seed, from.epoch, number);
      std::optional<Sample> own;
      if (sample != nullptr) own = shard.iterator->get(random);
      const bool more = sample != nullptr ? own.has_value() : shard.iterator->next(random, out);
      if (own) *sample = std::move(*own);
      if (!more) shard.iterator.reset();
      return more;
    } catch (const std::exception& error) {
      if (!skips(error) || failures == kMostFailures) throw;
      ++result.skipped;
      result.last_skipped = concat(describe(index, -1), ": ", error.what());
    }
  }
}

}  // namespace wick::data::loading
