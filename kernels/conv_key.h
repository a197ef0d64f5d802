#pragma once

#include "wick/kernels/conv.h"
#include "wick/kernels/plan_key.h"

namespace wick {

inline PlanKey plan_key(Device device, const Conv2dProblem& problem) {
  const Conv2dParams& p = problem.params;
  PlanKey key(PlanKind::kConvolution, device, problem.dtype);
  key.add({static_cast<int64_t>(problem.direction), p.stride[0], p.stride[1], p.padding[0],
           p.padding[1], p.dilation[0], p.dilation[1], p.groups});
  for (const Shape* shape : {&problem.x, &problem.weight, &problem.y}) key.add(*shape);
  return key;
}

}  // namespace wick
