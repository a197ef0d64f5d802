// Transforms of images of bytes on one thread: images per second at 224 x 224 and 32 x 32 pixels,
// three channels. Each image is copied first, unless it is only flipped, which can be done again
// and again. bench/peers/transforms.py runs torchvision beside them.
#include <benchmark/benchmark.h>

#include <functional>
#include <string>

#include "wick/core/base/parallel.h"
#include "wick/core/ops/crop_images.h"
#include "wick/data/data.h"

namespace wick::data {
namespace {

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
  return [transform = std::move(transform)](Image& image) {
    thread_local PhiloxStream random(2, 0);
    transform->apply(image, random);
  };
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

void report(benchmark::State& state, int64_t images) {
  state.counters["images_per_second"] =
      benchmark::Counter(static_cast<double>(images), benchmark::Counter::kIsRate);
}

void transform_image(benchmark::State& state, const Case& each) {
  const Image source = random_image(state.range(0), state.range(0));
  const Change run = each.make(state.range(0));
  Image image = source;
  for (auto _ : state) {
    if (each.copies) image = source;
    run(image);
    benchmark::DoNotOptimize(image.pixels.data());
  }
  report(state, state.iterations());
}

// A photograph of 375 x 500 pixels to its shorter side.
void resize_photograph(benchmark::State& state) {
  const Image source = random_image(375, 500);
  Image out;
  const ImageSize size = Resize(state.range(0)).output_size({375, 500});
  for (auto _ : state) {
    resize(source, 0, 0, {375, 500}, size, out);
    benchmark::DoNotOptimize(out.pixels.data());
  }
  report(state, state.iterations());
}
BENCHMARK(resize_photograph)->Name("transform/resize")->Arg(224)->Arg(32);

void normalize_image(benchmark::State& state) {
  const Image source = random_image(state.range(0), state.range(0));
  const Normalize normalize = normalize_photographs();
  std::vector<float> out(source.pixels.size());
  for (auto _ : state) {
    normalize.apply(source, out.data());
    benchmark::DoNotOptimize(out.data());
  }
  report(state, state.iterations());
}
BENCHMARK(normalize_image)->Name("transform/normalize")->Arg(224)->Arg(32);

// Crop, flip and normalise of 64 images at once.
void transform_batch(benchmark::State& state) {
  const int threads = num_threads();
  set_num_threads(1);
  const int64_t side = state.range(0);
  const Tensor images = zeros({64, 3, side, side}, kUint8).contiguous(MemoryFormat::kChannelsLast);
  const BatchTransform transform(normalize_photographs(),
                                 {.padding = side / 8, .horizontal_flip = 0.5});
  int64_t batch = 0;
  for (auto _ : state) benchmark::DoNotOptimize(transform.apply(images, 0, batch++).raw_data());
  report(state, state.iterations() * 64);
  set_num_threads(threads);
}
BENCHMARK(transform_batch)->Name("transform/batch_crop_flip_normalize")->Arg(224)->Arg(32);

[[maybe_unused]] const bool kRegistered = [] {
  for (const Case& each : kCases) {
    benchmark::RegisterBenchmark(("transform/" + std::string(each.name)).c_str(),
                                 [&each](benchmark::State& state) { transform_image(state, each); })
        ->Arg(224)
        ->Arg(32);
  }
  return true;
}();

}  // namespace
}  // namespace wick::data
