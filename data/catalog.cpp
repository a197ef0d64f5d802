#include "wick/data/catalog.h"

#include "wick/core/base/detail/registry.h"
#include "wick/data/cifar.h"
#include "wick/data/fetch.h"
#include "wick/data/fingerprint.h"
#include "wick/data/idx.h"
#include "wick/data/image_dataset.h"
#include "wick/data/packed.h"
#include "wick/data/shapes10.h"

namespace wick::data {

namespace {

constexpr int64_t kPhotographSize = 224;

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

Transforms train_transforms(const Augmentation& augmentation, const TransformContext& context) {
  Transforms transforms = make_transforms(augmentation.policy, context);
  if (augmentation.erasing == 0) return transforms;
  const TransformEntry& erasing = find_transform("random_erasing");
  for (auto& transform : erasing.make({augmentation.erasing}, context)) {
    transforms.push_back(transform);
  }
  return transforms;
}

LabelledImages packed(const std::string& file) {
  WICK_CHECK(!file.empty(), "packed: needs a file (--data-dir), made by wick data pack");
  return PackedFile::open(file)->images();
}

// A set that is read whole, of images all of one size.
DataEntry memory_entry(const char* name, ImageSet (*read)(const std::string& data_dir, Split split),
                       int64_t padding, bool flip) {
  return {.name = name, .open_images = [=](const std::string& data_dir) {
            return in_memory(read, data_dir, padding, flip);
          }};
}

DataEntry shapes10_entry() {
  DataEntry entry = memory_entry(
      "shapes10", [](const std::string&, Split split) { return shapes10(split); }, 4, true);
  entry.needs_files = false;
  return entry;
}

Registry<DataEntry>& data_registry() {
  static Registry<DataEntry> all("data",
                                 {shapes10_entry(),
                                  memory_entry("mnist", read_mnist, 2, false),
                                  memory_entry("fashion-mnist", read_fashion_mnist, 2, true),
                                  memory_entry("cifar10", read_cifar10, 4, true),
                                  memory_entry("cifar100", read_cifar100, 4, true),
                                  {.name = "imagefolder", .open_images = image_folder},
                                  {.name = "packed", .open_images = packed}});
  return all;
}

}  // namespace

void register_data(DataEntry entry) {
  WICK_CHECK((entry.open_images != nullptr) != (entry.open != nullptr),
             "data: register: ", entry.name, ": expected open_images or open, got ",
             entry.open ? "both" : "neither");
  data_registry().add(std::move(entry));
}
std::vector<std::string> data_names() { return data_registry().names(); }
const DataEntry& find_data(const std::string& name) { return data_registry().find(name); }

std::vector<std::string> augmentation_names() {
  std::vector<std::string> names;
  for (const std::string& name : transform_names()) {
    if (find_transform(name).policy) names.push_back(name);
  }
  return names;
}

LabelledImages open_images(const std::string& name, const std::string& data_dir) {
  const DataEntry& entry = find_data(name);
  WICK_CHECK(entry.open_images, "data: ", name, ": expected a data set of images");
  return entry.open_images(data_dir.empty() ? fetched_folder(name) : data_dir);
}

TrainTest open_data(const std::string& name, const std::string& data_dir,
                    std::optional<int64_t> image_size, const Augmentation& augmentation) {
  const DataEntry& entry = find_data(name);
  if (entry.open) {
    TrainTest data = entry.open(data_dir);
    if (data.fingerprint.empty()) data.fingerprint = fingerprint(data);
    return data;
  }
  const LabelledImages images = open_images(name, data_dir);
  const int64_t side = image_size.value_or(kPhotographSize);
  Preparation preparation = images.preparation;
  if (image_size) preparation.photographs = true;  // images of one size are cut as they are
  const TransformContext context{
      preparation.photographs ? ImageSize{side, side} : images.train->image_size(), preparation};
  const Normalize normalize(preparation.mean, preparation.std);
  return {std::make_shared<ImageDataset>(images.train, train_transforms(augmentation, context),
                                         normalize),
          std::make_shared<ImageDataset>(images.test, make_transforms("none", context), normalize),
          images.train->class_names(), true, fingerprint(images)};
}

OptionFields fields(DataOptions& options) {
  return {
      OptionField("data", &options.name, "data set").basic().one_registered(data_names()).lasting(),
      OptionField("data_dir", &options.dir,
                  "folder that holds the data's files, or its parent (of packed: the file); not "
                  "needed after wick data fetch")
          .basic()
          .per_rank(),
      OptionField("augment", &options.augmentation.policy,
                  "random changes of training images: none, basic (crop and flip), color or "
                  "randaugment (both come beside basic), or transforms by name, as random_crop(4), "
                  "horizontal_flip")
          .lasting(),
      OptionField("random_erasing", &options.augmentation.erasing,
                  "chance that a rectangle of a training image is erased")
          .between(0, 1)
          .lasting(),
      OptionField("image_size", &options.image_size,
                  "side that images are cut and resized to, in pixels (default: their own size, of "
                  "photographs 224)")
          .between(8, 4096)
          .lasting(),
      OptionField("max_image_pixels", &options.limits.pixels,
                  "most pixels of an image that is read")
          .between(1, 1e12),
      OptionField("max_image_seconds", &options.limits.seconds,
                  "most processor time to decode an image (0: any)")
          .between(0, 1e9),
  };
}

void check(const DataOptions& options) {
  DataOptions checked = options;
  check(fields(checked));
  try {
    make_transforms(options.augmentation.policy, {{8, 8}, {}});
  } catch (const Error& error) {
    const std::string& policy = options.augmentation.policy;
    throw InvalidOption("augment",
                        concat(error.what(), ".", suggestion(policy, augmentation_names())));
  }
  if (!find_data(options.name).needs_files || !options.dir.empty() ||
      !fetched_folder(options.name).empty()) {
    return;
  }
  const std::vector<std::string>& known = fetch_names();
  const bool known_place = std::find(known.begin(), known.end(), options.name) != known.end();
  throw InvalidOption(
      "data_dir", concat("data ", options.name, " needs it, ",
                         options.name == "packed" ? "the file that wick data pack made"
                                                  : "the folder that holds its files",
                         known_place ? concat(", or first: wick data fetch ", options.name) : ""));
}

TrainTest open_data(const DataOptions& options) {
  set_image_limits(options.limits);
  return open_data(options.name, options.dir, options.image_size, options.augmentation);
}

void check_uses(const DataOptions& options, const TrainTest& data) {
  const DataOptions usual;
  const std::string of_data = concat("not with data ", options.name);
  const std::string no_images = concat(of_data, ", whose samples are no images");
  const auto require_use = [](const char* option, bool is_told, bool is_used,
                              const std::string& problem) {
    require(!is_told || is_used, option, problem);
  };
  require_use("data_dir", !options.dir.empty(), find_data(options.name).needs_files,
              concat(of_data, ", which reads no files"));
  require_use("augment", options.augmentation.policy != usual.augmentation.policy, data.images,
              no_images);
  require_use("random_erasing", options.augmentation.erasing > 0, data.images, no_images);
  require_use("image_size", options.image_size.has_value(), data.images, no_images);
  const bool in_files = options.name == "imagefolder" || options.name == "packed";
  const std::string in_memory = concat(of_data, ", whose images need no decoding");
  require_use("max_image_pixels", options.limits.pixels != usual.limits.pixels, in_files,
              in_memory);
  require_use("max_image_seconds", options.limits.seconds != usual.limits.seconds, in_files,
              in_memory);
}

}  // namespace wick::data
