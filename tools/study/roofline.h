#pragma once

#include "wick/tools/study/html.h"

namespace wick::study {

/// Kernels against what the machine can do at most, from the JSON file that wick bench wrote. Error
/// if it cannot be read.
void show_roofline(Html& html, const std::string& path);

}  // namespace wick::study
