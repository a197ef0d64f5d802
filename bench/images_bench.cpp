// Images per second on one core, from the files of an image folder to normalised images of 224 x
// 224 pixels. Arguments: WAY FOLDER SECONDS, where WAY is train (RandomResizedCrop, flip), test
// (Resize, CenterCrop), whole (train, but with the whole image decoded before it is cut), decode
// (no more than that) or packed (FOLDER is a packed file of equal images of up to 224 x 224 pixels,
// given as they are). bench/peers/images.py runs torchvision beside it.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "wick/wick.h"

namespace {

using namespace wick;
using namespace wick::data;

// Gives images as pixels, so that what reads them cannot decode only a part.
class Decoded final : public ImageSource {
 public:
  explicit Decoded(std::shared_ptr<const ImageSource> files) : files_(std::move(files)) {}
  int64_t size() const override { return files_->size(); }
  const std::vector<std::string>& class_names() const override { return files_->class_names(); }
  ImageSize image_size() const override { return {}; }
  int64_t channels() const override { return 3; }
  int64_t label(int64_t index) const override { return files_->label(index); }
  std::string name(int64_t index) const override { return files_->name(index); }
  StoredImage read(int64_t index, std::string& buffer) const override {
    thread_local Image image;
    decode_image(files_->read(index, buffer).bytes, name(index), image);
    return {image.pixels, {image.height, image.width}, 3};
  }

 private:
  std::shared_ptr<const ImageSource> files_;
};

double rate(const Dataset& dataset, double seconds) {
  using Clock = std::chrono::steady_clock;
  std::vector<float> image(224 * 224 * 3);
  int64_t label = 0;
  void* places[] = {image.data(), &label};
  const auto begin = Clock::now();
  double passed = 0;
  int64_t count = 0;
  do {
    const PhiloxStream random(1, static_cast<uint64_t>(count));
    dataset.read(count++ % dataset.size(), random, places);
    passed = std::chrono::duration<double>(Clock::now() - begin).count();
  } while (passed < seconds);
  return static_cast<double>(count) / passed;
}

double decode_rate(const ImageSource& files, double seconds) {
  using Clock = std::chrono::steady_clock;
  Image image;
  std::string buffer;
  const auto begin = Clock::now();
  double passed = 0;
  int64_t count = 0;
  do {
    const int64_t index = count++ % files.size();
    decode_image(files.read(index, buffer).bytes, files.name(index), image);
    passed = std::chrono::duration<double>(Clock::now() - begin).count();
  } while (passed < seconds);
  return static_cast<double>(count) / passed;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: bench_images WAY FOLDER SECONDS\n");
    return 2;
  }
  const std::string way = argv[1];
  const double seconds = std::atof(argv[3]);
  if (way == "packed") {
    const auto images = PackedFile::open(argv[2])->images().train;
    const double images_per_second = rate(ImageDataset(images, Transforms(), {}), seconds);
    const ImageSize size = images->image_size();
    const auto bytes = static_cast<double>(size.height * size.width * images->channels());
    std::printf("%.1f (%.1f GB/s)\n", images_per_second, images_per_second * bytes / 1e9);
    return 0;
  }
  const auto files = image_source(list_image_folder(argv[2], Split::kTrain));
  const ImageSize size{224, 224};
  const Transforms train = {std::make_shared<RandomResizedCrop>(size),
                            std::make_shared<RandomHorizontalFlip>()};
  const Transforms test = {std::make_shared<Resize>(256), std::make_shared<CenterCrop>(size)};
  const Normalize normalize = normalize_photographs();
  double result = 0;
  if (way == "decode") {
    result = decode_rate(*files, seconds);
  } else if (way == "whole") {
    result = rate(ImageDataset(std::make_shared<Decoded>(files), train, normalize), seconds);
  } else {
    result = rate(ImageDataset(files, way == "test" ? test : train, normalize), seconds);
  }
  std::printf("%.1f\n", result);
  return 0;
}
