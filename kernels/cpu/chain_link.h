#pragma once

#include "wick/kernels/cpu/simd_math.h"

// Steps of a chain that hand their results on in registers. Each is a function that is given a
// block of vectors and ends by calling the next one with what it has made of them, which compilers
// turn into a jump. So a block goes through the whole chain without a store between two steps.
namespace wick::WICK_ISA {

inline constexpr int kLinkVectors = 8;
inline constexpr int64_t kLinkBlock = kLinkVectors * VecF::size;  // elements

struct ChainLink;

/// `position`: the first element of a tile, in views. `at`: the first of a block, in the tile.
using LinkFunction = void (*)(const ChainLink* link, int64_t position, int64_t at, VecF, VecF, VecF,
                              VecF, VecF, VecF, VecF, VecF);

/// Where a link finds or puts elements: in a view, or in a buffer that has one tile.
struct LinkMemory {
  void* data;
  bool is_view;

  template <class S>
  WICK_INLINE S* block(int64_t position, int64_t at) const {
    return static_cast<S*>(data) + (is_view ? position : 0) + at;
  }
};

struct ChainLink {
  LinkFunction function;
  LinkMemory memory[2];  // of a functor: its inputs but for the one in registers, in order
  const void* functor;   // and what follows: of a functor alone
  int arity;
  int passed;  // which input is in registers
  void (*loop)(const void* f, void* y, const void* const* x, int64_t n);
};

/// What a link does to the block `x` in registers.
using LinkBody = void (*)(const ChainLink& link, int64_t position, int64_t at, VecF* x);

/// The link of a body, which is inlined.
template <LinkBody kBody>
void link_function(const ChainLink* link, int64_t position, int64_t at, VecF a, VecF b, VecF c,
                   VecF d, VecF e, VecF f, VecF g, VecF h) {
  VecF x[] = {a, b, c, d, e, f, g, h};
  kBody(*link, position, at, x);
  link[1].function(link + 1, position, at, x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]);
}

/// f(x[0], ...).
template <class F, class V>
WICK_INLINE V call_functor(const F& f, const V* x) {
  if constexpr (F::arity == 1) {
    return f(x[0]);
  } else if constexpr (F::arity == 2) {
    return f(x[0], x[1]);
  } else {
    return f(x[0], x[1], x[2]);
  }
}

/// Computes by `F`, of which input `kPassed` is in registers.
template <class F, int kPassed>
WICK_INLINE void compute_link(const ChainLink& link, int64_t position, int64_t at, VecF* x) {
  const F functor = *static_cast<const F*>(link.functor);
  const float* others[F::arity] = {};
  for (int k = 0; k < F::arity; ++k) {
    if (k == kPassed) continue;
    others[k] = link.memory[k < kPassed ? k : k - 1].template block<const float>(position, at);
  }
#pragma GCC unroll 8
  for (int i = 0; i < kLinkVectors; ++i) {
    VecF inputs[F::arity];
    for (int k = 0; k < F::arity; ++k) {
      inputs[k] = k == kPassed ? x[i] : VecF::load(others[k] + i * VecF::size);
    }
    x[i] = call_functor(functor, inputs);
  }
}

/// The links of a functor of up to three inputs, by the input that is in registers.
struct FunctorLinks {
  LinkFunction by_passed[3];
};
template <class F>
constexpr FunctorLinks functor_links() {
  FunctorLinks links{{&link_function<compute_link<F, 0>>, nullptr, nullptr}};
  if constexpr (F::arity > 1) links.by_passed[1] = &link_function<compute_link<F, 1>>;
  if constexpr (F::arity > 2) links.by_passed[2] = &link_function<compute_link<F, 2>>;
  return links;
}
template <class F>
inline constexpr FunctorLinks kFunctorLinks = functor_links<F>();

/// Whether `F` has links of its own: it computes so little that a call of its loop costs more.
template <class F>
inline constexpr bool kIsLinked = false;

}  // namespace wick::WICK_ISA

/// Gives functor `F` links of its own. Goes before what instantiates its kernel.
#define WICK_LINK(F) \
  template <>        \
  inline constexpr bool kIsLinked<F> = true;
#define WICK_LINK_DIFFERENTIABLE(F) \
  WICK_LINK(F)                      \
  WICK_LINK(fn::Gradient<F>)
