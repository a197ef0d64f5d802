#pragma once

#include <optional>
#include <string>

#include "wick/core/base/dtype.h"
#include "wick/core/options.h"

namespace wick::train {

/// How exactly, and by which algorithms, a run computes.
struct ArithmeticOptions {
  std::string amp = "off";     // mixed precision: off, bf16 or fp16
  bool benchmark = false;      // algorithms are measured (core/conv_plan.h)
  bool deterministic = false;  // core/base/deterministic.h
  bool tf32 = false;           // core/base/tf32.h
};
OptionFields fields(ArithmeticOptions& options);

/// The dtype that `amp` asks for; none for off.
std::optional<Dtype> autocast_dtype(const ArithmeticOptions& options);

/// Does what the options ask for, but for `amp`, for the whole process.
void set_arithmetic(const ArithmeticOptions& options);

}  // namespace wick::train
