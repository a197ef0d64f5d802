#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/join.h"
#include "wick/data/batch_color_jitter.h"
#include "wick/data/image_dataset.h"

// Which of an image's transforms a device does to whole batches.
namespace wick::data {

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

namespace {

// Of 0 to 1, what `normalize` makes of them.
Tensor normalized(const Tensor& images, const Normalize& normalize) {
  const auto channels = static_cast<int64_t>(normalize.mean().size());
  const auto along_channels = [&](const std::vector<float>& values) {
    return tensor(values, Shape{1, channels, 1, 1}).to(images.device(), /*non_blocking=*/true);
  };
  return (images - along_channels(normalize.mean())) / along_channels(normalize.std());
}

// Does what a BytesDataset leaves to be done to batches, by the random numbers of a seed.
class Finisher {
 public:
  Finisher(const BytesDataset& bytes, uint64_t seed, int64_t part)
      : transform_(bytes.jitter ? Normalize::to_unit(bytes.dataset->fields()[0].shape[0])
                                : bytes.normalize,
                   options_of(bytes, seed, part)),
        normalize_(bytes.normalize) {
    if (bytes.jitter) jitter_.emplace(*bytes.jitter, seed, part);
  }

  Tensor finish(const Tensor& bytes, int64_t epoch, int64_t number) const {
    const Tensor images = transform_.apply(bytes, epoch, number);
    return jitter_ ? normalized(jitter_->apply(images, epoch, number), normalize_) : images;
  }

 private:
  static BatchTransformOptions options_of(const BytesDataset& bytes, uint64_t seed, int64_t part) {
    BatchTransformOptions options = bytes.transform;
    options.seed = seed;
    options.part = part;
    return options;
  }

  BatchTransform transform_;
  std::optional<BatchColorJitter> jitter_;
  Normalize normalize_;
};

}  // namespace

std::optional<DeviceWork> ImageDataset::device_work(int64_t part) const {
  std::optional<BytesDataset> bytes = as_bytes();
  if (!bytes) return {};
  return DeviceWork{bytes->dataset, [bytes = *bytes, part](Batch batch, int64_t epoch, int64_t n) {
                      const Finisher finisher(bytes, batch.seed, part);
                      batch.fields[0] = finisher.finish(batch[0], epoch, n);
                      return batch;
                    }};
}

}  // namespace wick::data
