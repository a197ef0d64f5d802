#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "wick/core/options.h"
#include "wick/data/dataset.h"
#include "wick/data/image_io.h"
#include "wick/data/image_source.h"
#include "wick/data/transform_registry.h"

namespace wick::data {

/// A data set to train and test with, augmented and normalised as is usual for it.
struct TrainTest {
  std::shared_ptr<const Dataset> train, test;
  std::vector<std::string> class_names;
  bool images = true;  // whether field 0 is an image: channels, height, width
  /// Of how many samples there are, the classes, and what some samples hold: other data has another
  /// one. Empty: not known.
  std::string fingerprint = {};
  /// Field 0, without the axis of the batch.
  const Field& sample() const { return train->fields()[0]; }
  /// 0 where samples have no classes.
  int64_t num_classes() const { return static_cast<int64_t>(class_names.size()); }
};

/// How images to train on are changed at random.
struct Augmentation {
  /// Transforms by name (wick/data/transform_registry.h), as in "basic, cutout(8)". Policies among
  /// them are none: as test images are; basic: cropped and, but for digits, flipped; color: that
  /// and ColorJitter; randaugment: basic and RandAugment.
  std::string policy = "basic";
  double erasing = 0;  // the chance of RandomErasing behind them, by the mean colour
};

/// The policies: names that stand for a whole augmentation, those of the program's own included.
std::vector<std::string> augmentation_names();

/// A data set's images as they are stored, and how to prepare them.
struct LabelledImages {
  std::shared_ptr<const ImageSource> train, test;
  Preparation preparation;
};

/// A data set that `open_data` opens by name: of images, which are then augmented and normalised,
/// or of anything else, as it is to be trained on. One of the two functions is null.
struct DataEntry {
  std::string name;
  bool needs_files = true;  // false: `data_dir` may be empty
  std::function<LabelledImages(const std::string& data_dir)> open_images = {};
  std::function<TrainTest(const std::string& data_dir)> open = {};
};

/// Offers a data set of a program's own by name, as in `wick train --data NAME`. Error if the name
/// is taken, or not one of the functions is given.
void register_data(DataEntry entry);

/// shapes10 mnist fashion-mnist cifar10 cifar100 imagefolder packed, and those of the program's
/// own.
std::vector<std::string> data_names();
/// Error for an unknown name, which lists the names.
const DataEntry& find_data(const std::string& name);

/// Opens the images of the data set `name`; error if it has none. `data_dir` is the folder that
/// holds its files, or that folder's parent (for packed, the file); shapes10 needs none, and what
/// `fetch` has downloaded is found without.
LabelledImages open_images(const std::string& name, const std::string& data_dir);

/// Opens the data set `name`, as open_images does. Images are cut and resized to `image_size`
/// pixels square. None: photographs to 224; images that are all of one size stay as they are.
TrainTest open_data(const std::string& name, const std::string& data_dir,
                    std::optional<int64_t> image_size = {}, const Augmentation& augmentation = {});

/// A data set by name, and how its images are read and changed.
struct DataOptions {
  std::string name = "shapes10";  // one of data_names()
  std::string dir = {};           // as open_images takes it
  Augmentation augmentation = {};
  std::optional<int64_t> image_size = {};  // as open_data takes it
  ImageLimits limits = {};
};
OptionFields fields(DataOptions& options);
/// InvalidOption unless the values are right, and `dir` is given where files are needed that have
/// not been downloaded. Looks into no file.
void check(const DataOptions& options);
/// The same, with the limits for all images that this process decodes from now on.
TrainTest open_data(const DataOptions& options);
/// InvalidOption where the options ask for what `data` has no use of, as an augmentation of data
/// that is no images.
void check_uses(const DataOptions& options, const TrainTest& data);

}  // namespace wick::data
