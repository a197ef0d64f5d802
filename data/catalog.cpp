#include "wick/data/catalog.h"

#include <algorithm>

#include "wick/data/cifar.h"
#include "wick/data/idx.h"
#include "wick/data/shapes10.h"

namespace wick::data {

namespace {

TrainTest in_memory(ImageSet (*read)(const std::string& data_dir, Split split),
                    const std::string& data_dir, int64_t padding, bool flip, bool augment) {
  const auto train = std::make_shared<const ImageSet>(read(data_dir, Split::kTrain));
  const auto test = std::make_shared<const ImageSet>(read(data_dir, Split::kTest));
  WICK_CHECK(train->height == test->height && train->width == test->width, data_dir,
             ": test images are of another size: got ", test->height, " x ", test->width,
             ", expected ", train->height, " x ", train->width, " as to train on");
  const Normalize normalize = normalize_by(*train);
  Transforms transforms;
  if (augment) {
    transforms.push_back(
        std::make_shared<RandomCrop>(ImageSize{train->height, train->width}, padding));
    if (flip) transforms.push_back(std::make_shared<RandomHorizontalFlip>());
  }
  return {std::make_shared<ImageDataset>(train, std::move(transforms), normalize),
          std::make_shared<ImageDataset>(test, Transforms(), normalize), train->class_names};
}

TrainTest image_folder(const std::string& data_dir, int64_t image_size, bool augment) {
  const ImageSize size{image_size, image_size};
  const Transforms test_transforms = {std::make_shared<Resize>(image_size * 8 / 7),
                                      std::make_shared<CenterCrop>(size)};
  const Transforms train_transforms = {std::make_shared<RandomResizedCrop>(size),
                                       std::make_shared<RandomHorizontalFlip>()};
  ImageFolder train = list_image_folder(data_dir, Split::kTrain);
  ImageFolder test = list_image_folder(data_dir, Split::kTest);
  std::vector<std::string> class_names = train.class_names;
  const Normalize normalize = normalize_photographs();
  return {std::make_shared<ImageDataset>(std::move(train),
                                         augment ? train_transforms : test_transforms, normalize),
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

TrainTest open_data(const std::string& name, const std::string& data_dir, int64_t image_size,
                    bool augment) {
  if (name == "shapes10") return in_memory(read_shapes10, data_dir, 4, true, augment);
  if (name == "mnist") return in_memory(read_mnist, data_dir, 2, false, augment);
  if (name == "fashion-mnist") return in_memory(read_fashion_mnist, data_dir, 2, true, augment);
  if (name == "cifar10") return in_memory(read_cifar10, data_dir, 4, true, augment);
  if (name == "cifar100") return in_memory(read_cifar100, data_dir, 4, true, augment);
  if (name == "imagefolder") return image_folder(data_dir, image_size, augment);
  std::string known;
  for (const std::string& each : data_names()) known += (known.empty() ? "" : ", ") + each;
  detail::fail("data: unknown data set: got ", name, ", expected one of ", known);
}

}  // namespace wick::data
