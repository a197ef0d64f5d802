#include "wick/tests/harness/temporary_folder.h"

#include <stdlib.h>

#include <filesystem>

#include "wick/core/base/check.h"

namespace wick::testing {

TemporaryFolder::TemporaryFolder()
    : path_((std::filesystem::temp_directory_path() / "wick-XXXXXX").string()) {
  WICK_CHECK(mkdtemp(path_.data()) != nullptr, "cannot make a temporary folder ", path_);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace wick::testing
