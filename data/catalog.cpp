#include "wick/data/catalog.h"

#include <algorithm>

#include "wick/data/augment.h"
#include "wick/data/cifar.h"
#include "wick/data/fetch.h"
#include "wick/data/idx.h"
#include "wick/data/packed.h"
#include "wick/data/shapes10.h"

namespace wick::data {

namespace {

constexpr int64_t kPhotographSize = 224;

std::string listed(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return list;
}

// What --augment adds behind the crop and the flip.
void add_augmentation(const Augmentation& augmentation, const Normalize& normalize,
                      Transforms& transforms) {
  if (augmentation.policy == "color") {
    transforms.push_back(std::make_shared<ColorJitter>(
        ColorJitterOptions{.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1}));
  } else if (augmentation.policy == "randaugment") {
    transforms.push_back(std::make_shared<RandAugment>());
  }
  if (augmentation.erasing == 0) return;
  std::vector<uint8_t> mean;
  for (const float m : normalize.mean()) mean.push_back(static_cast<uint8_t>(m * 255 + 0.5f));
  transforms.push_back(std::make_shared<RandomErasing>(
      RandomErasingOptions{.p = augmentation.erasing, .value = std::move(mean)}));
}

LabelledImages in_memory(ImageSet (*read)(const std::string& data_dir, Split split),
                         const std::string& data_dir, int64_t padding, bool flip) {
  const auto train = std::make_shared<const ImageSet>(read(data_dir, Split::kTrain));
  const auto test = std::make_shared<const ImageSet>(read(data_dir, Split::kTest));
  WICK_CHECK(train->height == test->height && train->width == test->width, data_dir,
             ": test images are of another size: got ", test->height, " x ", test->width,
             ", expected ", train->height, " x ", train->width, " as to train on");
  const Normalize normalize = normalize_by(*train);
  return {image_source(train),
          image_source(test),
          {.padding = padding, .flip = flip, .mean = normalize.mean(), .std = normalize.std()}};
}

LabelledImages image_folder(const std::string& data_dir) {
  const Normalize normalize = normalize_photographs();
  return {image_source(list_image_folder(data_dir, Split::kTrain)),
          image_source(list_image_folder(data_dir, Split::kTest)),
          {.photographs = true, .flip = true, .mean = normalize.mean(), .std = normalize.std()}};
}

Transforms test_transforms(const LabelledImages& images, ImageSize size) {
  if (!images.preparation.photographs) return {};
  return {std::make_shared<Resize>(size.height * 8 / 7), std::make_shared<CenterCrop>(size)};
}

Transforms train_transforms(const LabelledImages& images, ImageSize size,
                            const Augmentation& augmentation, const Normalize& normalize) {
  Transforms transforms;
  if (augmentation.policy == "none") {
    transforms = test_transforms(images, size);
  } else if (images.preparation.photographs) {
    transforms.push_back(std::make_shared<RandomResizedCrop>(size));
  } else {
    transforms.push_back(
        std::make_shared<RandomCrop>(images.train->image_size(), images.preparation.padding));
  }
  if (augmentation.policy != "none" && images.preparation.flip) {
    transforms.push_back(std::make_shared<RandomHorizontalFlip>());
  }
  add_augmentation(augmentation, normalize, transforms);
  return transforms;
}

ImageSet read_shapes10(const std::string&, Split split) { return shapes10(split); }

}  // namespace

const std::vector<std::string>& data_names() {
  static const std::vector<std::string> names = {
      "shapes10", "mnist", "fashion-mnist", "cifar10", "cifar100", "imagefolder", "packed"};
  return names;
}

const std::vector<std::string>& augmentation_names() {
  static const std::vector<std::string> names = {"none", "basic", "color", "randaugment"};
  return names;
}

LabelledImages open_images(const std::string& name, const std::string& where) {
  const std::string data_dir = where.empty() ? fetched_folder(name) : where;
  if (name == "shapes10") return in_memory(read_shapes10, data_dir, 4, true);
  if (name == "mnist") return in_memory(read_mnist, data_dir, 2, false);
  if (name == "fashion-mnist") return in_memory(read_fashion_mnist, data_dir, 2, true);
  if (name == "cifar10") return in_memory(read_cifar10, data_dir, 4, true);
  if (name == "cifar100") return in_memory(read_cifar100, data_dir, 4, true);
  if (name == "imagefolder") return image_folder(data_dir);
  if (name == "packed") {
    WICK_CHECK(!data_dir.empty(), "packed: needs a file (--data-dir), made by wick data pack");
    return PackedFile::open(data_dir)->images();
  }
  detail::fail("data: unknown data set: got ", name, ", expected one of ", listed(data_names()));
}

TrainTest open_data(const std::string& name, const std::string& data_dir,
                    std::optional<int64_t> image_size, const Augmentation& augmentation) {
  const std::vector<std::string>& known = augmentation_names();
  WICK_CHECK(std::find(known.begin(), known.end(), augmentation.policy) != known.end(),
             "augmentation: unknown policy: got ", augmentation.policy, ", expected one of ",
             listed(known));
  const LabelledImages images = open_images(name, data_dir);
  const int64_t side = image_size.value_or(kPhotographSize);
  const ImageSize size{side, side};
  const Normalize normalize(images.preparation.mean, images.preparation.std);
  return {std::make_shared<ImageDataset>(
              images.train, train_transforms(images, size, augmentation, normalize), normalize),
          std::make_shared<ImageDataset>(images.test, test_transforms(images, size), normalize),
          images.train->class_names(), images.preparation.photographs};
}

}  // namespace wick::data
