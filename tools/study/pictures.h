#pragma once

#include <string>

#include "wick/data/image_io.h"

namespace wick::study {

/// The image as the source of an <img>: a PNG within the page. Images of more than `most` pixels a
/// side are shrunk to it.
std::string png_link(const data::Image& image, int64_t most = 112);

}  // namespace wick::study
