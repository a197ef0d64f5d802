#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "wick/core/base/philox.h"
#include "wick/core/ops/join.h"
#include "wick/data/image_io.h"

namespace wick::data {

/// Changes an image. What is random about it comes from the stream given, so that the result
/// depends on the sample and the epoch alone. Several threads call one transform at once.
class Transform {
 public:
  virtual ~Transform() = default;
  /// Changes `image` in place, its size included, with random numbers from `random`.
  virtual void apply(Image& image, PhiloxStream& random) const = 0;
  /// The size of the result for images of size `input`.
  virtual ImageSize output_size(ImageSize input) const = 0;
  /// For a transform that cuts and resizes and does nothing else: the window of an image of size
  /// `input` that is its result, drawn from `random` as `apply` draws it. With it a decoder need
  /// not make what will be cut away. Nothing for other transforms, and where no window of the image
  /// is the result.
  virtual std::optional<Window> window(ImageSize, PhiloxStream&) const { return {}; }
};

/// Transforms, to be applied one after the other.
using Transforms = std::vector<std::shared_ptr<const Transform>>;

/// As many of the first transforms as are one window of an image of size `input`, as that window,
/// drawn from `random`; `count` becomes their number. Nothing if there is none.
std::optional<Window> leading_window(const Transforms& transforms, ImageSize input,
                                     PhiloxStream& random, size_t& count);

/// What stands where a window reaches outside of its image.
struct Border {
  PadMode mode = PadMode::kConstant;
  uint8_t fill = 0;  // of every channel, for kConstant
};

/// What RandomCrop puts around an image before it cuts.
struct RandomCropOptions {
  int64_t padding = 0;         // pixels put around the image first
  bool pad_if_needed = false;  // more of them where the image is still smaller than the window
  Border border = {};
};

/// Cuts a window of `size` out of the image with padding put around it, anywhere with equal chance.
/// Error if the window is larger.
class RandomCrop final : public Transform {
 public:
  RandomCrop(ImageSize size, const RandomCropOptions& options);
  explicit RandomCrop(ImageSize size, int64_t padding = 0);
  void apply(Image& image, PhiloxStream& random) const override;
  ImageSize output_size(ImageSize) const override { return size_; }
  std::optional<Window> window(ImageSize input, PhiloxStream& random) const override;
  /// What it was made with.
  const RandomCropOptions& options() const { return options_; }

 private:
  ImageSize size_;
  RandomCropOptions options_;
};

/// Swaps left and right with chance `p`.
class RandomHorizontalFlip final : public Transform {
 public:
  explicit RandomHorizontalFlip(double p = 0.5);
  void apply(Image& image, PhiloxStream& random) const override;
  ImageSize output_size(ImageSize input) const override { return input; }
  /// The chance of a flip.
  double p() const { return p_; }

 private:
  double p_;
};

/// Swaps top and bottom with chance `p`.
class RandomVerticalFlip final : public Transform {
 public:
  explicit RandomVerticalFlip(double p = 0.5);
  void apply(Image& image, PhiloxStream& random) const override;
  ImageSize output_size(ImageSize input) const override { return input; }
  /// The chance of a flip.
  double p() const { return p_; }

 private:
  double p_;
};

/// Cuts out a window of a random share `scale` of the image's area and a random ratio `ratio` of
/// width to height, and resizes it to `size`. Szegedy et al., Going deeper with convolutions
/// (2014).
class RandomResizedCrop final : public Transform {
 public:
  explicit RandomResizedCrop(ImageSize size, std::pair<double, double> scale = {0.08, 1.0},
                             std::pair<double, double> ratio = {3.0 / 4.0, 4.0 / 3.0});
  void apply(Image& image, PhiloxStream& random) const override;
  ImageSize output_size(ImageSize) const override { return size_; }
  std::optional<Window> window(ImageSize input, PhiloxStream& random) const override;

 private:
  ImageSize size_;
  std::pair<double, double> scale_, ratio_;
};

/// Resizes with antialiasing: so that the shorter side has `shorter_side` pixels, and the longer at
/// most `max_size` where that is given, even if the shorter gets fewer; or to `size`, whatever the
/// ratio of the sides.
class Resize final : public Transform {
 public:
  explicit Resize(int64_t shorter_side, std::optional<int64_t> max_size = {});
  explicit Resize(ImageSize size);
  void apply(Image& image, PhiloxStream& random) const override;
  ImageSize output_size(ImageSize input) const override;
  std::optional<Window> window(ImageSize input, PhiloxStream&) const override;

 private:
  ImageSize size_;  // 0 x 0: by the shorter side
  int64_t shorter_side_ = 0;
  std::optional<int64_t> max_size_;
};

/// Cuts a window of `size` out of the middle. Where the image is smaller, black is put around it.
class CenterCrop final : public Transform {
 public:
  explicit CenterCrop(ImageSize size);
  void apply(Image& image, PhiloxStream& random) const override;
  ImageSize output_size(ImageSize) const override { return size_; }
  std::optional<Window> window(ImageSize input, PhiloxStream& random) const override;

 private:
  ImageSize size_;
};

/// The window of `source` whose upper left pixel is (`top`, `left`), `border` where it reaches
/// outside. `out` is not `source`.
void crop(const Image& source, int64_t top, int64_t left, ImageSize size, Image& out,
          const Border& border = {});

void flip_horizontally(Image& image);
void flip_vertically(Image& image);

/// The window of `source` at (`top`, `left`) of size `window`, which lies inside, resized to `size`
/// by bilinear interpolation, antialiased where it shrinks: Pillow's BILINEAR, bit for bit.
void resize(const Image& source, int64_t top, int64_t left, ImageSize window, ImageSize size,
            Image& out);

/// A rectangle in pixels, whose edges may fall between them.
struct Box {
  double top = 0, left = 0, height = 0, width = 0;
};

/// The part `kept` of what `resize` makes of `box`. The box may reach beyond `source` as far as
/// `kept` does not draw on what is there.
void resize(const Image& source, const Box& box, ImageSize size, const Rect& kept, Image& out);

/// Turns bytes into floats: (value / 255 - mean) / std, with one mean and one standard deviation
/// (above 0) per channel.
class Normalize {
 public:
  Normalize(std::vector<float> mean, std::vector<float> std);
  /// What torchvision's ToTensor computes: value / 255.
  static Normalize to_unit(int64_t channels);
  const std::vector<float>& mean() const { return mean_; }  // of each channel
  const std::vector<float>& std() const { return std_; }    // of each channel
  /// Writes one float per byte of `image`, in the same order.
  void apply(const Image& image, float* out) const;
  /// The same for bytes that are whole pixels.
  void apply(std::span<const uint8_t> pixels, float* out) const;

 private:
  std::vector<float> mean_, std_;
  std::vector<float> table_;  // the result for each byte value and channel: [256, channels]
};

}  // namespace wick::data
