#include "wick/core/base/detail/dynamic_library.h"

#include <gtest/gtest.h>

#include "wick/tests/core/allocator_fixture.h"

namespace wick {
namespace {

TEST(DynamicLibrary, FindsFunctionsWhenFirstNeeded) {
  const DynamicLibrary library("the mathematics", "libm.so.6");
  double (*cube_root)(double) = nullptr;
  library.find(cube_root, "cbrt");
  EXPECT_NEAR(cube_root(27), 3, 1e-12);
  EXPECT_EQ(find_library("libm.so.6"), "libm.so.6");
}

TEST(DynamicLibrary, SaysWhatIsMissing) {
  EXPECT_EQ(find_library("libnobody_has_this.so.1"), "");
  EXPECT_EQ(error_of([] { DynamicLibrary("cuABC 9", "libnobody_has_this.so.1"); }),
            "cuABC 9 cannot be opened: libnobody_has_this.so.1: cannot open shared object "
            "file: No such file or directory; it was looked for in LD_LIBRARY_PATH, the system's "
            "folders, CUDA_HOME and /usr/local/cuda");
  const DynamicLibrary library("the mathematics", "libm.so.6");
  void (*function)() = nullptr;
  EXPECT_EQ(error_of([&] { library.find(function, "nobody_has_this"); }),
            "the mathematics is too old: it has no function nobody_has_this");
}

}  // namespace
}  // namespace wick
