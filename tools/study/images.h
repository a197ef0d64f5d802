#pragma once

#include <memory>
#include <string>

#include "wick/data/data.h"
#include "wick/tools/study/settings.h"

namespace wick::study {

/// A folder of files that is deleted with this object.
class ScratchFolder {
 public:
  /// In `parent`, which is made if it is not there.
  explicit ScratchFolder(const std::string& parent);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// What a loader reads, and what is needed to make a model for it.
struct Images {
  std::unique_ptr<ScratchFolder> files;  // that `train` reads
  std::shared_ptr<const data::Dataset> train, test;
  Shape shape;  // channels, height, width
  int64_t classes = 0;
  data::Normalize normalize = data::Normalize::to_unit(1);  // what the step does, if it does
};

/// The data set that `settings.source` names (not memory), as `settings` say it is read.
Images open_images(const Settings& settings);

}  // namespace wick::study
