#include "wick/tools/wick/memory_hint.h"

#include <fmt/format.h>

#include "wick/core/core.h"
#include "wick/nn/memory_advice.h"
#include "wick/tools/wick/classification.h"
#include "wick/tools/wick/progress.h"

namespace wick::tool {

std::string memory_hint(const TrainConfig& config, nn::Module& model, const data::Field& sample,
                        Device device) {
  const int64_t images = largest_piece(config);
  const auto pass = [&](int64_t count) { pass_noise(config, model, sample, device, count); };
  std::optional<nn::MemoryAdvice> advice;
  try {
    advice = nn::advise_on_memory(model, device, images, pass);
  } catch (const Error&) {  // the error that is being explained says enough
  }
  if (!advice) return "";
  std::string hint;
  const int64_t fit = advice->samples;
  if (fit < 1) {
    hint = "; not even one image would fit";
  } else if (fit < images) {
    hint = fmt::format(
        "; about {} images would fit at a time: --batch-size {}, or --accumulate {} for the same "
        "batch in pieces",
        fit, fit, (*config.batch_size + fit - 1) / fit);
  }
  if (advice->saved_by_recomputation > 0) {
    hint += fmt::format("; --checkpoint-activations on would need {} less",
                        bytes_text(advice->saved_by_recomputation));
  }
  return hint;
}

}  // namespace wick::tool
