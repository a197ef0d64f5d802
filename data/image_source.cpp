#include "wick/data/image_source.h"

#include <utility>

#include "wick/core/base/check.h"
#include "wick/core/file.h"

namespace wick::data {

namespace {

class SetSource final : public ImageSource {
 public:
  explicit SetSource(std::shared_ptr<const ImageSet> images) : images_(std::move(images)) {}
  int64_t size() const override { return images_->size(); }
  const std::vector<std::string>& class_names() const override { return images_->class_names; }
  ImageSize image_size() const override { return {images_->height, images_->width}; }
  int64_t channels() const override { return images_->channels; }
  int64_t label(int64_t index) const override {
    return images_->labels[static_cast<size_t>(index)];
  }
  std::string name(int64_t index) const override { return concat("image ", index); }
  StoredImage read(int64_t index, std::string&) const override {
    const auto bytes = static_cast<size_t>(images_->bytes_per_image());
    return {{images_->image(index), bytes}, image_size(), channels()};
  }

 private:
  std::shared_ptr<const ImageSet> images_;
};

class FolderSource final : public ImageSource {
 public:
  explicit FolderSource(ImageFolder files) : files_(std::move(files)) {}
  int64_t size() const override { return static_cast<int64_t>(files_.files.size()); }
  const std::vector<std::string>& class_names() const override { return files_.class_names; }
  ImageSize image_size() const override { return {}; }
  int64_t channels() const override { return 3; }
  int64_t label(int64_t index) const override { return file(index).label; }
  std::string name(int64_t index) const override { return file(index).path; }
  StoredImage read(int64_t index, std::string& buffer) const override {
    buffer = read_file(file(index).path, kMostImageBytes);
    return {{reinterpret_cast<const uint8_t*>(buffer.data()), buffer.size()}, {}, 0};
  }

 private:
  const ImageFolder::File& file(int64_t index) const {
    return files_.files[static_cast<size_t>(index)];
  }

  ImageFolder files_;
};

}  // namespace

std::shared_ptr<const ImageSource> image_source(std::shared_ptr<const ImageSet> images) {
  return std::make_shared<SetSource>(std::move(images));
}

std::shared_ptr<const ImageSource> image_source(ImageFolder files) {
  return std::make_shared<FolderSource>(std::move(files));
}

}  // namespace wick::data
