#include "wick/tools/study/images.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>

#include "wick/data/detail/jpeg.h"
#include "wick/data/shapes10.h"

namespace wick::study {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kFiles = 1000;  // small JPEG files made for source "files"
constexpr int64_t kPhotos = 64;   // and large ones
constexpr data::ImageSize kPhotoSize{375, 500};
constexpr int kQuality = 90;

data::Image shape_image(int64_t index) {
  data::Image image{32, 32, 3, std::vector<uint8_t>(32 * 32 * 3)};
  data::draw_shape(index, image.pixels.data());
  return image;
}

// A shape in the size of a photograph, grainy as one is, so that its file has some 50 kB.
data::Image photo(int64_t index) {
  const data::Image small = shape_image(index);
  data::Image large;
  data::resize(small, 0, 0, {32, 32}, kPhotoSize, large);
  PhiloxStream random(7, static_cast<uint64_t>(index));
  for (uint8_t& pixel : large.pixels) {
    const int noise = static_cast<int>(random.next() >> 28) - 8;
    pixel = static_cast<uint8_t>(std::clamp(pixel + noise, 0, 255));
  }
  return large;
}

// The folder or file `name` in `folder`, which `make` makes if it is not there yet. Processes that
// make it at the same time make the same.
template <class Make>
std::string made_once(const std::string& folder, const std::string& name, const Make& make) {
  const std::string path = folder + "/" + name;
  if (fs::exists(path)) return path;
  fs::create_directories(folder);
  std::string draft = folder + "/XXXXXX";  // mkdtemp puts a name of its own there
  WICK_CHECK(mkdtemp(draft.data()) != nullptr, "study: cannot make a folder in ", folder);
  make(draft + "/" + name);
  std::error_code is_there;
  fs::rename(draft + "/" + name, path, is_there);
  fs::remove_all(draft);
  return path;
}

// An image folder of `count` JPEGs to train on and as many as there are classes to test with.
void write_folder(const std::string& path, int64_t count, data::Image (*make)(int64_t)) {
  for (int64_t i = 0; i < count + 10; ++i) {
    const std::string split = i < count ? "train" : "test";
    const std::string folder = path + "/" + split + "/" + std::to_string(i % 10);
    fs::create_directories(folder);
    const std::vector<uint8_t> bytes = data::encode_jpeg(make(i), kQuality);
    std::ofstream file(folder + "/" + std::to_string(i) + ".jpg", std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    WICK_CHECK(file.good(), "study: cannot write to ", folder);
  }
}

// Gives images as pixels, so that what reads them cannot decode only a part.
class WholeImages final : public data::ImageSource {
 public:
  explicit WholeImages(std::shared_ptr<const data::ImageSource> files) : files_(std::move(files)) {}
  int64_t size() const override { return files_->size(); }
  const std::vector<std::string>& class_names() const override { return files_->class_names(); }
  data::ImageSize image_size() const override { return {}; }
  int64_t channels() const override { return 3; }
  int64_t label(int64_t index) const override { return files_->label(index); }
  std::string name(int64_t index) const override { return files_->name(index); }
  data::StoredImage read(int64_t index, std::string& buffer) const override {
    thread_local data::Image image;
    data::decode_image(files_->read(index, buffer).bytes, name(index), image);
    return {image.pixels, {image.height, image.width}, 3};
  }

 private:
  std::shared_ptr<const data::ImageSource> files_;
};

data::Transforms training_transforms(const Settings& settings, const data::Preparation& preparation,
                                     data::ImageSize size) {
  if (preparation.photographs) {
    const data::ImageSize cut{settings.image, settings.image};
    return {std::make_shared<data::RandomResizedCrop>(cut),
            std::make_shared<data::RandomHorizontalFlip>()};
  }
  if (settings.augment == "none") return {};
  data::Transforms transforms = {std::make_shared<data::RandomCrop>(size, preparation.padding)};
  if (preparation.flip) transforms.push_back(std::make_shared<data::RandomHorizontalFlip>());
  return transforms;
}

data::Transforms test_transforms(const Settings& settings, const data::Preparation& preparation) {
  if (!preparation.photographs) return {};
  return {std::make_shared<data::Resize>(settings.image * 8 / 7),
          std::make_shared<data::CenterCrop>(data::ImageSize{settings.image, settings.image})};
}

// The packed file `name` in the scratch folder, made once of what `open` gives.
template <class Open>
data::LabelledImages open_packed(const Settings& settings, const std::string& name,
                                 const Open& open) {
  const std::string path = made_once(settings.scratch, name, [&](const std::string& draft) {
    data::pack_images(open(), draft, {.form = data::PackOptions::Form::kRaw});
  });
  return data::open_images("packed", path);
}

data::LabelledImages open_files(const Settings& settings, bool photos) {
  const std::string name = photos ? "photos" : "files";
  const std::string path = made_once(settings.scratch, name, [&](const std::string& draft) {
    write_folder(draft, photos ? kPhotos : kFiles, photos ? &photo : &shape_image);
  });
  return data::open_images("imagefolder", path);
}

data::LabelledImages open_source(const Settings& settings) {
  if (settings.source == "photos") return open_files(settings, true);
  if (settings.source == "files") return open_files(settings, false);
  if (settings.source == "packed") {
    return open_packed(settings, "files.packed", [&] { return open_files(settings, false); });
  }
  if (settings.data != "shapes10") return data::open_images(settings.data, settings.data_dir);
  // Drawing takes its time.
  return open_packed(settings, "shapes10.packed", [] { return data::open_images("shapes10", ""); });
}

// Several trainings of one process use the same images.
const data::LabelledImages& opened_once(const Settings& settings) {
  static std::map<std::string, data::LabelledImages> opened;  // settings differ in the rest alone
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const auto [place, is_new] = opened.try_emplace(settings.source);
  if (is_new) place->second = open_source(settings);
  return place->second;
}

}  // namespace

Images open_images(const Settings& settings) {
  Images images;
  data::LabelledImages labelled = opened_once(settings);
  if (settings.whole_jpeg) labelled.train = std::make_shared<WholeImages>(labelled.train);
  const data::Preparation& preparation = labelled.preparation;
  images.normalize = data::Normalize(preparation.mean, preparation.std);
  std::optional<data::Normalize> normalize;
  if (settings.normalize == "loader") normalize = images.normalize;
  images.train = std::make_shared<data::ImageDataset>(
      labelled.train, training_transforms(settings, preparation, labelled.train->image_size()),
      normalize);
  images.test = std::make_shared<data::ImageDataset>(
      labelled.test, test_transforms(settings, preparation), normalize);
  images.shape = images.train->fields()[0].shape;
  images.classes = static_cast<int64_t>(labelled.train->class_names().size());
  return images;
}

}  // namespace wick::study
