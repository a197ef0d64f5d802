#pragma once

#include <string>

#include "wick/data/catalog.h"

namespace wick::data {

/// 32 hexadecimal digits that other data gives another value of: the number of images, their
/// labels, the names of the classes, and the stored bytes of up to 64 images of each of the two
/// sets. What cannot be read counts as such.
std::string fingerprint(const LabelledImages& images);
/// The same of samples, as they are trained on.
std::string fingerprint(const TrainTest& data);

}  // namespace wick::data
