#pragma once

#include <memory>

#include "wick/data/data.h"
#include "wick/tools/study/settings.h"

namespace wick::study {

/// What a loader reads, and what is needed to make a model for it.
struct Images {
  std::shared_ptr<const data::Dataset> train, test;
  Shape shape;  // channels, height, width
  int64_t classes = 0;
  data::Normalize normalize = data::Normalize::to_unit(1);  // what the step does, if it does
};

/// The data set that `settings.source` names (not memory), as `settings` say it is read. Files that
/// it takes are made in `settings.scratch` by the first process that asks for them.
Images open_images(const Settings& settings);

}  // namespace wick::study
