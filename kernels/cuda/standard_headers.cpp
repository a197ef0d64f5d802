#include "wick/kernels/cuda/runtime_headers.h"

namespace wick::cuda {

namespace {

constexpr const char* kIntegers = R"(#pragma once
using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned;
using uint64_t = unsigned long;
using uintptr_t = unsigned long;
using size_t = unsigned long;
#define INT64_MIN (-9223372036854775807L - 1)
#define INT64_MAX 9223372036854775807L
namespace std {
template <class A, class B>
inline constexpr bool is_same_v = false;
template <class A>
inline constexpr bool is_same_v<A, A> = true;
}  // namespace std
// What g++ and clang know by themselves.
#define __is_same(...) ::std::is_same_v<__VA_ARGS__>
#define __builtin_inf() __builtin_bit_cast(double, 0x7ff0000000000000ul)
)";

constexpr const char* kBits = R"(#pragma once
namespace std {
template <class To, class From>
constexpr To bit_cast(const From& from) {
  return __builtin_bit_cast(To, from);
}
}  // namespace std
)";

}  // namespace

const std::vector<RuntimeHeader>& standard_headers() {
  static const std::vector<RuntimeHeader> headers = {
      {"cstdint", kIntegers},
      {"cuda_runtime.h", "#pragma once\n"},
      {"cassert", "#pragma once\n"},
      {"bit", kBits},
      {"cmath", "#pragma once\nnamespace std {\nusing ::exp;\nusing ::sqrt;\n}\n"},
      {"math.h", "#pragma once\n#define HUGE_VAL __builtin_inf()\n"},
      {"iosfwd", "#pragma once\nnamespace std {\nclass ostream;\n}\n"},
      {"string_view", "#pragma once\nnamespace std {\nclass string_view;\n}\n"},
  };
  return headers;
}

}  // namespace wick::cuda
