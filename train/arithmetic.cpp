#include "wick/train/arithmetic.h"

#include "wick/core/base/deterministic.h"
#include "wick/core/base/tf32.h"
#include "wick/core/plans.h"

namespace wick::train {

OptionFields fields(ArithmeticOptions& options) {
  return {
      OptionField("amp", &options.amp, "mixed precision")
          .basic()
          .one_of({"off", "bf16", "fp16"})
          .lasting(),
      OptionField("benchmark", &options.benchmark,
                  "measure which algorithms are fastest for convolutions, on a GPU also for matrix "
                  "products and attention"),
      OptionField("deterministic", &options.deterministic,
                  "take only engines of cuDNN that give the same bits in every run"),
      OptionField("tf32", &options.tf32,
                  "let a GPU round the factors of float32 products and convolutions to TF32, which "
                  "has 10 bits"),
  };
}

std::optional<Dtype> autocast_dtype(const ArithmeticOptions& options) {
  if (options.amp == "off") return {};
  return options.amp == "fp16" ? kFloat16 : kBFloat16;
}

void set_arithmetic(const ArithmeticOptions& options) {
  set_benchmark(options.benchmark);
  set_deterministic(options.deterministic);
  set_allow_tf32(options.tf32);
}

}  // namespace wick::train
