#pragma once

#include <string>

namespace wick::testing {

/// The root of the source tree.
std::string source_folder();
/// Where this build puts its programs.
std::string program_folder();

}  // namespace wick::testing
