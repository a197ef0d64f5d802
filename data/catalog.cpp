#include "wick/data/catalog.h"

#include <algorithm>

#include "wick/data/augment.h"
#include "wick/data/cifar.h"
#include "wick/data/idx.h"
#include "wick/data/shapes10.h"

namespace wick::data {

namespace {

std::string listed(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return list;
}

// What --augment adds behind the crop and the flip.
void add_augmentation(const Augmentation& augmentation, const Normalize& normalize,
                      Transforms& transforms) {
  const std::vector<std::string>& known = augmentation_names();
  WICK_CHECK(std::find(known.begin(), known.end(), augmentation.policy) != known.end(),
             "augmentation: unknown policy: got ", augmentation.policy, ", expected one of ",
             listed(known));
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

TrainTest in_memory(ImageSet (*read)(const std::string& data_dir, Split split),
                    const std::string& data_dir, int64_t padding, bool flip,
                    const Augmentation& augmentation) {
  const auto train = std::make_shared<const ImageSet>(read(data_dir, Split::kTrain));
  const auto test = std::make_shared<const ImageSet>(read(data_dir, Split::kTest));
  WICK_CHECK(train->height == test->height && train->width == test->width, data_dir,
             ": test images are of another size: got ", test->height, " x ", test->width,
             ", expected ", train->height, " x ", train->width, " as to train on");
  const Normalize normalize = normalize_by(*train);
  Transforms transforms;
  if (augmentation.policy != "none") {
    transforms.push_back(
        std::make_shared<RandomCrop>(ImageSize{train->height, train->width}, padding));
    if (flip) transforms.push_back(std::make_shared<RandomHorizontalFlip>());
  }
  add_augmentation(augmentation, normalize, transforms);
  return {std::make_shared<ImageDataset>(train, std::move(transforms), normalize),
          std::make_shared<ImageDataset>(test, Transforms(), normalize), train->class_names};
}

TrainTest image_folder(const std::string& data_dir, int64_t image_size,
                       const Augmentation& augmentation) {
  const ImageSize size{image_size, image_size};
  const Transforms test_transforms = {std::make_shared<Resize>(image_size * 8 / 7),
                                      std::make_shared<CenterCrop>(size)};
  Transforms train_transforms = test_transforms;
  if (augmentation.policy != "none") {
    train_transforms = {std::make_shared<RandomResizedCrop>(size),
                        std::make_shared<RandomHorizontalFlip>()};
  }
  const Normalize normalize = normalize_photographs();
  add_augmentation(augmentation, normalize, train_transforms);
  ImageFolder train = list_image_folder(data_dir, Split::kTrain);
  ImageFolder test = list_image_folder(data_dir, Split::kTest);
  std::vector<std::string> class_names = train.class_names;
  return {std::make_shared<ImageDataset>(std::move(train), train_transforms, normalize),
          std::make_shared<ImageDataset>(std::move(test), test_transforms, normalize),
          std::move(class_names)};
}

ImageSet read_shapes10(const std::string&, Split split) { return shapes10(split); }

}  // namespace

const std::vector<std::string>& data_names() {
  static const std::vector<std::string> names = {"shapes10", "mnist",    "fashion-mnist",
                                                 "cifar10",  "cifar100", "imagefolder"};
  return names;
}

const std::vector<std::string>& augmentation_names() {
  static const std::vector<std::string> names = {"none", "basic", "color", "randaugment"};
  return names;
}

TrainTest open_data(const std::string& name, const std::string& data_dir, int64_t image_size,
                    const Augmentation& augmentation) {
  if (name == "shapes10") return in_memory(read_shapes10, data_dir, 4, true, augmentation);
  if (name == "mnist") return in_memory(read_mnist, data_dir, 2, false, augmentation);
  if (name == "fashion-mnist")
    return in_memory(read_fashion_mnist, data_dir, 2, true, augmentation);
  if (name == "cifar10") return in_memory(read_cifar10, data_dir, 4, true, augmentation);
  if (name == "cifar100") return in_memory(read_cifar100, data_dir, 4, true, augmentation);
  if (name == "imagefolder") return image_folder(data_dir, image_size, augmentation);
  detail::fail("data: unknown data set: got ", name, ", expected one of ", listed(data_names()));
}

}  // namespace wick::data
