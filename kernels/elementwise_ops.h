#pragma once

#include <cstdint>

#include "wick/core/base/macros.h"
#include "wick/core/base/wraps.h"

// The elementwise functions, each written once as a functor on a number type V. V is a vector of
// floats or doubles (CPU), a float or double (GPU), an Integer where `on_integers`, and, for
// gradients, a Tensor. With `create_graph` a gradient is computed by the same expression out of
// ops, and so has derivatives of every order. Functions named below (exp, select, max, ...) are
// found with the argument's type. A functor has
//   name, arity, on_floats, on_integers
//   operator()(x...)       the value
//   gradient(dy, saved)    for unary ones with a gradient: dy times the derivative
//   keep                   whether `saved` is the input, the output, or neither (then it is dy)
// They live in elementwise_ops_*.h, by group.
namespace wick::fn {

/// What the gradient of a unary function is computed from, beside dy.
enum class Keep : uint8_t { kNothing, kInput, kOutput };

/// An int64 whose sums and products wrap, as those of vectors do, and whose functions have the same
/// names as theirs.
struct Integer {
  int64_t value = 0;

  Integer() = default;
  WICK_HOST_DEVICE Integer(int64_t v) : value(v) {}
  WICK_HOST_DEVICE static Integer wrap(uint64_t bits) { return static_cast<int64_t>(bits); }
  WICK_HOST_DEVICE uint64_t bits() const { return static_cast<uint64_t>(value); }

  friend WICK_WRAPS WICK_HOST_DEVICE Integer operator+(Integer a, Integer b) {
    return wrap(a.bits() + b.bits());
  }
  friend WICK_WRAPS WICK_HOST_DEVICE Integer operator-(Integer a, Integer b) {
    return wrap(a.bits() - b.bits());
  }
  friend WICK_WRAPS WICK_HOST_DEVICE Integer operator*(Integer a, Integer b) {
    return wrap(a.bits() * b.bits());
  }
  friend WICK_WRAPS WICK_HOST_DEVICE Integer operator-(Integer a) { return wrap(-a.bits()); }
  friend WICK_HOST_DEVICE Integer operator&(Integer a, Integer b) { return a.value & b.value; }
  friend WICK_HOST_DEVICE Integer operator|(Integer a, Integer b) { return a.value | b.value; }
  friend WICK_HOST_DEVICE Integer operator^(Integer a, Integer b) { return a.value ^ b.value; }
  friend WICK_HOST_DEVICE bool operator==(Integer a, Integer b) { return a.value == b.value; }
  friend WICK_HOST_DEVICE bool operator!=(Integer a, Integer b) { return a.value != b.value; }
  friend WICK_HOST_DEVICE bool operator<(Integer a, Integer b) { return a.value < b.value; }
  friend WICK_HOST_DEVICE bool operator<=(Integer a, Integer b) { return a.value <= b.value; }
  friend WICK_HOST_DEVICE bool operator>(Integer a, Integer b) { return a.value > b.value; }
  friend WICK_HOST_DEVICE bool operator>=(Integer a, Integer b) { return a.value >= b.value; }
};

WICK_HOST_DEVICE Integer select(bool condition, Integer a, Integer b) { return condition ? a : b; }
WICK_HOST_DEVICE Integer max(Integer a, Integer b) { return a > b ? a : b; }
WICK_HOST_DEVICE Integer min(Integer a, Integer b) { return a < b ? a : b; }
WICK_HOST_DEVICE Integer abs(Integer a) { return a < 0 ? -a : a; }
/// a^b by squaring. Powers of negative exponents round to 0, but for those of 1 and -1.
WICK_HOST_DEVICE Integer pow(Integer a, Integer b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? ((b & 1) == 0 ? 1 : -1) : 0;
  Integer result = 1;
  for (int64_t left = b.value; left > 0; left >>= 1) {
    if ((left & 1) != 0) result = result * a;
    a = a * a;
  }
  return result;
}

/// A constant, as the user wrote it, for floating and for integer computation.
struct Number {
  double real = 0;
  int64_t integer = 0;

  template <class V>
  WICK_HOST_DEVICE V as() const {
    if constexpr (__is_same(V, Integer)) {
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

/// dy times the derivative by input `kInput` of an `F` that is differentiated input by input
/// (core/functor.h), as a functor of its own: (dy, x...).
template <class F, int kInput>
struct PartialGradient : F {
  static constexpr int arity = F::arity + 1;
  template <class... V>
  WICK_HOST_DEVICE auto operator()(V... dy_and_inputs) const {
    return F::template gradient<kInput>(dy_and_inputs...);
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

}  // namespace wick::fn

/// The functors of functions of one argument that have a name in <cmath>.
#define WICK_FUNCTOR(Type, function, kept, derivative_times_dy)     \
  struct Type : OnFloats<1> {                                       \
    static constexpr char name[] = #function;                       \
    static constexpr Keep keep = Keep::kept;                        \
    template <class V>                                              \
    WICK_HOST_DEVICE V operator()(V x) const {                      \
      return function(x);                                           \
    }                                                               \
    template <class V>                                              \
    WICK_HOST_DEVICE V gradient(V dy, [[maybe_unused]] V s) const { \
      return derivative_times_dy;                                   \
    }                                                               \
  }
