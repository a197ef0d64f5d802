#include "wick/data/image_dataset.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace wick::data {

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
