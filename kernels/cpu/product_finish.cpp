#include "wick/kernels/cpu/product_finish.h"

#include "wick/kernels/cpu/rows.h"
#include "wick/kernels/cpu/simd_math.h"
#include "wick/kernels/elementwise_ops_activation.h"

namespace wick::WICK_ISA {

using namespace cpu;

namespace {

struct Same {
  template <class V>
  WICK_INLINE V operator()(V x) const {
    return x;
  }
};

// Each step's results are rounded to S, as those of separate ops.
template <class T, class S, class F>
WICK_INLINE void finish_rows(const F& f, const Product& p, int64_t at, int64_t rows,
                             int64_t columns) {
  const Finish& finish = p.finish;
  for (int64_t r = 0; r < rows; ++r, at += p.c_row) {
    S* const c = static_cast<S*>(p.c) + at;
    if (finish.scale != 1) {
      const Vec<T> scale(static_cast<T>(finish.scale));
      for_vectors<T>(columns, [&](int64_t i, int64_t left) {
        store_up_to(load_up_to<T>(c + i, left) * scale, c + i, left);
      });
    }
    if (finish.residual != nullptr) {
      const S* const residual = static_cast<const S*>(finish.residual) + at;
      for_vectors<T>(columns, [&](int64_t i, int64_t left) {
        store_up_to(load_up_to<T>(c + i, left) + load_up_to<T>(residual + i, left), c + i, left);
      });
    }
    if (finish.activation == Activation::kNone) continue;
    S* const y = static_cast<S*>(finish.activated) + at;
    for_vectors<T>(columns, [&](int64_t i, int64_t left) {
      store_up_to(f(load_up_to<T>(c + i, left)), y + i, left);
    });
  }
}

template <class T, class S>
WICK_INLINE void finish_rows(const Product& p, int64_t at, int64_t rows, int64_t columns) {
  switch (p.finish.activation) {
    case Activation::kNone: return finish_rows<T, S>(Same{}, p, at, rows, columns);
    case Activation::kRelu: return finish_rows<T, S>(fn::Relu{}, p, at, rows, columns);
    case Activation::kGeluTanh: return finish_rows<T, S>(fn::GeluTanh{}, p, at, rows, columns);
  }
}

}  // namespace

void finish_block(const Product& p, int64_t at, int64_t rows, int64_t columns) {
  const Finish& finish = p.finish;
  const bool is_plain = finish.residual == nullptr && finish.activation == Activation::kNone;
  if (is_plain && finish.scale == 1) return;
  switch (p.out) {
    case Dtype::kFloat64: return finish_rows<double, double>(p, at, rows, columns);
    case Dtype::kBFloat16: return finish_rows<float, BFloat16>(p, at, rows, columns);
    default: return finish_rows<float, float>(p, at, rows, columns);
  }
}

}  // namespace wick::WICK_ISA
