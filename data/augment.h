#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "wick/data/transforms.h"

// Random changes of images of 1 or 3 channels, in place. The results on the same parameters are
// torchvision's on uint8 tensors, within 1 of 255.
namespace wick::data {

/// A range that a factor is drawn from evenly; or what torchvision takes for one, a number x: from
/// max(0, center - x) to center + x, where the center is 1, of hue 0.
struct FactorRange {
  FactorRange(double amount) : FactorRange(amount, amount) { is_amount = true; }
  FactorRange(double low_in, double high_in) : low(low_in), high(high_in) {}
  double low, high;
  bool is_amount = false;
};

/// Ranges of the factors of ColorJitter, as torchvision.transforms.ColorJitter takes them. By
/// default none changes anything.
struct ColorJitterOptions {
  FactorRange brightness = 0, contrast = 0, saturation = 0;  // 0 or more
  FactorRange hue = 0;                                       // turns of the colour wheel, to 0.5
};

/// The range of each factor (brightness, contrast, saturation, hue), and whether it holds one that
/// changes anything. Error for ranges that cannot be.
struct JitterRange {
  double low, high;
  bool changes;
};
std::array<JitterRange, 4> jitter_ranges(const ColorJitterOptions& options);

/// Four things in random order.
std::array<size_t, 4> draw_order(PhiloxStream& random);
/// A factor of each range that changes something, else 0.
std::array<double, 4> draw_factors(const std::array<JitterRange, 4>& ranges, PhiloxStream& random);

/// Changes brightness, contrast, saturation and hue by random factors, in random order. Ranges of
/// the one factor that changes nothing are left out.
class ColorJitter final : public Transform {
 public:
  explicit ColorJitter(const ColorJitterOptions& options)
      : options_(options), ranges_(jitter_ranges(options)) {}
  void apply(Image& image, PhiloxStream& random) const override;
  ImageSize output_size(ImageSize input) const override { return input; }
  /// What it was made with.
  const ColorJitterOptions& options() const { return options_; }

 private:
  ColorJitterOptions options_;
  std::array<JitterRange, 4> ranges_;
};

/// Takes the colour out with chance `p`; the image keeps its number of channels.
class RandomGrayscale final : public Transform {
 public:
  explicit RandomGrayscale(double p = 0.1);
  void apply(Image& image, PhiloxStream& random) const override;
  ImageSize output_size(ImageSize input) const override { return input; }

 private:
  double p_;
};

/// Options of RandomErasing, as torchvision.transforms.RandomErasing takes them. `p` is the chance
/// that an image is changed.
struct RandomErasingOptions {
  double p = 0.5;
  std::pair<double, double> scale = {0.02, 0.33};  // shares of the image's area
  std::pair<double, double> ratio = {0.3, 3.3};    // height to width
  std::vector<uint8_t> value = {0};                // one for all channels, or one for each
  bool random = false;                             // random bytes instead of `value`
};

/// Error unless these can be meant.
void check_erasing(const RandomErasingOptions& options);
/// The rectangle of an image of `size` to erase; of no pixels where none is.
Rect draw_erasing(const RandomErasingOptions& options, ImageSize size, PhiloxStream& random);

/// Overwrites a random rectangle, which is smaller than the image both ways, with chance `p`.
/// Zhong et al.: Random erasing data augmentation (2017).
class RandomErasing final : public Transform {
 public:
  explicit RandomErasing(const RandomErasingOptions& options = {});
  void apply(Image& image, PhiloxStream& random) const override;
  ImageSize output_size(ImageSize input) const override { return input; }
  /// What it was made with.
  const RandomErasingOptions& options() const { return options_; }

 private:
  RandomErasingOptions options_;
};

/// Overwrites `holes` squares of `length` pixels a side, centred on random pixels and cut off at
/// the border, with `value`. DeVries, Taylor: Improved regularization of convolutional neural
/// networks with cutout (2017).
class Cutout final : public Transform {
 public:
  explicit Cutout(int64_t length, int64_t holes = 1, uint8_t value = 0);
  void apply(Image& image, PhiloxStream& random) const override;
  ImageSize output_size(ImageSize input) const override { return input; }

 private:
  int64_t length_, holes_;
  uint8_t value_;
};

/// The operations that RandAugment draws from.
enum class AugmentOp : uint8_t {
  kIdentity,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
  kRotate,
  kBrightness,
  kColor,
  kContrast,
  kSharpness,
  kPosterize,
  kSolarize,
  kAutoContrast,
  kEqualize,
};
inline constexpr int kAugmentOps = 14;

/// What `op` is told for step `level` of `levels` (from 0) on images of `size`: a shear, pixels,
/// degrees, a change of a factor, bits to keep or the least value to invert; 0 where it is told
/// nothing.
double augment_magnitude(AugmentOp op, int level, int levels, ImageSize size);
/// Whether RandAugment gives half of these magnitudes a minus.
bool augment_is_signed(AugmentOp op);

/// How pixels between those of the image are found.
enum class AffineSampling : uint8_t { kNearest, kBilinear };

/// Options of RandAugment, with the defaults of torchvision.transforms.RandAugment. `magnitude` is
/// a step from 0, of `num_magnitude_bins` (2 or more). `num_ops`: 0 to 1000. RandAugment throws
/// Error for other values.
struct RandAugmentOptions {
  int num_ops = 2;
  int magnitude = 9;  // below num_magnitude_bins
  int num_magnitude_bins = 31;
  AffineSampling sampling = AffineSampling::kNearest;
  uint8_t fill = 0;  // what comes in where an image is moved, sheared or turned
};

/// Does one operation with `magnitude`, signed where it has a sign.
void apply_augment_op(Image& image, AugmentOp op, double magnitude,
                      const RandAugmentOptions& options = {});

/// Does `num_ops` operations, each drawn evenly from all of them, at one strength.
/// Cubuk et al.: RandAugment: practical automated data augmentation with a reduced search space
/// (2019).
class RandAugment final : public Transform {
 public:
  explicit RandAugment(const RandAugmentOptions& options = {});
  void apply(Image& image, PhiloxStream& random) const override;
  ImageSize output_size(ImageSize input) const override { return input; }

 private:
  RandAugmentOptions options_;
};

}  // namespace wick::data
