#include "wick/tools/wick/memory_hint.h"

#include <fmt/format.h>

#include <algorithm>

#include "wick/core/core.h"
#include "wick/nn/activation_plan.h"
#include "wick/tools/wick/progress.h"
#include "wick/tools/wick/setup.h"

namespace wick::tool {

namespace {

// Bytes that a pass holds at its peak: some beyond each image's.
struct PassMemory {
  double fixed = 0;
  double per_image = 0;
};

int64_t peak_of_pass(const TrainConfig& config, nn::Module& model, const Shape& image,
                     Device device, int64_t images) {
  const Tensor noise = randn({images, image[0], image[1], image[2]}, kFloat32, device);
  const Tensor target = zeros({images}, kInt64, device);
  reset_peak_memory_stats(device);
  const int64_t before = memory_allocated(device);
  {
    const amp::Autocast autocast = make_autocast(config, device);
    cross_entropy(model(noise), target).backward();
  }
  const int64_t peak = max_memory_allocated(device) - before;
  model.zero_grad();
  return peak;
}

PassMemory measure_pass(const TrainConfig& config, nn::Module& model, const Shape& image,
                        Device device) {
  const auto few = static_cast<double>(peak_of_pass(config, model, image, device, 2));
  const auto more = static_cast<double>(peak_of_pass(config, model, image, device, 6));
  const double per_image = std::max((more - few) / 4, 1.0);
  return {std::max(few - 2 * per_image, 0.0), per_image};
}

// The most images, at most `images`, whose pass was seen to hold no more than `free`; 0 if none. A
// convolution may take another way, with more memory for itself, for many images than for few.
int64_t images_that_fit(const TrainConfig& config, nn::Module& model, const Shape& image,
                        Device device, double free, int64_t images) {
  while (images >= 1) {
    double share = 0.75;
    try {
      const auto peak = static_cast<double>(peak_of_pass(config, model, image, device, images));
      if (peak <= free) break;
      share = free / peak;
    } catch (const OutOfMemory&) {
      model.zero_grad();
    }
    empty_cache(device);
    images = std::min(images - 1, static_cast<int64_t>(static_cast<double>(images) * share));
  }
  return std::max<int64_t>(images, 0);
}

}  // namespace

std::string memory_hint(const TrainConfig& config, nn::Module& model, const Shape& image,
                        Device device) {
  constexpr double kUsable = 0.9;  // the rest is lost between blocks
  try {
    model.zero_grad();
    empty_cache(device);
    const auto limit = static_cast<double>(allocator(device).memory_limit());
    const double free = kUsable * limit - static_cast<double>(memory_allocated(device));
    const PassMemory plain = measure_pass(config, model, image, device);
    const int64_t images = (*config.batch_size + config.accumulate - 1) / config.accumulate;
    const auto guess = static_cast<int64_t>((free - plain.fixed) / plain.per_image);
    const int64_t fit =
        images_that_fit(config, model, image, device, free, std::min(guess, images - 1));
    std::string hint;
    if (fit < 1) {
      hint = "; not even one image would fit";
    } else if (fit < images - 1 || guess < images) {
      hint = fmt::format(
          "; about {} images would fit at a time: --batch-size {}, or --accumulate {} for the same "
          "batch in pieces",
          fit, fit, (*config.batch_size + fit - 1) / fit);
    }
    if (config.checkpoint_activations != "off") return hint;
    nn::checkpoint_every_child(model);
    const PassMemory again = measure_pass(config, model, image, device);
    const double saved = (plain.per_image - again.per_image) * static_cast<double>(images);
    if (saved > 0) {
      hint += fmt::format("; --checkpoint-activations on would need {} less",
                          bytes_text(static_cast<int64_t>(saved)));
    }
    return hint;
  } catch (const Error&) {
    return "";  // the error that is being explained says enough
  }
}

}  // namespace wick::tool
