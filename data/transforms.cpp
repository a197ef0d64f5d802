#include "wick/data/transforms.h"

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "wick/core/base/check.h"

namespace wick::data {

namespace {

constexpr int64_t kMostSide = 1 << 16;

void check_size(const char* op, ImageSize size) {
  WICK_CHECK(
      size.height > 0 && size.width > 0 && size.height <= kMostSide && size.width <= kMostSide, op,
      ": wrong size: got ", size.height, " x ", size.width, ", expected 1 to ", kMostSide, " each");
}

void check_chance(const char* op, double p) {
  WICK_CHECK(p >= 0 && p <= 1, op, ": wrong chance: got ", p, ", expected 0 to 1");
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

namespace {

// Which of n elements stands at place i of the line that `mode` continues on both sides; -1: none.
int64_t place_in_line(int64_t i, int64_t n, PadMode mode) {
  if (i >= 0 && i < n) return i;
  if (mode == PadMode::kConstant) return -1;
  if (mode == PadMode::kReplicate || n == 1) return i < 0 ? 0 : n - 1;
  if (mode == PadMode::kCircular) return (i % n + n) % n;
  const int64_t period = 2 * (n - 1), place = (i % period + period) % period;
  return std::min(place, period - place);
}

}  // namespace

void crop(const Image& source, int64_t top, int64_t left, ImageSize size, Image& out,
          const Border& border) {
  const int64_t channels = source.channels;
  out.height = size.height;
  out.width = size.width;
  out.channels = channels;
  out.pixels.resize(static_cast<size_t>(size.height * size.width * channels));
  const int64_t first = std::clamp<int64_t>(-left, 0, size.width);
  const int64_t last = std::clamp<int64_t>(source.width - left, first, size.width);
  for (int64_t y = 0; y < size.height; ++y) {
    uint8_t* row = out.pixels.data() + y * size.width * channels;
    const int64_t from_row = place_in_line(top + y, source.height, border.mode);
    if (from_row < 0) {
      std::fill(row, row + size.width * channels, border.fill);
      continue;
    }
    const uint8_t* line = source.pixels.data() + from_row * source.width * channels;
    const auto outside = [&](int64_t x) {
      const int64_t from = place_in_line(left + x, source.width, border.mode);
      uint8_t* pixel = row + x * channels;
      if (from < 0) {
        std::fill(pixel, pixel + channels, border.fill);
      } else {
        std::copy(line + from * channels, line + (from + 1) * channels, pixel);
      }
    };
    for (int64_t x = 0; x < first; ++x) outside(x);
    if (first < last) {
      std::copy(line + (left + first) * channels, line + (left + last) * channels,
                row + first * channels);
    }
    for (int64_t x = last; x < size.width; ++x) outside(x);
  }
}

RandomCrop::RandomCrop(ImageSize size, const RandomCropOptions& options)
    : size_(size), options_(options) {
  check_size("random crop", size);
  WICK_CHECK(options.padding >= 0 && options.padding <= kMostSide,
             "random crop: wrong padding: got ", options.padding, ", expected 0 to ", kMostSide);
}

RandomCrop::RandomCrop(ImageSize size, int64_t padding)
    : RandomCrop(size, RandomCropOptions{.padding = padding}) {}

std::optional<Window> RandomCrop::window(ImageSize input, PhiloxStream& random) const {
  const int64_t rows = input.height - size_.height, columns = input.width - size_.width;
  if (options_.padding > 0 || rows < 0 || columns < 0) return {};
  const int64_t top = random_below(random, rows + 1);
  const int64_t left = random_below(random, columns + 1);
  return Window{{top, left, size_}, size_, {0, 0, size_}};
}

void RandomCrop::apply(Image& image, PhiloxStream& random) const {
  const auto padding = [&](int64_t side, int64_t window) {
    const int64_t missing = window - side - 2 * options_.padding;
    return options_.padding + (options_.pad_if_needed ? std::max<int64_t>(missing, 0) : 0);
  };
  const int64_t above = padding(image.height, size_.height);
  const int64_t before = padding(image.width, size_.width);
  const int64_t rows = image.height + 2 * above - size_.height;
  const int64_t columns = image.width + 2 * before - size_.width;
  WICK_CHECK(rows >= 0 && columns >= 0, "random crop: image too small: got ", image.height, " x ",
             image.width, ", expected at least ", size_.height - 2 * above, " x ",
             size_.width - 2 * before);
  const int64_t top = random_below(random, rows + 1) - above;
  const int64_t left = random_below(random, columns + 1) - before;
  crop(image, top, left, size_, spare_image(), options_.border);
  std::swap(image, spare_image());
}

namespace {

// Writes `width` pixels of three bytes, from `from` on, to `to` in reverse. Reads a byte past them.
void reverse_rgb(const uint8_t* from, int64_t width, uint8_t* to) {
  const __m128i reversed = _mm_setr_epi8(12, 13, 14, 9, 10, 11, 6, 7, 8, 3, 4, 5, 0, 1, 2, -1);
  int64_t x = 0;
  for (; x + 6 <= width; x += 5) {  // of 16 bytes stored, the last belongs to the pixel after them
    const auto* five = reinterpret_cast<const __m128i*>(from + 3 * (width - x - 5));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 3 * x),
                     _mm_shuffle_epi8(_mm_loadu_si128(five), reversed));
  }
  for (; x < width; ++x) std::copy_n(from + 3 * (width - 1 - x), 3, to + 3 * x);
}

}  // namespace

void flip_horizontally(Image& image) {
  const int64_t channels = image.channels, line = image.width * channels;
  thread_local std::vector<uint8_t> copy;
  copy.resize(static_cast<size_t>(line + 1));
  for (int64_t y = 0; y < image.height; ++y) {
    uint8_t* row = image.pixels.data() + y * line;
    if (channels == 1) {
      std::reverse(row, row + line);
    } else if (channels == 3) {
      std::copy_n(row, line, copy.begin());
      reverse_rgb(copy.data(), image.width, row);
    } else {
      for (uint8_t *low = row, *high = row + line - channels; low < high;
           low += channels, high -= channels) {
        std::swap_ranges(low, low + channels, high);
      }
    }
  }
}

void flip_vertically(Image& image) {
  const int64_t line = image.width * image.channels;
  for (int64_t y = 0; y < image.height / 2; ++y) {
    uint8_t* upper = image.pixels.data() + y * line;
    std::swap_ranges(upper, upper + line, image.pixels.data() + (image.height - 1 - y) * line);
  }
}

RandomHorizontalFlip::RandomHorizontalFlip(double p) : p_(p) {
  check_chance("random horizontal flip", p);
}

void RandomHorizontalFlip::apply(Image& image, PhiloxStream& random) const {
  if (static_cast<double>(random.uniform()) < p_) flip_horizontally(image);
}

RandomVerticalFlip::RandomVerticalFlip(double p) : p_(p) {
  check_chance("random vertical flip", p);
}

void RandomVerticalFlip::apply(Image& image, PhiloxStream& random) const {
  if (static_cast<double>(random.uniform()) < p_) flip_vertically(image);
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

Resize::Resize(int64_t shorter_side, std::optional<int64_t> max_size)
    : shorter_side_(shorter_side), max_size_(max_size) {
  check_size("resize", {shorter_side, shorter_side});
  WICK_CHECK(!max_size || *max_size > shorter_side, "resize: wrong max_size: got ", *max_size,
             ", expected more than the shorter side's ", shorter_side);
}

Resize::Resize(ImageSize size) : size_(size) { check_size("resize", size); }

ImageSize Resize::output_size(ImageSize input) const {
  if (shorter_side_ == 0) return size_;
  if (input.height == 0 || input.width == 0) return {};
  const bool is_wide = input.height <= input.width;
  const int64_t shorter = is_wide ? input.height : input.width;
  const int64_t longer = is_wide ? input.width : input.height;
  int64_t to_shorter = shorter_side_, to_longer = shorter_side_ * longer / shorter;
  if (max_size_ && to_longer > *max_size_) {
    to_shorter = std::max<int64_t>(1, *max_size_ * to_shorter / to_longer);
    to_longer = *max_size_;
  }
  return is_wide ? ImageSize{to_shorter, to_longer} : ImageSize{to_longer, to_shorter};
}

std::optional<Window> Resize::window(ImageSize input, PhiloxStream&) const {
  const ImageSize to = output_size(input);
  const int64_t most = image_limits().pixels;
  WICK_CHECK(to.height <= most / to.width, "resize: result too large: got ", to.height, " x ",
             to.width, " pixels, expected at most ", most, " in all");
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

Normalize Normalize::to_unit(int64_t channels) {
  const auto count = static_cast<size_t>(channels);
  return {std::vector<float>(count, 0.0f), std::vector<float>(count, 1.0f)};
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
