#pragma once

#include <concepts>

#include "wick/core/tensor.h"

// linspace and logspace of core/create.h between bounds of which one or both are tensors.

namespace wick {

namespace detail {
inline double bound(const char* op, const Tensor& x) {
  WICK_CHECK(x.rank(op) == 0, op, ": a bound needs rank 0: got shape ", x.shape());
  return x.item();
}
inline double bound(const char*, double x) { return x; }

template <class Start, class Stop>
concept TensorAmong = std::derived_from<Start, Tensor> || std::derived_from<Stop, Tensor>;
}  // namespace detail

/// `steps` numbers from `start` to `stop`, evenly apart. A bound that is a tensor has rank 0; the
/// host waits for its device. No gradient flows to it.
template <class Start, class Stop>
requires detail::TensorAmong<Start, Stop> Tensor linspace(const Start& start, const Stop& stop,
                                                          int64_t steps, Dtype dtype = kFloat32,
                                                          Device device = kCpu) {
  return linspace(detail::bound("linspace", start), detail::bound("linspace", stop), steps, dtype,
                  device);
}

/// The powers of `base` with the exponents linspace(start, stop, steps).
template <class Start, class Stop>
requires detail::TensorAmong<Start, Stop> Tensor logspace(const Start& start, const Stop& stop,
                                                          int64_t steps, double base = 10,
                                                          Dtype dtype = kFloat32,
                                                          Device device = kCpu) {
  return logspace(detail::bound("logspace", start), detail::bound("logspace", stop), steps, base,
                  dtype, device);
}

}  // namespace wick
