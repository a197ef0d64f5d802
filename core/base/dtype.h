#pragma once

#include <cstdint>
#include <iosfwd>
#include <string_view>

#include "wick/core/base/half.h"
#include "wick/core/base/macros.h"

namespace wick {

/// Element types of tensors.
enum class Dtype : uint8_t {
  kFloat64,
  kFloat32,
  kFloat16,
  kBFloat16,
  kInt64,
  kInt32,
  kUint8,
  kBool,
};

inline constexpr Dtype kFloat64 = Dtype::kFloat64;
inline constexpr Dtype kFloat32 = Dtype::kFloat32;
inline constexpr Dtype kFloat16 = Dtype::kFloat16;
inline constexpr Dtype kBFloat16 = Dtype::kBFloat16;
inline constexpr Dtype kInt64 = Dtype::kInt64;
inline constexpr Dtype kInt32 = Dtype::kInt32;
inline constexpr Dtype kUint8 = Dtype::kUint8;
inline constexpr Dtype kBool = Dtype::kBool;

WICK_INLINE constexpr bool is_floating(Dtype dtype) { return dtype <= Dtype::kBFloat16; }
WICK_INLINE constexpr bool is_reduced(Dtype dtype) {
  return dtype == Dtype::kFloat16 || dtype == Dtype::kBFloat16;
}

/// Bytes of one element.
WICK_INLINE constexpr int64_t size_of(Dtype dtype) {
  constexpr int64_t kSizes[] = {8, 4, 2, 2, 8, 4, 1, 1};
  return kSizes[static_cast<int>(dtype)];
}

/// "float32", "int64", ...
std::string_view to_string(Dtype dtype);
std::ostream& operator<<(std::ostream& out, Dtype dtype);

/// The type both can be converted to, as PyTorch promotes two tensors with dimensions.
Dtype promote(Dtype a, Dtype b);

/// The Dtype of elements of the C++ type T, as `value`. Only the eight types below have one.
template <class T>
struct DtypeOf;
/// The Dtype of this type.
// clang-format off
template <> struct DtypeOf<double> { static constexpr Dtype value = Dtype::kFloat64; };
template <> struct DtypeOf<float> { static constexpr Dtype value = Dtype::kFloat32; };
template <> struct DtypeOf<Half> { static constexpr Dtype value = Dtype::kFloat16; };
template <> struct DtypeOf<BFloat16> { static constexpr Dtype value = Dtype::kBFloat16; };
template <> struct DtypeOf<int64_t> { static constexpr Dtype value = Dtype::kInt64; };
template <> struct DtypeOf<int32_t> { static constexpr Dtype value = Dtype::kInt32; };
template <> struct DtypeOf<uint8_t> { static constexpr Dtype value = Dtype::kUint8; };
template <> struct DtypeOf<bool> { static constexpr Dtype value = Dtype::kBool; };
// clang-format on

template <class T>
inline constexpr Dtype dtype_of = DtypeOf<T>::value;

/// The type that sums of T are held in: double for double, float for the other floating types,
/// int64 for integers and bool.
// clang-format off
template <class T> struct AccumulatorOf { using type = int64_t; };
template <> struct AccumulatorOf<double> { using type = double; };
template <> struct AccumulatorOf<float> { using type = float; };
template <> struct AccumulatorOf<Half> { using type = float; };
template <> struct AccumulatorOf<BFloat16> { using type = float; };
// clang-format on
template <class T>
using Accumulator = typename AccumulatorOf<T>::type;

/// Carries a type as a value, for the visitors below.
template <class T>
struct Type {
  using type = T;
};

[[noreturn]] void unsupported_dtype(Dtype dtype);

/// Calls `visit(Type<T>{})` with the floating type T that `dtype` names.
template <class Visit>
WICK_INLINE void visit_floating(Dtype dtype, Visit&& visit) {
  switch (dtype) {
    case Dtype::kFloat64: return visit(Type<double>{});
    case Dtype::kFloat32: return visit(Type<float>{});
    case Dtype::kFloat16: return visit(Type<Half>{});
    case Dtype::kBFloat16: return visit(Type<BFloat16>{});
    default: unsupported_dtype(dtype);
  }
}

/// Calls `visit(Type<T>{})` with the type T that `dtype` names.
template <class Visit>
WICK_INLINE void visit_dtype(Dtype dtype, Visit&& visit) {
  switch (dtype) {
    case Dtype::kInt64: return visit(Type<int64_t>{});
    case Dtype::kInt32: return visit(Type<int32_t>{});
    case Dtype::kUint8: return visit(Type<uint8_t>{});
    case Dtype::kBool: return visit(Type<bool>{});
    default: return visit_floating(dtype, visit);
  }
}

}  // namespace wick
