#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wick/data/image_set.h"

namespace wick::data {

/// The files of an image folder, none of them opened yet.
struct ImageFolder {
  /// One image file and its class.
  struct File {
    std::string path;
    int64_t label;  // index into class_names
  };

  std::vector<std::string> class_names;  // sorted
  std::vector<File> files;               // by class, then by name
};

/// Lists DIR/CLASS/NAME.{jpg,jpeg,png}, where DIR is train, or test (if there is none, val), in
/// `data_dir` or in its only sub-folder that has a train folder. Classes are the sub-folders of
/// train, in sorted order, for both splits. Names that start with a dot are passed over. Error if a
/// class has no image to train on, or test has a class that train has not.
ImageFolder list_image_folder(const std::string& data_dir, Split split);

}  // namespace wick::data
