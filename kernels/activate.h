#pragma once

#include "wick/core/base/activation.h"
#include "wick/kernels/elementwise.h"
#include "wick/kernels/elementwise_ops_activation.h"

namespace wick {

/// y = activation(x), for views of one dtype and shape on any device; nothing if it is kNone. For
/// products whose library does not do it.
inline void activate(Activation activation, const View& x, const View& y) {
  switch (activation) {
    case Activation::kNone: return;
    case Activation::kRelu:
      WICK_DISPATCH(y.device, elementwise(fn::Relu{}, y.dtype, y, &x));
      return;
    case Activation::kGeluTanh:
      WICK_DISPATCH(y.device, elementwise(fn::GeluTanh{}, y.dtype, y, &x));
      return;
  }
}

}  // namespace wick
