#pragma once

#include "wick/kernels/cuda/common/numbers_batch.h"
#include "wick/optim/optimizer.h"

// How many launches a step of an optimizer on a simulated GPU takes: as many as the parameters of
// kernels can name tensors.
namespace wick::testing {

template <template <int> class Batch>
constexpr int64_t launches_for(int64_t tensors) {
  constexpr int64_t kMost = Batch<cuda::kLargeBatch>::kMost;
  return (tensors + kMost - 1) / kMost;
}

/// Launches of one kernel for the records of `tensors`.
constexpr int64_t launches_for_records(int64_t tensors) {
  return launches_for<cuda::NumbersBatch>(tensors);
}

/// Launches of one kernel for the elements of `tensors` float32 tensors, none of them empty, each
/// with `states` others: beside parameter, gradient and record.
inline int64_t launches_for_elements(int64_t tensors, int states) {
  switch (states) {
    case 0: return launches_for<cuda::TensorBatches<3>::Batch>(tensors);
    case 1: return launches_for<cuda::TensorBatches<4>::Batch>(tensors);
    case 2: return launches_for<cuda::TensorBatches<5>::Batch>(tensors);
    case 3: return launches_for<cuda::TensorBatches<6>::Batch>(tensors);
    default: wick::detail::fail("launches_for_elements: states: got ", states);
  }
}

/// How many states of its shape the optimizer that `make` makes keeps for a parameter.
template <class Make>
int states_of(const Make& make) {
  const Tensor param = zeros({3}).set_requires_grad();
  param.set_grad(zeros({3}));
  const auto optimizer = make({param});
  optimizer->step();
  int count = 0;
  for (const auto& [name, value] : optimizer->state_dict()) {
    count += name.starts_with("state.") && value.shape() == param.shape();
  }
  return count;
}

}  // namespace wick::testing
