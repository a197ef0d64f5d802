#include "wick/data/transforms.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "wick/core/base/check.h"

namespace wick::data {

namespace {

void check_size(const char* op, ImageSize size) {
  constexpr int64_t kMostSide = 1 << 16;
  WICK_CHECK(
      size.height > 0 && size.width > 0 && size.height <= kMostSide && size.width <= kMostSide, op,
      ": wrong size: got ", size.height, " x ", size.width, ", expected 1 to ", kMostSide, " each");
}

// Memory for a result, kept per thread. Swapped with the image that it replaces.
Image& spare_image() {
  thread_local Image spare;
  return spare;
}

int64_t random_below(PhiloxStream& random, int64_t n) {
  return random.below(static_cast<uint32_t>(n));
}

// Halves round to even, as PyTorch's do.
int64_t middle(int64_t room) {
  return static_cast<int64_t>(std::nearbyint(static_cast<double>(room) / 2));
}

bool only_cuts(const Window& window) { return window.source.size == window.size; }

}  // namespace

std::optional<Window> leading_window(const Transforms& transforms, ImageSize input,
                                     PhiloxStream& random, size_t& count) {
  std::optional<Window> all;
  for (count = 0; count < transforms.size(); ++count) {
    PhiloxStream ahead = random;
    std::optional<Window> next = transforms[count]->window(input, ahead);
    if (!next || (all && !only_cuts(*all) && !only_cuts(*next))) break;
    random = ahead;
    input = next->kept.size;
    if (!all) {
      all = next;
    } else if (only_cuts(*all)) {
      next->source.top += all->source.top + all->kept.top;
      next->source.left += all->source.left + all->kept.left;
      all = next;
    } else {
      all->kept.top += next->source.top + next->kept.top;
      all->kept.left += next->source.left + next->kept.left;
      all->kept.size = next->kept.size;
    }
  }
  return all;
}

void crop(const Image& source, int64_t top, int64_t left, ImageSize size, Image& out) {
  const int64_t channels = source.channels;
  out.height = size.height;
  out.width = size.width;
  out.channels = channels;
  out.pixels.resize(static_cast<size_t>(size.height * size.width * channels));
  const int64_t first = std::clamp<int64_t>(-left, 0, size.width);
  const int64_t last = std::clamp<int64_t>(source.width - left, first, size.width);
  for (int64_t y = 0; y < size.height; ++y) {
    uint8_t* row = out.pixels.data() + y * size.width * channels;
    const bool inside = top + y >= 0 && top + y < source.height && first < last;
    const int64_t from = inside ? first : size.width, to = inside ? last : size.width;
    std::fill(row, row + from * channels, uint8_t{0});
    if (inside) {
      const uint8_t* line = source.pixels.data() + (top + y) * source.width * channels;
      std::copy(line + (left + from) * channels, line + (left + to) * channels,
                row + from * channels);
    }
    std::fill(row + to * channels, row + size.width * channels, uint8_t{0});
  }
}

RandomCrop::RandomCrop(ImageSize size, int64_t padding) : size_(size), padding_(padding) {
  check_size("random crop", size);
  WICK_CHECK(padding >= 0, "random crop: wrong padding: got ", padding, ", expected 0 or more");
}

std::optional<Window> RandomCrop::window(ImageSize input, PhiloxStream& random) const {
  const int64_t rows = input.height - size_.height, columns = input.width - size_.width;
  if (padding_ > 0 || rows < 0 || columns < 0) return {};
  const int64_t top = random_below(random, rows + 1);
  const int64_t left = random_below(random, columns + 1);
  return Window{{top, left, size_}, size_, {0, 0, size_}};
}

void RandomCrop::apply(Image& image, PhiloxStream& random) const {
  const int64_t rows = image.height + 2 * padding_ - size_.height;
  const int64_t columns = image.width + 2 * padding_ - size_.width;
  WICK_CHECK(rows >= 0 && columns >= 0, "random crop: image too small: got ", image.height, " x ",
             image.width, ", expected at least ", size_.height - 2 * padding_, " x ",
             size_.width - 2 * padding_);
  const int64_t top = random_below(random, rows + 1) - padding_;
  const int64_t left = random_below(random, columns + 1) - padding_;
  crop(image, top, left, size_, spare_image());
  std::swap(image, spare_image());
}

RandomHorizontalFlip::RandomHorizontalFlip(double p) : p_(p) {
  WICK_CHECK(p >= 0 && p <= 1, "random horizontal flip: wrong chance: got ", p,
             ", expected 0 to 1");
}

void RandomHorizontalFlip::apply(Image& image, PhiloxStream& random) const {
  if (static_cast<double>(random.uniform()) >= p_) return;
  const int64_t channels = image.channels;
  for (int64_t y = 0; y < image.height; ++y) {
    uint8_t* low = image.pixels.data() + y * image.width * channels;
    uint8_t* high = low + (image.width - 1) * channels;
    for (; low < high; low += channels, high -= channels) {
      std::swap_ranges(low, low + channels, high);
    }
  }
}

RandomResizedCrop::RandomResizedCrop(ImageSize size, std::pair<double, double> scale,
                                     std::pair<double, double> ratio)
    : size_(size), scale_(scale), ratio_(ratio) {
  check_size("random resized crop", size);
  WICK_CHECK(scale.first > 0 && scale.first <= scale.second && scale.second <= 1,
             "random resized crop: wrong scale: got ", scale.first, " to ", scale.second,
             ", expected a range within 0 to 1");
  WICK_CHECK(ratio.first > 0 && ratio.first <= ratio.second,
             "random resized crop: wrong ratio: got ", ratio.first, " to ", ratio.second,
             ", expected a range above 0");
}

std::optional<Window> RandomResizedCrop::window(ImageSize input, PhiloxStream& random) const {
  const auto between = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random.uniform());
  };
  const auto area = static_cast<double>(input.height * input.width);
  ImageSize window;
  int64_t top = 0, left = 0;
  bool found = false;
  for (int attempt = 0; attempt < 10 && !found; ++attempt) {
    const double target = area * between(scale_.first, scale_.second);
    const double ratio = std::exp(between(std::log(ratio_.first), std::log(ratio_.second)));
    window = {std::llround(std::sqrt(target / ratio)), std::llround(std::sqrt(target * ratio))};
    found = window.height > 0 && window.height <= input.height && window.width > 0 &&
            window.width <= input.width;
  }
  if (found) {
    top = random_below(random, input.height - window.height + 1);
    left = random_below(random, input.width - window.width + 1);
  } else {  // the largest window in the middle with an allowed ratio
    const auto height = static_cast<double>(input.height), width = static_cast<double>(input.width);
    const double ratio = std::clamp(width / height, ratio_.first, ratio_.second);
    const auto fit = [](double side) { return std::max<int64_t>(1, std::llround(side)); };
    window = {std::min(input.height, fit(width / ratio)),
              std::min(input.width, fit(height * ratio))};
    top = (input.height - window.height) / 2;
    left = (input.width - window.width) / 2;
  }
  return Window{{top, left, window}, size_, {0, 0, size_}};
}

