#include "wick/kernels/cpu/convert.h"

#include <utility>

namespace wick::WICK_ISA {

namespace {

template <class T>
constexpr bool kIsHalf = false;
template <>
constexpr bool kIsHalf<Half> = true;
template <>
constexpr bool kIsHalf<BFloat16> = true;
template <class T>
constexpr bool kIsReal = kIsHalf<T>;
template <>
constexpr bool kIsReal<float> = true;
template <>
constexpr bool kIsReal<double> = true;

// What the processor gives where x is out of range.
WICK_INLINE int64_t truncate(double x) {
  return x >= -0x1p63 && x < 0x1p63 ? static_cast<int64_t>(x) : INT64_MIN;
}

template <class To, class From>
WICK_INLINE To convert(From x) {
  if constexpr (__is_same(To, From)) {
    return x;
  } else if constexpr (__is_same(To, bool)) {
    if constexpr (kIsHalf<From>) {
      return static_cast<float>(x) != 0.0f;
    } else {
      return x != From(0);
    }
  } else if constexpr (kIsHalf<To>) {
    return To(static_cast<float>(x));
  } else if constexpr (kIsReal<To>) {
    return static_cast<To>(x);
  } else if constexpr (kIsHalf<From>) {
    return static_cast<To>(truncate(static_cast<float>(x)));
  } else if constexpr (kIsReal<From>) {
    return static_cast<To>(truncate(x));
  } else {
    return static_cast<To>(x);
  }
}

// Every second one of `n` elements, which are as large as the unsigned integer E.
template <class E, int... kLane>
WICK_INLINE void copy_every_second(const void* from_row, void* to_row, int64_t n,
                                   std::integer_sequence<int, kLane...>) {
  constexpr int64_t kLanes = sizeof...(kLane);
  typedef E V __attribute__((vector_size(kLanes * sizeof(E))));
  const E* from = static_cast<const E*>(from_row);
  E* to = static_cast<E*>(to_row);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    V low, high;  // which ends with the last element wanted: nothing may follow that one
    __builtin_memcpy(&low, from + 2 * i, sizeof(V));
    __builtin_memcpy(&high, from + 2 * i + kLanes - 1, sizeof(V));
    low = __builtin_shufflevector(low, high, (2 * kLane + (2 * kLane >= kLanes))...);
    __builtin_memcpy(to + i, &low, sizeof(V));
  }
  for (; i < n; ++i) to[i] = from[2 * i];
}

template <class E>
[[gnu::noinline]] void copy_every_second(const void* from, void* to, int64_t n) {
  copy_every_second<E>(from, to, n,
                       std::make_integer_sequence<int, WICK_WIDE(64, 32) / sizeof(E)>());
}

template <class To, class From>
void convert_row(void* to_row, int64_t to_stride, const void* from_row, int64_t from_stride,
                 int64_t n) {
  To* to = static_cast<To*>(to_row);
  const From* from = static_cast<const From*>(from_row);
  if (to_stride == 1 && from_stride == 1) {
    if constexpr (__is_same(To, From)) {
      __builtin_memcpy(to, from, static_cast<size_t>(n) * sizeof(To));
    } else if constexpr ((kIsHalf<To> && kIsHalf<From>) ||
                         (kIsHalf<To> && __is_same(From, float)) ||
                         (kIsHalf<From> && __is_same(To, float))) {
      int64_t i = 0;
      for (; i + VecF::size <= n; i += VecF::size) VecF::load(from + i).store(to + i);
      if (i < n) VecF::load_partial(from + i, n - i).store_partial(to + i, n - i);
    } else {
      for (int64_t i = 0; i < n; ++i) to[i] = convert<To>(from[i]);
    }
  } else if (from_stride == 0 && to_stride == 1) {
    const To value = convert<To>(*from);
    for (int64_t i = 0; i < n; ++i) to[i] = value;
  } else if (__is_same(To, From) && from_stride == 2 && to_stride == 1) {
    if (sizeof(To) == 1) return copy_every_second<uint8_t>(from, to, n);
    if (sizeof(To) == 2) return copy_every_second<uint16_t>(from, to, n);
    if (sizeof(To) == 4) return copy_every_second<uint32_t>(from, to, n);
    copy_every_second<uint64_t>(from, to, n);
  } else {
    for (int64_t i = 0; i < n; ++i) {
      // Without vectors: the code of 64 pairs of types would be four times as large, and no faster.
      asm("");
      to[i * to_stride] = convert<To>(from[i * from_stride]);
    }
  }
}

}  // namespace

RowConverter row_converter(Dtype to, Dtype from) {
  RowConverter converter = nullptr;
  visit_dtype(to, [&]<class To>(Type<To>) {
    visit_dtype(from, [&]<class From>(Type<From>) { converter = &convert_row<To, From>; });
  });
  return converter;
}

}  // namespace wick::WICK_ISA
