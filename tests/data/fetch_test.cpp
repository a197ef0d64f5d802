#include "wick/data/fetch.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "wick/tests/harness/expect_error.h"

namespace wick::data {
namespace {

// Sets a variable of the environment for a scope.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    value == nullptr ? unsetenv(name) : setenv(name, value, 1);
  }
  ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

TEST(Fetch, HasNoFolderWhereTheEnvironmentNamesNone) {
  const Variable cache("XDG_CACHE_HOME", "relative"), home("HOME", nullptr);
  EXPECT_EQ(fetched_folder("mnist"), "");
  EXPECT_EQ(testing::error_of(cache_folder),
            "fetch: no cache folder: expected the variable XDG_CACHE_HOME or HOME to name one");
}

TEST(Fetch, PrefersTheCacheFolderOfTheEnvironment) {
  const Variable home("HOME", "/home/of");
  {
    const Variable cache("XDG_CACHE_HOME", "relative");
    EXPECT_EQ(cache_folder(), "/home/of/.cache/wick");
  }
  const Variable cache("XDG_CACHE_HOME", "/cache");
  EXPECT_EQ(cache_folder(), "/cache/wick");
}

}  // namespace
}  // namespace wick::data
