#include "wick/data/dataset.h"

#include <gtest/gtest.h>
#include <png.h>

#include <algorithm>
#include <cmath>

#include "wick/data/catalog.h"
#include "wick/data/image_dataset.h"
#include "wick/data/loader.h"
#include "wick/data/shapes10.h"
#include "wick/tests/data/data_testing.h"

namespace wick::data {
namespace {

// A PNG of one colour.
Bytes png(uint32_t height, uint32_t width, const Bytes& color) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.height = height;
  image.format = PNG_FORMAT_RGB;
  Bytes pixels;
  for (uint32_t i = 0; i < height * width; ++i) pixels = pixels + color;
  png_alloc_size_t size = 1 << 16;
  Bytes bytes(size);
  EXPECT_NE(png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0, nullptr),
            0);
  bytes.resize(size);
  return bytes;
}

TEST(TensorDataset, GivesRows) {
  const Tensor x = tensor<float>({1, 2, 3, 4, 5, 6}, Shape{3, 2});
  const Tensor y = tensor<int64_t>({7, 8, 9});
  const auto dataset = std::make_shared<TensorDataset>(std::vector<Tensor>{x, y});
  EXPECT_EQ(dataset->size(), 3);
  DataLoader loader(dataset, {.batch_size = 2, .num_workers = 1});
  loader.next();
  const Batch last = *loader.next();
  ASSERT_EQ(last[0].shape(), (Shape{1, 2}));
  EXPECT_EQ(last[0].data<float>()[0], 5.0f);
  EXPECT_EQ(last[0].data<float>()[1], 6.0f);
  EXPECT_EQ(last[1].data<int64_t>()[0], 9);
}

TEST(TensorDataset, LengthsMustAgree) {
  expect_error([] { TensorDataset({empty({3, 2}), empty({2})}); }, {"lengths", "got 2", "3"});
  expect_error([] { TensorDataset({empty({})}); }, {"rank 0"});
  expect_error([] { TensorDataset({}); }, {"no tensors"});
}

TEST(ImageDataset, StoresImagesChannelsLastAndLabelsAsInt64) {
  auto set = std::make_shared<ImageSet>();
  set->height = 2, set->width = 2, set->channels = 3;
  for (uint8_t i = 0; i < 24; ++i) set->pixels.push_back(i);
  set->labels = {1, 4};
  set->class_names.resize(5);
  DataLoader loader(std::make_shared<ImageDataset>(set, Transforms(), std::nullopt),
                    {.batch_size = 2});
  const Batch batch = *loader.next();
  EXPECT_EQ(batch[0].shape(), (Shape{2, 3, 2, 2}));
  EXPECT_TRUE(batch[0].is_contiguous(MemoryFormat::kChannelsLast));
  EXPECT_EQ(batch[0].dtype(), kUint8);
  for (int i = 0; i < 24; ++i) ASSERT_EQ(batch[0].data<uint8_t>()[i], i);
  EXPECT_EQ(batch[1].data<int64_t>()[1], 4);
}

TEST(ImageDataset, DecodesAFolderAndNamesTheFileInErrors) {
  const TemporaryFolder folder;
  folder.write("train/a/1.png", png(6, 4, {255, 0, 0}));
  folder.write("train/b/1.png", png(4, 9, {0, 0, 255}));
  const std::string bad = folder.write("train/b/2.png", {'n', 'o'});
  folder.write("test/b/1.png", png(5, 5, {0, 255, 0}));
  const TrainTest data = open_data("imagefolder", folder.path(), 8);
  EXPECT_EQ(data.sample().shape, (Shape{3, 8, 8}));
  EXPECT_EQ(data.class_names, (std::vector<std::string>{"a", "b"}));
  DataLoader train(data.train, {.batch_size = 1, .num_workers = 2});
  const Tensor red = (*train.next())[0];
  EXPECT_NEAR(red.data<float>()[0], (1 - 0.485) / 0.229, 1e-5);
  EXPECT_NEAR(red.data<float>()[1], -0.456 / 0.224, 1e-5);
  EXPECT_EQ((*train.next())[1].data<int64_t>()[0], 1);
  expect_error([&] { train.next(); }, {bad, "not an image"});
  DataLoader test(data.test, {.batch_size = 4});
  EXPECT_EQ(test.next()->size(), 1);

  const ImageDataset cropped(list_image_folder(folder.path(), Split::kTrain),
                             {std::make_shared<RandomCrop>(ImageSize{5, 5})}, std::nullopt);
  Bytes out(75);
  int64_t label = 0;
  void* places[] = {out.data(), &label};
  expect_error([&] { cropped.read(0, PhiloxStream(0, 0), places); },
               {folder.path("train/a/1.png"), "too small", "6 x 4"});
}