void RandomResizedCrop::apply(Image& image, PhiloxStream& random) const {
  const Window cut = *window({image.height, image.width}, random);
  resize(image, cut.source.top, cut.source.left, cut.source.size, size_, spare_image());
  std::swap(image, spare_image());
}

Resize::Resize(int64_t shorter_side) : shorter_side_(shorter_side) {
  check_size("resize", {shorter_side, shorter_side});
}

ImageSize Resize::output_size(ImageSize input) const {
  if (input.height == 0 || input.width == 0) return {};
  if (input.height <= input.width)
    return {shorter_side_, shorter_side_ * input.width / input.height};
  return {shorter_side_ * input.height / input.width, shorter_side_};
}

std::optional<Window> Resize::window(ImageSize input, PhiloxStream&) const {
  const ImageSize to = output_size(input);
  WICK_CHECK(to.height <= kMostPixels / to.width, "resize: result too large: got ", to.height,
             " x ", to.width, " pixels, expected at most ", kMostPixels, " in all");
  return Window{{0, 0, input}, to, {0, 0, to}};
}

void Resize::apply(Image& image, PhiloxStream& random) const {
  const ImageSize from{image.height, image.width}, to = window(from, random)->size;
  if (from == to) return;
  resize(image, 0, 0, from, to, spare_image());
  std::swap(image, spare_image());
}

CenterCrop::CenterCrop(ImageSize size) : size_(size) { check_size("center crop", size); }

std::optional<Window> CenterCrop::window(ImageSize input, PhiloxStream&) const {
  if (input.height < size_.height || input.width < size_.width) return {};
  return Window{{middle(input.height - size_.height), middle(input.width - size_.width), size_},
                size_,
                {0, 0, size_}};
}

void CenterCrop::apply(Image& image, PhiloxStream&) const {
  crop(image, middle(image.height - size_.height), middle(image.width - size_.width), size_,
       spare_image());
  std::swap(image, spare_image());
}

Normalize::Normalize(std::vector<float> mean, std::vector<float> std)
    : mean_(std::move(mean)), std_(std::move(std)) {
  WICK_CHECK(!mean_.empty() && mean_.size() == std_.size(), "normalize: got ", mean_.size(),
             " means and ", std_.size(), " standard deviations, expected one of each per channel");
  for (const float s : std_) {
    WICK_CHECK(s > 0, "normalize: wrong standard deviation: got ", s, ", expected above 0");
  }
  for (int value = 0; value < 256; ++value) {
    for (size_t c = 0; c < mean_.size(); ++c) {
      table_.push_back((static_cast<float>(value) / 255.0f - mean_[c]) / std_[c]);
    }
  }
}

void Normalize::apply(const Image& image, float* out) const {
  const auto channels = static_cast<size_t>(image.channels);
  WICK_CHECK(channels == mean_.size(), "normalize: wrong number of channels: got ", image.channels,
             ", expected ", mean_.size());
  apply(image.pixels, out);
}

void Normalize::apply(std::span<const uint8_t> pixels, float* out) const {
  const auto run = [&](auto channels) {
    const uint8_t* const end = pixels.data() + pixels.size();
    const float* const table = table_.data();
    for (const uint8_t* p = pixels.data(); p != end; p += channels, out += channels) {
      for (size_t c = 0; c < channels; ++c) out[c] = table[p[c] * channels + c];
    }
  };
  // Counts known to the compiler let it unroll.
  if (mean_.size() == 1) {
    run(std::integral_constant<size_t, 1>());
  } else if (mean_.size() == 3) {
    run(std::integral_constant<size_t, 3>());
  } else {
    run(mean_.size());
  }
}

}  // namespace wick::data
