#include "wick/data/batch_mix.h"

#include <algorithm>
#include <cmath>

#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/index.h"
#include "wick/core/ops/join.h"
#include "wick/kernels/random_math.h"

namespace wick::data {

namespace {

// Keeps the streams of batches apart from those of samples and of models with the same seed.
constexpr uint64_t kSeedOfMixes = 0x6d6978;  // "mix"

void check_alpha(const char* name, double alpha) {
  WICK_CHECK(alpha == 0 || (alpha >= 1e-4 && alpha <= 1e3), name, ": wrong alpha: got ", alpha,
             ", expected 0 or 0.0001 to 1000");
}

// The logarithm of a number of the gamma distribution.
// Marsaglia, Tsang: A simple method for generating gamma variables (2000).
double draw_log_gamma(PhiloxStream& random, double alpha) {
  const auto uniform = [&] { return 1 - static_cast<double>(random.uniform()); };  // never 0
  if (alpha < 1) return draw_log_gamma(random, alpha + 1) + std::log(uniform()) / alpha;
  const double d = alpha - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const uint32_t word = random.next();
    const auto x = static_cast<double>(box_muller(word, random.next()).first);
    const double v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(uniform()) < x * x / 2 + d - d * v + d * std::log(v)) {
      return std::log(d * v);
    }
  }
}

}  // namespace

double draw_beta(PhiloxStream& random, double alpha) {
  const double own = draw_log_gamma(random, alpha), other = draw_log_gamma(random, alpha);
  return 1 / (1 + std::exp(other - own));
}

BatchMix::BatchMix(int64_t num_classes, const BatchMixOptions& options)
    : num_classes_(num_classes), options_(options) {
  WICK_CHECK(num_classes > 0, "batch mix: wrong number of classes: got ", num_classes,
             ", expected 1 or more");
  check_alpha("mixup", options.mixup);
  check_alpha("cutmix", options.cutmix);
}

BatchMixDraw BatchMix::draw(int64_t epoch, int64_t batch, ImageSize size) const {
  BatchMixDraw draw;
  if (!enabled()) return draw;
  PhiloxStream random(options_.seed ^ kSeedOfMixes, static_cast<uint64_t>(batch),
                      static_cast<uint64_t>(epoch) << 32);
  const bool half = random.below(2) == 1;
  draw.cut = options_.mixup == 0 || (options_.cutmix > 0 && half);
  draw.share = draw_beta(random, draw.cut ? options_.cutmix : options_.mixup);
  if (!draw.cut) return draw;
  const auto height = static_cast<double>(size.height), width = static_cast<double>(size.width);
  const double radius = 0.5 * std::sqrt(1 - draw.share);
  const auto half_height = static_cast<int64_t>(radius * height);
  const auto half_width = static_cast<int64_t>(radius * width);
  const int64_t x = random.below(static_cast<uint32_t>(size.width));
  const int64_t y = random.below(static_cast<uint32_t>(size.height));
  draw.top = std::max<int64_t>(y - half_height, 0);
  draw.left = std::max<int64_t>(x - half_width, 0);
  draw.size = {std::min(y + half_height, size.height) - draw.top,
               std::min(x + half_width, size.width) - draw.left};
  draw.share = 1 - static_cast<double>(draw.size.height * draw.size.width) / (height * width);
  return draw;
}

BatchMix::Mixed BatchMix::mix(const Tensor& images, const Tensor& labels, int64_t epoch,
                              int64_t batch) const {
  WICK_CHECK(
      images.rank() == 4 && is_floating(images.dtype()) && images.size(2) > 0 && images.size(3) > 0,
      "batch mix: wrong images: got shape ", images.shape(), " of ", to_string(images.dtype()),
      ", expected [N, C, H, W], floating");
  WICK_CHECK(labels.shape() == Shape{images.size(0)} && labels.dtype() == kInt64,
             "batch mix: wrong labels: got shape ", labels.shape(), " of ",
             to_string(labels.dtype()), ", expected int64 [", images.size(0), "]");
  const BatchMixDraw drawn = draw(epoch, batch, {images.size(2), images.size(3)});
  const Tensor own = one_hot(labels, num_classes_).to(kFloat32);
  if (drawn.share >= 1) return {images, own};
  const double other = 1 - drawn.share;
  const Tensor targets = own * drawn.share + roll(own, 1, 0) * other;
  if (!drawn.cut) return {images * drawn.share + roll(images, 1, 0) * other, targets};
  const auto rectangle = [&](const Tensor& x) {
    return x.narrow(2, drawn.top, drawn.size.height).narrow(3, drawn.left, drawn.size.width);
  };
  Tensor mixed = images.clone();
  rectangle(mixed).copy_(roll(rectangle(images), 1, 0));
  return {mixed, targets};
}

OptionFields fields(BatchMixOptions& options) {
  return {
      OptionField("mixup", &options.mixup,
                  "mix training images and labels with shares of Beta(A, A), such as 0.2 (0: off)")
          .between(1e-4, 1e3)
          .or_zero()
          .lasting(),
      OptionField("cutmix", &options.cutmix,
                  "paste rectangles of other training images, of shares of Beta(A, A), such as 1 "
                  "(0: off)")
          .between(1e-4, 1e3)
          .or_zero()
          .lasting(),
  };
}

}  // namespace wick::data
