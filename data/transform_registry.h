#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "wick/data/transforms.h"

namespace wick::data {

/// How the images of a set are usually prepared for training.
struct Preparation {
  /// Photographs of unlike sizes are cut and resized to one size; others, all of one size, are put
  /// within `padding` black pixels and cut to their own.
  bool photographs = false;
  int64_t padding = 0;
  /// Whether an image swapped left and right is still one of its class.
  bool flip = false;
  /// Of each channel, with values from 0 to 1.
  std::vector<float> mean = {}, std = {};
};

/// What images a transform is made for.
struct TransformContext {
  ImageSize size = {};  // of the result
  Preparation preparation = {};
};

/// Transforms that can be named in a text, as in `wick train --augment NAME`.
struct TransformEntry {
  /// A number that may stand behind the name, in brackets.
  struct Argument {
    std::string name;
    std::optional<double> value = {};  // where it is left out; none: it must be given
  };
  std::string name;
  std::vector<Argument> arguments = {};
  /// Given a number for each argument. Error for numbers that cannot be.
  std::function<Transforms(const std::vector<double>& numbers, const TransformContext& context)>
      make = {};
  bool policy = false;  // a whole augmentation, which needs nothing beside it
};

/// Offers transforms of a program's own by name. Error if the name is taken.
void register_transform(TransformEntry entry);

/// random_crop random_resized_crop resize center_crop horizontal_flip vertical_flip color_jitter
/// grayscale rand_augment random_erasing cutout, the policies none basic color randaugment, and
/// those of the program's own.
std::vector<std::string> transform_names();
/// Error for an unknown name, which lists the names.
const TransformEntry& find_transform(const std::string& name);

/// The transforms that `text` names, one after the other: "random_crop(4), horizontal_flip". Error
/// for text that is no such list, unknown names and wrong numbers of arguments.
Transforms make_transforms(const std::string& text, const TransformContext& context);

}  // namespace wick::data
