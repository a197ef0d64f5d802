#pragma once

#include <cstdint>

#include "wick/data/image_set.h"

namespace wick::data {

/// 32x32 colour images of ten shapes (circle, ring, square, triangle, star, cross, crescent, heart,
/// arrow, hourglass), drawn here so that a first run needs no file: 10,000 to train on and 2,000 to
/// test with, classes in equal parts. Shapes vary in place, size, turn (up to 25 degrees),
/// proportion and colour, lie among clutter on an uneven ground, and are partly hidden. Only
/// integers are used, so the bytes are the same on every machine.
ImageSet shapes10(Split split);

/// Draws image `index` (train images are 0 to 9,999, test images 10,000 to 11,999) of the class
/// `index % 10` into `rgb`: 32 * 32 * 3 bytes, height by width by channel.
void draw_shape(int64_t index, uint8_t* rgb);

}  // namespace wick::data
