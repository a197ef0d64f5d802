#include "wick/data/augment.h"

#include <algorithm>
#include <cmath>

#include "wick/core/base/check.h"
#include "wick/data/image_ops.h"

namespace wick::data {

namespace {

double uniform(PhiloxStream& random, double low, double high) {
  return low + (high - low) * static_cast<double>(random.uniform());
}

void check_chance(const char* op, double p) {
  WICK_CHECK(p >= 0 && p <= 1, op, ": wrong chance: got ", p, ", expected 0 to 1");
}

// Value `i` of `count` evenly spaced ones, in the steps that PyTorch's linspace takes.
double linspace(double low, double high, int count, int i) {
  const auto first = static_cast<float>(low), last = static_cast<float>(high);
  const float step = (last - first) / static_cast<float>(count - 1);
  const float value = i < count / 2 ? first + step * static_cast<float>(i)
                                    : last - step * static_cast<float>(count - 1 - i);
  return static_cast<double>(value);
}

}  // namespace

std::array<JitterRange, 4> jitter_ranges(const ColorJitterOptions& options) {
  std::array<JitterRange, 4> ranges{};
  const FactorRange given[] = {options.brightness, options.contrast, options.saturation,
                               options.hue};
  const char* const names[] = {"brightness", "contrast", "saturation", "hue"};
  for (size_t i = 0; i < ranges.size(); ++i) {
    const bool is_hue = i == 3;
    const double center = is_hue ? 0 : 1, least = is_hue ? -0.5 : 0, most = is_hue ? 0.5 : 1e6;
    double low = given[i].low, high = given[i].high;
    if (given[i].is_amount) {
      WICK_CHECK(high >= 0, "color jitter: wrong ", names[i], ": got ", high,
                 ", expected 0 or more");
      low = center - high;
      high = center + high;
      if (!is_hue) low = std::max(low, 0.0);
    }
    WICK_CHECK(low >= least && low <= high && high <= most, "color jitter: wrong ", names[i],
               ": got ", low, " to ", high, ", expected a range within ", least, " to ", most);
    ranges[i] = {low, high, low != center || high != center};
  }
  return ranges;
}

std::array<size_t, 4> draw_order(PhiloxStream& random) {
  std::array<size_t, 4> order = {0, 1, 2, 3};
  for (size_t i = order.size() - 1; i > 0; --i) {
    std::swap(order[i], order[random.below(static_cast<uint32_t>(i + 1))]);
  }
  return order;
}

std::array<double, 4> draw_factors(const std::array<JitterRange, 4>& ranges, PhiloxStream& random) {
  std::array<double, 4> factors{};
  for (size_t i = 0; i < factors.size(); ++i) {
    if (ranges[i].changes) factors[i] = uniform(random, ranges[i].low, ranges[i].high);
  }
  return factors;
}

void ColorJitter::apply(Image& image, PhiloxStream& random) const {
  const std::array<size_t, 4> order = draw_order(random);
  const std::array<double, 4> factors = draw_factors(ranges_, random);
  constexpr void (*kAdjust[])(Image&, double) = {adjust_brightness, adjust_contrast,
                                                 adjust_saturation, adjust_hue};
  for (const size_t i : order) {
    if (ranges_[i].changes) kAdjust[i](image, factors[i]);
  }
}

RandomGrayscale::RandomGrayscale(double p) : p_(p) { check_chance("random grayscale", p); }

void RandomGrayscale::apply(Image& image, PhiloxStream& random) const {
  if (static_cast<double>(random.uniform()) < p_) to_grayscale(image);
}

void check_erasing(const RandomErasingOptions& options) {
  check_chance("random erasing", options.p);
  const auto [least, most] = options.scale;
  WICK_CHECK(least >= 0 && least <= most && most <= 1, "random erasing: wrong scale: got ", least,
             " to ", most, ", expected a range within 0 to 1");
  const auto [narrow, wide] = options.ratio;
  WICK_CHECK(narrow > 0 && narrow <= wide && std::isfinite(wide),
             "random erasing: wrong ratio: got ", narrow, " to ", wide,
             ", expected a range above 0");
  WICK_CHECK(!options.value.empty(), "random erasing: got no value, expected 1 or one per channel");
}

Rect draw_erasing(const RandomErasingOptions& options, ImageSize size, PhiloxStream& random) {
  if (static_cast<double>(random.uniform()) >= options.p) return {};
  const auto area = static_cast<double>(size.height * size.width);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double erased = area * uniform(random, options.scale.first, options.scale.second);
    const double ratio =
        std::exp(uniform(random, std::log(options.ratio.first), std::log(options.ratio.second)));
    const ImageSize part{std::llround(std::sqrt(erased * ratio)),
                         std::llround(std::sqrt(erased / ratio))};
    if (part.height >= size.height || part.width >= size.width) continue;
    const int64_t top = random.below(static_cast<uint32_t>(size.height - part.height + 1));
    const int64_t left = random.below(static_cast<uint32_t>(size.width - part.width + 1));
    return {top, left, part};
  }
  return {};
}

RandomErasing::RandomErasing(const RandomErasingOptions& options) : options_(options) {
  check_erasing(options);
}

