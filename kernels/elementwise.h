#pragma once

#include "wick/kernels/declare.h"

// y[i] = f(x[0][i], ..., x[F::arity - 1][i]) for a functor F of elementwise_ops.h. The inputs'
// shapes broadcast to y's, dtypes are any. Elements are converted to the type that `compute` is
// computed in: double for float64, float for the other floating dtypes, int64 for integers and
// bool. The result is converted to y's, rounded once. y may be one of the inputs. Each device
// instantiates the functors from one list per group.
#define WICK_ELEMENTWISE(device)                                             \
  namespace device {                                                         \
  template <class F>                                                         \
  void elementwise(const F& f, Dtype compute, const View& y, const View* x); \
  }

namespace wick {
WICK_ELEMENTWISE(cpu_avx2)
WICK_ELEMENTWISE(cpu_avx512)
WICK_ELEMENTWISE(cuda)
}  // namespace wick

#undef WICK_ELEMENTWISE
