#include "wick/data/batch_transform.h"

#include "wick/core/ops/crop_images.h"

namespace wick::data {

namespace {

// Keeps the streams of batches apart from those of samples, mixes and models with the same seed.
constexpr uint64_t kSeedOfBatches = 0x6261746368;  // "batch"

}  // namespace

BatchTransform::BatchTransform(const Normalize& normalize, const BatchTransformOptions& options)
    : options_(options) {
  for (const double p : {options.horizontal_flip, options.vertical_flip}) {
    WICK_CHECK(p >= 0 && p <= 1, "batch transform: wrong chance of a flip: got ", p,
               ", expected 0 to 1");
  }
  WICK_CHECK(options.padding >= 0 && options.padding <= 1 << 16,
             "batch transform: wrong padding: got ", options.padding, ", expected 0 to 65536");
  WICK_CHECK(is_floating(options.dtype), "batch transform: needs a floating dtype: got ",
             to_string(options.dtype));
  const size_t channels = normalize.mean().size();
  const std::vector<uint8_t>& value = options.erasing.value;
  check_erasing(options.erasing);
  WICK_CHECK(!options.erasing.random && (value.size() == 1 || value.size() == channels),
             "batch transform: wrong erasing: got ", value.size(),
             " values, expected 1 or one for each of ", channels, " channels, not random ones");
  std::vector<float> numbers;
  for (size_t c = 0; c < channels; ++c) numbers.push_back(1 / (255 * normalize.std()[c]));
  for (size_t c = 0; c < channels; ++c) {
    numbers.push_back(-normalize.mean()[c] / normalize.std()[c]);
  }
  for (size_t c = 0; c < channels; ++c) {
    const auto erased = static_cast<float>(value[value.size() == 1 ? 0 : c]);
    numbers.push_back(erased * numbers[c] + numbers[channels + c]);
  }
  coefficients_ = tensor(numbers, Shape{3, static_cast<int64_t>(channels)});
}

Tensor BatchTransform::placements(int64_t count, ImageSize input, int64_t epoch,
                                  int64_t batch) const {
  const ImageSize size = options_.size == ImageSize() ? input : options_.size;
  const int64_t rows = input.height + 2 * options_.padding - size.height;
  const int64_t columns = input.width + 2 * options_.padding - size.width;
  WICK_CHECK(rows >= 0 && columns >= 0 && rows <= INT32_MAX && columns <= INT32_MAX,
             "batch transform: images too small: got ", input.height, " x ", input.width,
             ", expected at least ", size.height - 2 * options_.padding, " x ",
             size.width - 2 * options_.padding);
  PhiloxStream random(options_.seed ^ kSeedOfBatches, static_cast<uint64_t>(batch),
                      static_cast<uint64_t>(epoch) << 32);
  const auto happens = [&](double p) { return static_cast<double>(random.uniform()) < p; };
  std::vector<int32_t> numbers;
  const auto add = [&](int64_t number) { numbers.push_back(static_cast<int32_t>(number)); };
  // Images of the parts before draw first.
  for (int64_t i = options_.random ? -count * options_.part : 0; i < count; ++i) {
    if (i == 0) numbers.clear();
    if (!options_.random) {
      for (const int64_t number : {rows / 2 - options_.padding, columns / 2 - options_.padding}) {
        add(number);
      }
      numbers.resize(numbers.size() + kCropImagesNumbers - 2);
      continue;
    }
    add(random.below(static_cast<uint32_t>(rows + 1)) - options_.padding);
    add(random.below(static_cast<uint32_t>(columns + 1)) - options_.padding);
    const int across = happens(options_.horizontal_flip) ? 1 : 0;
    add(across + (happens(options_.vertical_flip) ? 2 : 0));
    const Rect erased = draw_erasing(options_.erasing, size, random);
    add(erased.top);
    add(erased.left);
    add(erased.size.height);
    add(erased.size.width);
  }
  return tensor(numbers, Shape{count, kCropImagesNumbers});
}

Tensor BatchTransform::apply(const Tensor& images, int64_t epoch, int64_t batch) const {
  WICK_CHECK(
      images.rank() == 4 && images.dtype() == kUint8 && images.size(1) == coefficients_.size(1),
      "batch transform: wrong images: got shape ", images.shape(), " of ",
      to_string(images.dtype()), ", expected uint8 [N, ", coefficients_.size(1), ", H, W]");
  const ImageSize input{images.size(2), images.size(3)};
  const ImageSize size = options_.size == ImageSize() ? input : options_.size;
  const Tensor places = placements(images.size(0), input, epoch, batch);
  const Device device = images.device();
  return crop_images(images, places.to(device, /*non_blocking=*/true),
                     coefficients_.to(device, /*non_blocking=*/true), {size.height, size.width},
                     options_.dtype);
}

}  // namespace wick::data
