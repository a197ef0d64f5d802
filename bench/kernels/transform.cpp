// Transforms of images of bytes, at 224 x 224 and 32 x 32 pixels of three channels. Each image is
// copied first, unless it is only flipped, which can be done again and again. With --threads 1
// bench/peers/transforms.py runs torchvision beside them.
#include <memory>

#include "wick/bench/kernels/row.h"
#include "wick/data/data.h"

namespace wick::bench::transform_rows {
namespace {

using namespace data;

Image random_image(int64_t height, int64_t width) {
  Image image{height, width, 3, {}};
  PhiloxStream random(1, 0);
  for (int64_t i = 0; i < height * width * 3; ++i) {
    image.pixels.push_back(static_cast<uint8_t>(random.next()));
  }
  return image;
}

using Change = std::function<void(Image&)>;

Change change(std::shared_ptr<const Transform> transform) {
  return [transform = std::move(transform), random = std::make_shared<PhiloxStream>(2, 0)](
             Image& image) { transform->apply(image, *random); };
}

template <class T, class... Arguments>
Change always(Arguments... arguments) {
  return change(std::make_shared<T>(arguments...));
}

struct Case {
  const char* name;
  Change (*make)(int64_t side);
  bool copies = true;
};

// torchvision is given the same parameters.
const Case kCases[] = {
    {"brightness", [](int64_t) { return Change([](Image& x) { adjust_brightness(x, 1.3); }); }},
    {"contrast", [](int64_t) { return Change([](Image& x) { adjust_contrast(x, 1.3); }); }},
    {"saturation", [](int64_t) { return Change([](Image& x) { adjust_saturation(x, 1.3); }); }},
    {"hue", [](int64_t) { return Change([](Image& x) { adjust_hue(x, 0.1); }); }},
    {"sharpness", [](int64_t) { return Change([](Image& x) { adjust_sharpness(x, 1.3); }); }},
    {"grayscale", [](int64_t) { return Change(to_grayscale); }},
    {"autocontrast", [](int64_t) { return Change(autocontrast); }},
    {"equalize", [](int64_t) { return Change(equalize); }},
    {"solarize", [](int64_t) { return Change([](Image& x) { solarize(x, 178.5); }); }},
    {"posterize", [](int64_t) { return Change([](Image& x) { posterize(x, 5); }); }},
    {"rotate", [](int64_t) { return Change([](Image& x) { rotate(x, 9); }); }},
    {"horizontal_flip", [](int64_t) { return Change(flip_horizontally); }, false},
    {"vertical_flip", [](int64_t) { return Change(flip_vertically); }, false},
    {"random_crop",
     [](int64_t side) {
       return always<RandomCrop>(ImageSize{side, side}, RandomCropOptions{.padding = side / 8});
     }},
    {"random_resized_crop",
     [](int64_t side) {
       return always<RandomResizedCrop>(ImageSize{side, side});
     }},
    {"color_jitter",
     [](int64_t) {
       return always<ColorJitter>(
           ColorJitterOptions{.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1});
     }},
    {"random_erasing", [](int64_t) { return always<RandomErasing>(RandomErasingOptions{.p = 1}); }},
    {"randaugment", [](int64_t) { return always<RandAugment>(); }},
};

// What the tests compare with torchvision is checked no further here.
bool add_transform(const std::string& name, int64_t side, int64_t bytes,
                   std::function<std::function<void()>()> make) {
  return add_row({.name = concat("transform/", name, "/", side),
                  .cpu_only = true,
                  .prepare = [make = std::move(make), bytes](const Setting&) {
                    return Work{.call = make(), .bytes = static_cast<double>(bytes)};
                  }});
}

void add_transforms(int64_t side) {
  const int64_t bytes = side * side * 3;
  for (const Case& each : kCases) {
    add_transform(each.name, side, 2 * bytes, [=] {
      return [run = each.make(side), copies = each.copies, source = random_image(side, side),
              image = std::make_shared<Image>(random_image(side, side))] {
        if (copies) *image = source;
        run(*image);
      };
    });
  }
  // A photograph of 375 x 500 pixels to its shorter side.
  add_transform("resize", side, 375 * 500 * 3, [=] {
    const ImageSize size = Resize(side).output_size({375, 500});
    return [size, source = random_image(375, 500), out = std::make_shared<Image>()] {
      resize(source, 0, 0, {375, 500}, size, *out);
    };
  });
  add_transform("normalize", side, 5 * bytes, [=] {
    const auto out = std::make_shared<std::vector<float>>(static_cast<size_t>(bytes));
    return [out, source = random_image(side, side), normalize = normalize_photographs()] {
      normalize.apply(source, out->data());
    };
  });
  // Crop, flip and normalise of 64 images at once.
  add_transform("batch_crop_flip_normalize", side, 64 * 5 * bytes, [=] {
    const Tensor images = zeros({64, 3, side, side}, kUint8);
    const auto transform = std::make_shared<BatchTransform>(
        normalize_photographs(),
        BatchTransformOptions{.padding = side / 8, .horizontal_flip = 0.5});
    return [transform, images = images.contiguous(MemoryFormat::kChannelsLast),
            batch = int64_t{0}]() mutable { transform->apply(images, 0, batch++); };
  });
}

[[maybe_unused]] const bool kAll = [] {
  add_transforms(224);
  add_transforms(32);
  return true;
}();

}  // namespace
}  // namespace wick::bench::transform_rows