void RandomErasing::apply(Image& image, PhiloxStream& random) const {
  const Rect part = draw_erasing(options_, {image.height, image.width}, random);
  if (!options_.random) return erase(image, part.top, part.left, part.size, options_.value);
  for (int64_t y = part.top; y < part.top + part.size.height; ++y) {
    uint8_t* row = image.pixels.data() + (y * image.width + part.left) * image.channels;
    uint32_t word = 0;
    for (int64_t i = 0; i < part.size.width * image.channels; ++i, word >>= 8) {
      if (i % 4 == 0) word = random.next();
      row[i] = static_cast<uint8_t>(word);
    }
  }
}

Cutout::Cutout(int64_t length, int64_t holes, uint8_t value)
    : length_(length), holes_(holes), value_(value) {
  WICK_CHECK(length > 0 && length <= 1 << 16, "cutout: wrong length: got ", length,
             ", expected 1 to 65536");
  WICK_CHECK(holes > 0 && holes <= 1 << 16, "cutout: wrong number of holes: got ", holes,
             ", expected 1 to 65536");
}

void Cutout::apply(Image& image, PhiloxStream& random) const {
  for (int64_t hole = 0; hole < holes_; ++hole) {
    const auto y = static_cast<int64_t>(random.below(static_cast<uint32_t>(image.height)));
    const auto x = static_cast<int64_t>(random.below(static_cast<uint32_t>(image.width)));
    const int64_t top = std::max<int64_t>(y - length_ / 2, 0);
    const int64_t left = std::max<int64_t>(x - length_ / 2, 0);
    const int64_t bottom = std::min(y - length_ / 2 + length_, image.height);
    const int64_t right = std::min(x - length_ / 2 + length_, image.width);
    erase(image, top, left, {bottom - top, right - left}, {value_});
  }
}

double augment_magnitude(AugmentOp op, int level, int levels, ImageSize size) {
  WICK_CHECK(levels >= 2 && level >= 0 && level < levels, "randaugment: wrong magnitude: got ",
             level, " of ", levels, ", expected 0 to ", levels - 1, " of 2 or more");
  constexpr double kMostShift = 150.0 / 331.0;  // of a side
  switch (op) {
    case AugmentOp::kShearX:
    case AugmentOp::kShearY: return linspace(0, 0.3, levels, level);
    case AugmentOp::kTranslateX:
      return linspace(0, kMostShift * static_cast<double>(size.width), levels, level);
    case AugmentOp::kTranslateY:
      return linspace(0, kMostShift * static_cast<double>(size.height), levels, level);
    case AugmentOp::kRotate: return linspace(0, 30, levels, level);
    case AugmentOp::kBrightness:
    case AugmentOp::kColor:
    case AugmentOp::kContrast:
    case AugmentOp::kSharpness: return linspace(0, 0.9, levels, level);
    case AugmentOp::kPosterize: return 8 - std::nearbyint(level / ((levels - 1) / 4.0));
    case AugmentOp::kSolarize: return linspace(255, 0, levels, level);
    default: return 0;
  }
}

bool augment_is_signed(AugmentOp op) {
  return op >= AugmentOp::kShearX && op <= AugmentOp::kSharpness;
}

void apply_augment_op(Image& image, AugmentOp op, double magnitude,
                      const RandAugmentOptions& options) {
  const auto move = [&](const AffineMap& map) {
    affine(image, map, options.sampling, options.fill);
  };
  switch (op) {
    case AugmentOp::kIdentity: return;
    case AugmentOp::kShearX: return move({.x_y = magnitude});
    case AugmentOp::kShearY: return move({.y_x = magnitude});
    case AugmentOp::kTranslateX: return move({.x_0 = -std::trunc(magnitude)});
    case AugmentOp::kTranslateY: return move({.y_0 = -std::trunc(magnitude)});
    case AugmentOp::kRotate: return rotate(image, magnitude, options.sampling, options.fill);
    case AugmentOp::kBrightness: return adjust_brightness(image, 1 + magnitude);
    case AugmentOp::kColor: return adjust_saturation(image, 1 + magnitude);
    case AugmentOp::kContrast: return adjust_contrast(image, 1 + magnitude);
    case AugmentOp::kSharpness: return adjust_sharpness(image, 1 + magnitude);
    case AugmentOp::kPosterize: return posterize(image, static_cast<int>(magnitude));
    case AugmentOp::kSolarize: return solarize(image, magnitude);
    case AugmentOp::kAutoContrast: return autocontrast(image);
    case AugmentOp::kEqualize: return equalize(image);
  }
}

RandAugment::RandAugment(const RandAugmentOptions& options) : options_(options) {
  WICK_CHECK(options.num_ops >= 0 && options.num_ops <= 1000, "randaugment: wrong num_ops: got ",
             options.num_ops, ", expected 0 to 1000");
  augment_magnitude(AugmentOp::kIdentity, options.magnitude, options.num_magnitude_bins, {});
}

void RandAugment::apply(Image& image, PhiloxStream& random) const {
  for (int i = 0; i < options_.num_ops; ++i) {
    const auto op = static_cast<AugmentOp>(random.below(kAugmentOps));
    double magnitude = augment_magnitude(op, options_.magnitude, options_.num_magnitude_bins,
                                         {image.height, image.width});
    if (augment_is_signed(op) && random.below(2) == 1) magnitude = -magnitude;
    apply_augment_op(image, op, magnitude, options_);
  }
}

}  // namespace wick::data
