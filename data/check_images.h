#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "wick/data/catalog.h"

namespace wick::data {

/// What reading every image of a data set has shown.
struct CheckReport {
  /// An image that cannot be used: its name, and the text of the error.
  struct Bad {
    std::string name;
    std::string reason;
  };
  /// Images of one class to train on, and to test with.
  struct Count {
    int64_t train = 0, test = 0;
  };

  int64_t images = 0;
  std::vector<Bad> bad;       // those that cannot be read or decoded, in order
  std::vector<Count> counts;  // of the images of each class, bad ones included
  /// Names of images that are stored with the same bytes, two or more together, in order.
  std::vector<std::vector<std::string>> duplicates;
};

/// Reads and decodes every image of `images` with `workers` threads (1 or more). `progress` is
/// called from several threads, one at a time, with the number of images done.
CheckReport check_images(const LabelledImages& images, int workers = 1,
                         const std::function<void(int64_t)>& progress = {});

}  // namespace wick::data
