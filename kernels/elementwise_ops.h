#pragma once

#include <cstdint>

#include "wick/core/base/macros.h"

// The elementwise functions, each written once as a functor on a number type V: a vector of floats
// or doubles (CPU), a float or double (GPU), int64_t where `on_integers`, and, for gradients, a
// Tensor: with `create_graph` a gradient is computed by the same expression out of ops, and so has
// derivatives of every order. Functions named below (exp, select, max, ...) are found with the
// argument's type. A functor has
//   name, arity, on_floats, on_integers
//   operator()(x...)       the value
//   gradient(dy, saved)    for unary ones with a gradient: dy times the derivative
//   keep                   whether `saved` is the input, the output, or neither (then it is dy)
// They live in elementwise_ops_*.h, by group.
namespace wick::fn {

/// What the gradient of a unary function is computed from, beside dy.
enum class Keep : uint8_t { kNothing, kInput, kOutput };

/// A constant, as the user wrote it, for floating and for integer computation.
struct Number {
  double real = 0;
  int64_t integer = 0;

  template <class V>
  WICK_HOST_DEVICE V as() const {
    if constexpr (__is_same(V, int64_t)) {
      return integer;
    } else {
      return V(real);
    }
  }
};

/// Bases that say where a functor is defined.
template <int kArity>
struct OnFloats {
  static constexpr int arity = kArity;
  static constexpr bool on_floats = true;
  static constexpr bool on_integers = false;
};
template <int kArity>
struct OnNumbers : OnFloats<kArity> {
  static constexpr bool on_integers = true;
};
template <int kArity>
struct OnIntegers : OnNumbers<kArity> {
  static constexpr bool on_floats = false;
};

/// The gradient of unary `F` as a functor of its own: (dy, saved), or of dy alone.
template <class F>
struct Gradient : F {
  static constexpr int arity = F::keep == Keep::kNothing ? 1 : 2;
  template <class V>
  WICK_HOST_DEVICE V operator()(V dy, V saved) const {
    return F::gradient(dy, saved);
  }
  template <class V>
  WICK_HOST_DEVICE V operator()(V dy) const {
    return F::gradient(dy, dy);
  }
};

/// Binary `F` with a constant as its second argument.
template <class F>
struct WithConstant : F {
  static constexpr int arity = 1;
  Number constant;
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    return F::operator()(x, constant.as<V>());
  }
};

// --- int64_t's own versions of what vectors have ------------------------------------------------

WICK_HOST_DEVICE int64_t select(bool condition, int64_t a, int64_t b) { return condition ? a : b; }
WICK_HOST_DEVICE int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }
WICK_HOST_DEVICE int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
WICK_HOST_DEVICE int64_t abs(int64_t a) { return a < 0 ? -a : a; }
/// a^b by squaring; wraps. b >= 0; the powers of negative exponents round to 0, but for +-1.
WICK_HOST_DEVICE int64_t pow(int64_t a, int64_t b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
  uint64_t result = 1;
  for (uint64_t base = static_cast<uint64_t>(a); b > 0; b >>= 1, base *= base) {
    if ((b & 1) != 0) result *= base;
  }
  return static_cast<int64_t>(result);
}

}  // namespace wick::fn
