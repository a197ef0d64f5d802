#pragma once

#include "wick/kernels/matmul.h"

namespace wick {

/// The kernel `matmul`, on a GPU by the engine that the plans say (wick/core/plans.h).
void planned_matmul(const View& a, const View& b, const MatMulEpilogue& epilogue, const View& y);

}  // namespace wick