TEST(ImageDataset, ImagesOfUnlikeSizesNeedACrop) {
  const TemporaryFolder folder;
  folder.write("train/a/1.png", png(6, 4, {255, 0, 0}));
  const ImageFolder files = list_image_folder(folder.path(), Split::kTrain);
  expect_error([&] { ImageDataset(files, {std::make_shared<Resize>(8)}, std::nullopt); },
               {"differ in size"});
  expect_error(
      [&] {
        ImageDataset(files, {std::make_shared<CenterCrop>(ImageSize{2, 2})},
                     Normalize({0.5f}, {0.5f}));
      },
      {"means", "got 1", "expected 3"});
}

TEST(Catalog, Shapes10NeedsNoFilesAndIsNormalised) {
  const TrainTest data = open_data("shapes10", "");
  EXPECT_EQ(data.train->size(), 10000);
  EXPECT_EQ(data.test->size(), 2000);
  EXPECT_EQ(data.num_classes(), 10);
  EXPECT_EQ(data.sample().shape, (Shape{3, 32, 32}));
  DataLoader loader(data.test, {.batch_size = 500});
  double sum = 0, squares = 0;
  const Batch batch = *loader.next();
  for (int64_t i = 0; i < batch[0].numel(); ++i) {
    const double value = static_cast<double>(batch[0].data<float>()[i]);
    sum += value, squares += value * value;
  }
  const auto n = static_cast<double>(batch[0].numel());
  EXPECT_NEAR(sum / n, 0.0, 0.05);
  EXPECT_NEAR(squares / n, 1.0, 0.05);
}

TEST(Catalog, AugmentsOnlyWhatIsTrainedOn) {
  const auto epochs_agree = [](const std::shared_ptr<const Dataset>& dataset) {
    DataLoader loader(dataset, {.batch_size = 16});
    const Batch first = *loader.next();
    loader.seek(1, 0);
    const Batch second = *loader.next();
    return std::equal(first[0].data<float>(), first[0].data<float>() + first[0].numel(),
                      second[0].data<float>());
  };
  const TrainTest augmented = open_data("shapes10", ""),
                  plain = open_data("shapes10", "", {}, {.policy = "none"});
  EXPECT_FALSE(epochs_agree(augmented.train));
  EXPECT_TRUE(epochs_agree(augmented.test));
  EXPECT_TRUE(epochs_agree(plain.train));
}

TEST(Catalog, PoliciesOfAugmentationDiffer) {
  const TemporaryFolder folder;
  for (const char* name : {"train/a/1.png", "train/a/2.png", "test/a/1.png"}) {
    folder.write(name, png(9, 9, {250, 30, 60}));
  }
  // The red of both images, in two epochs.
  const auto reds = [&](const Augmentation& augmentation) {
    DataLoader loader(open_data("imagefolder", folder.path(), 8, augmentation).train,
                      {.batch_size = 2});
    std::vector<float> values;
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      loader.seek(epoch, 0);
      const Tensor red = (*loader.next())[0].narrow(1, 0, 1).contiguous();
      values.insert(values.end(), red.data<float>(), red.data<float>() + red.numel());
    }
    return values;
  };
  const std::vector<float> plain = reds({.policy = "none"});
  EXPECT_EQ(reds({}), plain);  // one colour stays it wherever it is cut
  EXPECT_NE(reds({.policy = "color"}), plain);
  EXPECT_NE(reds({.policy = "randaugment"}), plain);
  const std::vector<float> erased = reds({.policy = "none", .erasing = 1});
  const auto means =
      std::count_if(erased.begin(), erased.end(), [](float red) { return std::abs(red) < 0.01f; });
  EXPECT_GT(means, 0);
  EXPECT_LT(means, static_cast<int64_t>(erased.size()) / 2);
  expect_error([&] { open_data("imagefolder", folder.path(), 8, {.policy = "auto"}); },
               {"unknown name", "\"auto\"", "randaugment"});
}

TEST(Catalog, TakesDataOfTheProgramsOwn) {
  const auto open = [](const std::string& where) {
    const auto rows = std::make_shared<TensorDataset>(std::vector<Tensor>{ones({4, 2}), ones({4})});
    return TrainTest{.train = rows, .test = rows, .class_names = {where}, .images = false};
  };
  register_data({.name = "own_rows", .needs_files = false, .open = open});
  EXPECT_EQ(open_data("own_rows", "here").class_names[0], "here");
  EXPECT_EQ(open_data("own_rows", "").sample().shape, (Shape{2}));
  expect_error([] { open_images("own_rows", ""); }, {"own_rows", "expected a data set of images"});
  expect_error([&] { register_data({.name = "mnist", .open = open}); }, {"mnist", "taken"});
  expect_error([] { register_data({.name = "nothing"}); }, {"nothing", "neither"});
}

TEST(Catalog, UnknownNamesAreErrors) {
  expect_error([] { open_data("imagenet", "/"); }, {"imagenet", "cifar100", "shapes10"});
  expect_error([] { open_data("mnist", "/nowhere"); }, {"mnist", "/nowhere/mnist"});
  for (const std::string& name : data_names()) {
    if (!find_data(name).needs_files) continue;
    expect_error([&] { open_data(name, ""); }, {"--data-dir"});
  }
}

}  // namespace
}  // namespace wick::data
