#include "wick/tests/harness/paths.h"

namespace wick::testing {

std::string source_folder() { return WICK_SOURCE_DIR; }
std::string program_folder() { return WICK_BIN_DIR; }

}  // namespace wick::testing
