#pragma once

#include "wick/core/base/dtype.h"
#include "wick/kernels/cuda/common/device_code.h"
#include "wick/kernels/cuda/common/vector_access.h"

namespace wick::cuda {

/// The float or double whose arithmetic T has; integers and bool for themselves.
template <class T>
struct ArithmeticOf {
  using type = T;
};
template <>
struct ArithmeticOf<Half> {
  using type = float;
};
template <>
struct ArithmeticOf<BFloat16> {
  using type = float;
};

/// What x86 gives: the smallest integer where `x` is out of range or NaN.
__device__ inline int64_t truncate(double x) {
  return x >= -0x1p63 && x < 0x1p63 ? static_cast<int64_t>(x) : INT64_MIN;
}

/// Half and BFloat16 from and to float, by the instructions that GPUs have for it.
__device__ inline float widen(Half value) {
#ifdef __CUDA_ARCH__
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
  return result;
#else
  return value;
#endif
}
__device__ inline float widen(BFloat16 value) { return value; }
template <class To>
__device__ To narrow(float value) {
  To result(0.0f);
#ifdef __CUDA_ARCH__
  if constexpr (__is_same(To, Half)) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  } else {
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  }
#else
  result = To(value);
#endif
  return result;
}

/// `value` as To, rounded once, with the CPU's results for numbers that To cannot hold.
template <class To, class From>
__device__ To convert(From value) {
  if constexpr (__is_same(To, From)) {
    return value;
  } else if constexpr (__is_same(From, Half) || __is_same(From, BFloat16)) {
    return convert<To>(widen(value));
  } else if constexpr (__is_same(To, bool)) {
    return static_cast<typename ArithmeticOf<From>::type>(value) != 0;
  } else if constexpr (__is_same(To, Half) || __is_same(To, BFloat16)) {
    return narrow<To>(static_cast<float>(value));
  } else if constexpr (!is_floating(dtype_of<To>) && is_floating(dtype_of<From>)) {
    return static_cast<To>(truncate(static_cast<typename ArithmeticOf<From>::type>(value)));
  } else {
    return static_cast<To>(static_cast<typename ArithmeticOf<From>::type>(value));
  }
}

/// `values`, each converted to T: two at a time to 16 bits.
template <class T, int kCount, class From>
__device__ Pack<T, kCount> convert_pack(const From (&values)[kCount]) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == 2 && __is_same(From, float) && kCount % 2 == 0) {
    struct Words {
      uint32_t w[kCount / 2];
    } words;
    WICK_UNROLL
    for (int i = 0; i < kCount; i += 2) {
      if constexpr (__is_same(T, Half)) {
        asm("cvt.rn.f16x2.f32 %0, %1, %2;"
            : "=r"(words.w[i / 2])
            : "f"(values[i + 1]), "f"(values[i]));
      } else {
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;"
            : "=r"(words.w[i / 2])
            : "f"(values[i + 1]), "f"(values[i]));
      }
    }
    return __builtin_bit_cast(Pack<T, kCount>, words);
  }
#endif
  Pack<T, kCount> pack;
  for (int i = 0; i < kCount; ++i) pack[i] = convert<T>(values[i]);
  return pack;
}

/// Element `offset` of memory that holds elements of `dtype`, as T.
template <class T>
__device__ T load_as(const void* memory, Dtype dtype, int64_t offset) {
  switch (dtype) {
    case Dtype::kFloat64: return convert<T>(static_cast<const double*>(memory)[offset]);
    case Dtype::kFloat32: return convert<T>(static_cast<const float*>(memory)[offset]);
    case Dtype::kFloat16: return convert<T>(static_cast<const Half*>(memory)[offset]);
    case Dtype::kBFloat16: return convert<T>(static_cast<const BFloat16*>(memory)[offset]);
    case Dtype::kInt64: return convert<T>(static_cast<const int64_t*>(memory)[offset]);
    case Dtype::kInt32: return convert<T>(static_cast<const int32_t*>(memory)[offset]);
    case Dtype::kUint8: return convert<T>(static_cast<const uint8_t*>(memory)[offset]);
    case Dtype::kBool: return convert<T>(static_cast<const bool*>(memory)[offset]);
  }
  return T{};
}

/// Writes `value` as element `offset` of memory that holds elements of `dtype`.
template <class T>
__device__ void store_as(void* memory, Dtype dtype, int64_t offset, T value) {
  switch (dtype) {
    case Dtype::kFloat64: static_cast<double*>(memory)[offset] = convert<double>(value); break;
    case Dtype::kFloat32: static_cast<float*>(memory)[offset] = convert<float>(value); break;
    case Dtype::kFloat16: static_cast<Half*>(memory)[offset] = convert<Half>(value); break;
    case Dtype::kBFloat16: static_cast<BFloat16*>(memory)[offset] = convert<BFloat16>(value); break;
    case Dtype::kInt64: static_cast<int64_t*>(memory)[offset] = convert<int64_t>(value); break;
    case Dtype::kInt32: static_cast<int32_t*>(memory)[offset] = convert<int32_t>(value); break;
    case Dtype::kUint8: static_cast<uint8_t*>(memory)[offset] = convert<uint8_t>(value); break;
    case Dtype::kBool: static_cast<bool*>(memory)[offset] = convert<bool>(value); break;
  }
}

}  // namespace wick::cuda
