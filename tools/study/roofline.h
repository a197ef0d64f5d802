#pragma once

#include "wick/tools/study/html.h"

namespace wick::study {

/// Kernels against what the machine can do at most, from the JSON file that wick bench wrote. Error
/// if it cannot be read.
/// Error unless `path` is what wick bench --json writes, with something to show.
void check_bench(const std::string& path);
void show_roofline(Html& html, const std::string& path);

}  // namespace wick::study
