#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "wick/data/augment.h"
#include "wick/data/batch_transform.h"
#include "wick/data/dataset.h"
#include "wick/data/device_work.h"
#include "wick/data/image_folder.h"
#include "wick/data/image_set.h"
#include "wick/data/image_source.h"
#include "wick/data/transforms.h"

namespace wick::data {

class ImageDataset;

/// Images left as bytes, and what is still to be done to batches of them.
struct BytesDataset {
  std::shared_ptr<const ImageDataset> dataset;
  Normalize normalize;
  BatchTransformOptions transform = {.random = false};
  /// Behind the flips; where it is given, nothing is erased.
  std::optional<ColorJitterOptions> jitter = {};
};

/// Labelled images, transformed one by one. Field 0 is the image [C, H, W], stored channels-last:
/// float32 if there is a Normalize, else uint8. Field 1 is the label, int64 of rank 0.
class ImageDataset final : public Dataset, public DeviceWorkSource {
 public:
  /// Images are decoded when they are read. The transforms must end in one size for all.
  ImageDataset(std::shared_ptr<const ImageSource> images, Transforms transforms,
               std::optional<Normalize> normalize);
  ImageDataset(std::shared_ptr<const ImageSet> images, Transforms transforms,
               std::optional<Normalize> normalize);
  ImageDataset(ImageFolder files, Transforms transforms, std::optional<Normalize> normalize);

  int64_t size() const override { return images_->size(); }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(int64_t index, PhiloxStream random, std::span<void* const> out) const override;
  std::string name(int64_t index) const override { return images_->name(index); }
  /// The same images as bytes, a quarter as much to copy. The last transforms are left to be done
  /// to batches, as far as BatchTransform and BatchColorJitter do the same: a crop, flips, and one
  /// of erasing and jitter. Random numbers are then those of the batch, not of the sample. Nothing
  /// if images are not normalised.
  std::optional<BytesDataset> as_bytes() const;
  /// What as_bytes leaves to be done.
  std::optional<DeviceWork> device_work(int64_t part) const override;
  /// By label.
  const std::vector<std::string>& class_names() const { return images_->class_names(); }

 private:
  /// As `read`, but for what may be wrong with the source.
  void read_stored(int64_t index, PhiloxStream random, std::span<void* const> out) const;
  /// Decodes and transforms a stored image.
  void make(int64_t index, const StoredImage& stored, PhiloxStream random, Image& image) const;

  std::shared_ptr<const ImageSource> images_;
  Transforms transforms_;
  std::optional<Normalize> normalize_;
  std::vector<Field> fields_;
};

/// The mean and standard deviation of each channel over a whole set.
Normalize normalize_by(const ImageSet& images);
/// Those of ImageNet's photographs.
Normalize normalize_photographs();

}  // namespace wick::data
