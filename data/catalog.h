#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "wick/data/dataset.h"

namespace wick::data {

/// A data set to train and test with, augmented and normalised as is usual for it.
struct TrainTest {
  std::shared_ptr<const Dataset> train, test;
  std::vector<std::string> class_names;
  /// The shape of one image: channels, height, width.
  const Shape& image_shape() const { return train->fields()[0].shape; }
  int64_t num_classes() const { return static_cast<int64_t>(class_names.size()); }
};

/// How images to train on are changed at random.
struct Augmentation {
  /// none: they are as test images are. basic: cropped and, but for digits, flipped. color: that
  /// and ColorJitter. randaugment: basic and RandAugment.
  std::string policy = "basic";
  double erasing = 0;  // the chance of RandomErasing, by the mean colour
};

/// The policies of Augmentation.
const std::vector<std::string>& augmentation_names();

/// The names that `open_data` knows: shapes10, mnist, fashion-mnist, cifar10, cifar100,
/// imagefolder.
const std::vector<std::string>& data_names();

/// Opens the data set `name`. `data_dir` is the folder that holds its files, or that folder's
/// parent; shapes10 needs none. An image folder's images are cut to `image_size` pixels square.
TrainTest open_data(const std::string& name, const std::string& data_dir, int64_t image_size = 224,
                    const Augmentation& augmentation = {});

}  // namespace wick::data
