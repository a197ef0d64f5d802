#pragma once

#include <string>

#include "wick/core/base/sha256.h"

namespace wick::data {

/// The SHA-256 of the file `path`, in 64 digits.
std::string sha256_of_file(const std::string& path);

}  // namespace wick::data
