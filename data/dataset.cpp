#include "wick/data/dataset.h"

#include <cmath>
#include <cstring>

#include "wick/data/detail/streams.h"

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

std::vector<Tensor> Dataset::get(int64_t index, PhiloxStream random) const {
  std::vector<Tensor> sample;
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

std::optional<BytesDataset> Dataset::as_bytes() const { return {}; }

TensorDataset::TensorDataset(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {
  WICK_CHECK(!tensors_.empty(), "tensor dataset: got no tensors, expected one or more");
  for (Tensor& tensor : tensors_) {
    WICK_CHECK(tensor.device().is_cpu(), "tensor dataset: wrong device: got ",
               to_string(tensor.device()), ", expected cpu");
    WICK_CHECK(tensor.rank() > 0,
               "tensor dataset: got a tensor of rank 0, expected samples along "
               "the first axis");
    WICK_CHECK(tensor.size(0) == tensors_[0].size(0), "tensor dataset: lengths differ: got ",
               tensor.size(0), ", expected ", tensors_[0].size(0));
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

ImageDataset::ImageDataset(std::shared_ptr<const ImageSet> images, Transforms transforms,
                           std::optional<Normalize> normalize)
    : ImageDataset(image_source(std::move(images)), std::move(transforms), std::move(normalize)) {}

ImageDataset::ImageDataset(ImageFolder files, Transforms transforms,
                           std::optional<Normalize> normalize)
    : ImageDataset(image_source(std::move(files)), std::move(transforms), std::move(normalize)) {}

ImageDataset::ImageDataset(std::shared_ptr<const ImageSource> images, Transforms transforms,
                           std::optional<Normalize> normalize)
    : images_(std::move(images)),
      transforms_(std::move(transforms)),
      normalize_(std::move(normalize)) {
  ImageSize size = images_->image_size();
  const int64_t channels = images_->channels();
  for (const auto& transform : transforms_) size = transform->output_size(size);
  WICK_CHECK(size.height > 0 && size.width > 0,
             "image dataset: images differ in size: expected a transform that crops them to one");
  WICK_CHECK(!normalize_ || static_cast<int64_t>(normalize_->mean().size()) == channels,
             "image dataset: wrong number of means: got ", normalize_->mean().size(), ", expected ",
             channels, ", one per channel");
  fields_ = {{{channels, size.height, size.width},
              normalize_ ? kFloat32 : kUint8,
              MemoryFormat::kChannelsLast},
             {{}, kInt64, MemoryFormat::kContiguous}};
}

void ImageDataset::make(int64_t index, const StoredImage& stored, PhiloxStream random,
                        Image& image) const {
  const Shape& shape = fields_[0].shape;
  size_t done = 0;  // transforms
  try {
    if (stored.channels > 0) {
      image.height = stored.size.height;
      image.width = stored.size.width;
      image.channels = stored.channels;
      image.pixels.assign(stored.bytes.begin(), stored.bytes.end());
    } else {
      const std::string name = images_->name(index);
      ImageDecoder decoder(stored.bytes, name);
      const auto window = leading_window(transforms_, decoder.size(), random, done);
      window ? decoder.decode(*window, image) : decoder.decode(image);
    }
    for (size_t i = done; i < transforms_.size(); ++i) transforms_[i]->apply(image, random);
    WICK_CHECK(image.channels == shape[0] && image.height == shape[1] && image.width == shape[2],
               "image dataset: wrong size: got ", image.height, " x ", image.width, ", expected ",
               shape[1], " x ", shape[2]);
  } catch (const Error& error) {
    const std::string name = images_->name(index), text = error.what();
    if (text.starts_with(name)) throw;
    detail::fail(name, ": ", text);
  }
}

void ImageDataset::read(int64_t index, PhiloxStream random, std::span<void* const> out) const {
  try {
    read_stored(index, random, out);
  } catch (const Error&) {
    images_->confirm();  // or else that is what is wrong
    throw;
  }
  images_->confirm();
}

void ImageDataset::read_stored(int64_t index, PhiloxStream random,
                               std::span<void* const> out) const {
  thread_local std::string buffer;
  thread_local Image image;
  const StoredImage stored = images_->read(index, buffer);
  const int64_t label = images_->label(index);
  std::span<const uint8_t> pixels = stored.bytes;
  if (stored.channels == 0 || !transforms_.empty()) {
    make(index, stored, random, image);
    pixels = image.pixels;
  }
  WICK_CHECK(static_cast<int64_t>(pixels.size()) == fields_[0].shape.numel(), images_->name(index),
             ": wrong size: got ", pixels.size(), " bytes, expected ", fields_[0].shape.numel());
  if (normalize_) {
    normalize_->apply(pixels, static_cast<float*>(out[0]));
  } else {
    std::memcpy(out[0], pixels.data(), pixels.size());
  }
  std::memcpy(out[1], &label, sizeof label);
}

namespace {

template <class T>
const T* last_as(const Transforms& transforms) {
  return transforms.empty() ? nullptr : dynamic_cast<const T*>(transforms.back().get());
}

// Moves the last of `transforms` to `rest`, if it has no such thing yet.
bool move_color(Transforms& transforms, size_t channels, BytesDataset& rest) {
  if (const auto* erasing = last_as<RandomErasing>(transforms)) {
    const RandomErasingOptions& options = erasing->options();
    if (options.random || (options.value.size() != 1 && options.value.size() != channels)) {
      return false;
    }
    rest.transform.erasing = options;
  } else if (const auto* jitter = last_as<ColorJitter>(transforms)) {
    rest.jitter = jitter->options();
  } else {
    return false;
  }
  transforms.pop_back();
  return true;
}

bool move_flip(Transforms& transforms, BytesDataset& rest) {
  BatchTransformOptions& options = rest.transform;
  const auto* across = last_as<RandomHorizontalFlip>(transforms);
  const auto* down = last_as<RandomVerticalFlip>(transforms);
  if (across != nullptr && options.horizontal_flip == 0) {
    options.horizontal_flip = across->p();
  } else if (down != nullptr && options.vertical_flip == 0) {
    options.vertical_flip = down->p();
  } else {
    return false;
  }
  transforms.pop_back();
  return true;
}

bool move_crop(Transforms& transforms, ImageSize size, BytesDataset& rest) {
  const auto* crop = last_as<RandomCrop>(transforms);
  if (crop == nullptr) return false;
  const RandomCropOptions& options = crop->options();
  for (size_t i = 0; i + 1 < transforms.size(); ++i) size = transforms[i]->output_size(size);
  const ImageSize window = crop->output_size(size);
  const bool same = size.height > 0 && window.height <= size.height + 2 * options.padding &&
                    window.width <= size.width + 2 * options.padding && !options.pad_if_needed &&
                    options.border.mode == PadMode::kConstant && options.border.fill == 0;
  if (!same) return false;
  rest.transform.size = window;
  rest.transform.padding = options.padding;
  transforms.pop_back();
  return true;
}

}  // namespace

std::optional<BytesDataset> ImageDataset::as_bytes() const {
  if (!normalize_) return {};
  BytesDataset rest{nullptr, *normalize_};
  Transforms kept = transforms_;
  move_color(kept, static_cast<size_t>(images_->channels()), rest);
  while (move_flip(kept, rest)) continue;
  move_crop(kept, images_->image_size(), rest);
  rest.transform.random = kept.size() < transforms_.size();
  rest.dataset = std::make_shared<ImageDataset>(images_, std::move(kept), std::nullopt);
  return rest;
}

Normalize normalize_by(const ImageSet& images) {
  const auto channels = static_cast<size_t>(images.channels);
  std::vector<uint64_t> sums(channels), squares(channels);
  for (size_t i = 0; i < images.pixels.size(); i += channels) {
    for (size_t c = 0; c < channels; ++c) {
      const uint64_t value = images.pixels[i + c];
      sums[c] += value;
      squares[c] += value * value;
    }
  }
  const double count = static_cast<double>(images.pixels.size() / channels);
  std::vector<float> mean, std;
  for (size_t c = 0; c < channels; ++c) {
    const double m = static_cast<double>(sums[c]) / count;
    const double variance = static_cast<double>(squares[c]) / count - m * m;
    mean.push_back(static_cast<float>(m / 255));
    std.push_back(static_cast<float>(std::max(std::sqrt(std::max(variance, 0.0)), 1.0) / 255));
  }
  return {std::move(mean), std::move(std)};
}

Normalize normalize_photographs() { return {{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}}; }

}  // namespace wick::data
