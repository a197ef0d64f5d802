#pragma once

#include <cstdint>
#include <vector>

#include "wick/data/augment.h"

// What random transforms do, with the parameters given. Images have 1 or 3 channels and are changed
// in place; the results are torchvision's on uint8 tensors, within 1 of 255.
namespace wick::data {

/// Multiplies by `factor` (0 or more): 0 gives black, 1 the image.
void adjust_brightness(Image& image, double factor);
/// Away from the mean grey by `factor` (0 or more): 0 gives grey, 1 the image.
void adjust_contrast(Image& image, double factor);
/// Away from each pixel's grey by `factor` (0 or more): 0 takes the colour out, 1 gives the image.
void adjust_saturation(Image& image, double factor);
/// Turns all hues by `turn` (-0.5 to 0.5) of the colour wheel.
void adjust_hue(Image& image, double turn);
/// Away from the blurred image by `factor` (0 or more): 0 blurs, 1 gives the image. The outermost
/// pixels stay.
void adjust_sharpness(Image& image, double factor);

/// Gives every channel the pixel's grey.
void to_grayscale(Image& image);
/// Keeps the `bits` (0 to 8) highest bits of each byte.
void posterize(Image& image, int bits);
/// Inverts bytes of `threshold` and above.
void solarize(Image& image, double threshold);
/// Stretches each channel to the range 0 to 255.
void autocontrast(Image& image);
/// Makes the values of each channel about equally frequent.
void equalize(Image& image);

/// Overwrites the rectangle, which lies inside, with `value`: one byte, or one for each channel.
void erase(Image& image, int64_t top, int64_t left, ImageSize size,
           const std::vector<uint8_t>& value);

/// The place in the source of the result's pixel (x, y): (x_x x + x_y y + x_0, y_x x + y_y y +
/// y_0), where pixel centres are at halves.
struct AffineMap {
  double x_x = 1, x_y = 0, x_0 = 0;
  double y_x = 0, y_y = 1, y_0 = 0;
};

/// Moves each pixel as `map` says; `fill` is outside the source.
void affine(Image& image, const AffineMap& map, AffineSampling sampling = AffineSampling::kNearest,
            uint8_t fill = 0);
/// Turns around the middle by `degrees` against the clock.
void rotate(Image& image, double degrees, AffineSampling sampling = AffineSampling::kNearest,
            uint8_t fill = 0);

}  // namespace wick::data
