#pragma once

#include <vector>

#include "wick/core/tensor.h"

namespace wick::study {

/// AdamW as it is written down: some ten tensor operations for each parameter. What the fused step
/// of optim::AdamW is compared with.
class PlainAdamW {
 public:
  PlainAdamW(std::vector<Tensor> params, double lr, double weight_decay);
  void step();

 private:
  std::vector<Tensor> params_, first_, second_;
  double lr_, weight_decay_;
  int64_t steps_ = 0;
};

}  // namespace wick::study
