#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "wick/core/base/philox.h"
#include "wick/core/tensor.h"
#include "wick/data/image_folder.h"
#include "wick/data/image_set.h"
#include "wick/data/image_source.h"
#include "wick/data/transforms.h"

namespace wick::data {

/// One part of a sample, an image or a label, and how a batch of them is laid out.
struct Field {
  Shape shape;  // without the batch axis
  Dtype dtype = kFloat32;
  MemoryFormat format = MemoryFormat::kContiguous;
};

/// A numbered collection of samples. Each has the same fields.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  virtual const std::vector<Field>& fields() const = 0;
  /// Writes sample `index` (0 to size() - 1): field i to `out[i]`, which is the sample's place in a
  /// batch. What is random about it comes from `random`, the sample's own stream in this epoch.
  /// Several threads call this at once.
  virtual void read(int64_t index, PhiloxStream random, std::span<void* const> out) const = 0;
};

/// Samples that are rows of tensors on the CPU: field i of sample j is `tensors[i][j]`. Tensors
/// that are contiguous are not copied.
class TensorDataset final : public Dataset {
 public:
  explicit TensorDataset(std::vector<Tensor> tensors);
  int64_t size() const override { return size_; }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(int64_t index, PhiloxStream random, std::span<void* const> out) const override;

 private:
  std::vector<Tensor> tensors_;
  std::vector<Field> fields_;
  std::vector<size_t> row_bytes_;
  int64_t size_ = 0;
};

/// Labelled images, transformed one by one. Field 0 is the image [C, H, W], stored channels-last:
/// float32 if there is a Normalize, else uint8. Field 1 is the label, int64 of rank 0.
class ImageDataset final : public Dataset {
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
  const std::vector<std::string>& class_names() const { return images_->class_names(); }

 private:
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
