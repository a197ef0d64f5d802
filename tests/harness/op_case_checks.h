#pragma once

#include <cstddef>

namespace wick::testing {

/// Registers the GoogleTest tests of op_cases()[index].
void register_tests(size_t index, const char* file, int line);

}  // namespace wick::testing
