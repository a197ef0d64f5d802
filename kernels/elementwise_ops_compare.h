#pragma once

#include "wick/kernels/elementwise_ops.h"

// Truth values are the numbers 0 and 1 here; results are stored as bool.
namespace wick::fn {

// Of two conditions, which for vectors are masks.
WICK_HOST_DEVICE bool both(bool a, bool b) { return a && b; }
WICK_HOST_DEVICE bool either(bool a, bool b) { return a || b; }
template <class Mask>
WICK_HOST_DEVICE Mask both(Mask a, Mask b) {
  return a & b;
}
template <class Mask>
WICK_HOST_DEVICE Mask either(Mask a, Mask b) {
  return a | b;
}

#define WICK_COMPARISON(Type, label, condition)     \
  struct Type : OnNumbers<2> {                      \
    static constexpr char name[] = label;           \
    template <class V>                              \
    WICK_HOST_DEVICE V operator()(V x, V y) const { \
      return select(condition, V(1), V(0));         \
    }                                               \
  }
WICK_COMPARISON(Eq, "eq", x == y);
WICK_COMPARISON(Ne, "ne", x != y);
WICK_COMPARISON(Lt, "lt", x < y);
WICK_COMPARISON(Le, "le", x <= y);
WICK_COMPARISON(Gt, "gt", x > y);
WICK_COMPARISON(Ge, "ge", x >= y);
WICK_COMPARISON(LogicalAnd, "logical_and", both(x != V(0), y != V(0)));
WICK_COMPARISON(LogicalOr, "logical_or", either(x != V(0), y != V(0)));
WICK_COMPARISON(LogicalXor, "logical_xor",
                select(x != V(0), V(1), V(0)) != select(y != V(0), V(1), V(0)));
#undef WICK_COMPARISON

#define WICK_PREDICATE(Type, label, condition) \
  struct Type : OnNumbers<1> {                 \
    static constexpr char name[] = label;      \
    template <class V>                         \
    WICK_HOST_DEVICE V operator()(V x) const { \
      return select(condition, V(1), V(0));    \
    }                                          \
  }
WICK_PREDICATE(LogicalNot, "logical_not", x == V(0));
WICK_PREDICATE(IsNan, "isnan", x != x);
WICK_PREDICATE(IsFinite, "isfinite", x - x == V(0));
WICK_PREDICATE(IsInf, "isinf", both(x == x, x - x != V(0)));
#undef WICK_PREDICATE

#define WICK_BITWISE(Type, label, operation)                                                  \
  struct Type : OnIntegers<2> {                                                               \
    static constexpr char name[] = label;                                                     \
    WICK_HOST_DEVICE Integer operator()(Integer x, Integer y) const { return x operation y; } \
  }
WICK_BITWISE(BitwiseAnd, "bitwise_and", &);
WICK_BITWISE(BitwiseOr, "bitwise_or", |);
WICK_BITWISE(BitwiseXor, "bitwise_xor", ^);
#undef WICK_BITWISE

/// condition ? x : y
struct Where : OnNumbers<3> {
  static constexpr char name[] = "where";
  template <class V>
  WICK_HOST_DEVICE V operator()(V condition, V x, V y) const {
    return select(condition != V(0), x, y);
  }
};

/// mask ? value : x, given (x, mask).
struct MaskedFill : OnNumbers<2> {
  static constexpr char name[] = "masked_fill";
  Number value;
  template <class V>
  WICK_HOST_DEVICE V operator()(V x, V mask) const {
    return select(mask != V(0), value.as<V>(), x);
  }
};

}  // namespace wick::fn

/// Those without: gradients that are ops of their own, or none.
#define WICK_COMPARE_PLAIN(use)                                                                    \
  use(fn::Eq) use(fn::Ne) use(fn::Lt) use(fn::Le) use(fn::Gt) use(fn::Ge) use(fn::LogicalAnd)      \
      use(fn::LogicalOr) use(fn::LogicalXor) use(fn::LogicalNot) use(fn::IsNan) use(fn::IsFinite)  \
          use(fn::IsInf) use(fn::BitwiseAnd) use(fn::BitwiseOr) use(fn::BitwiseXor) use(fn::Where) \
              use(fn::MaskedFill) use(fn::WithConstant<fn::Eq>) use(fn::WithConstant<fn::Ne>)      \
                  use(fn::WithConstant<fn::Lt>) use(fn::WithConstant<fn::Le>)                      \
                      use(fn::WithConstant<fn::Gt>) use(fn::WithConstant<fn::Ge>)
