#include "wick/data/fetch.h"

#include <gtest/gtest.h>

#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/scoped_variable.h"

namespace wick::data {
namespace {

using testing::ScopedVariable;

TEST(Fetch, HasNoFolderWhereTheEnvironmentNamesNone) {
  const ScopedVariable cache("XDG_CACHE_HOME", "relative"), home("HOME", nullptr);
  EXPECT_EQ(fetched_folder("mnist"), "");
  EXPECT_EQ(testing::error_of(cache_folder),
            "fetch: no cache folder: expected the variable XDG_CACHE_HOME or HOME to name one");
}

TEST(Fetch, PrefersTheCacheFolderOfTheEnvironment) {
  const ScopedVariable home("HOME", "/home/of");
  {
    const ScopedVariable cache("XDG_CACHE_HOME", "relative");
    EXPECT_EQ(cache_folder(), "/home/of/.cache/wick");
  }
  const ScopedVariable cache("XDG_CACHE_HOME", "/cache");
  EXPECT_EQ(cache_folder(), "/cache/wick");
}

}  // namespace
}  // namespace wick::data
