#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "wick/data/image_folder.h"
#include "wick/data/image_io.h"
#include "wick/data/image_set.h"

namespace wick::data {

/// One image as it is stored: with channels its pixels, height by width by channel; without, a JPEG
/// or PNG to decode.
struct StoredImage {
  std::span<const uint8_t> bytes;
  ImageSize size;
  int64_t channels = 0;
};

/// Labelled images, numbered from 0, wherever they are stored. Several threads use one at once.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  /// Number of images.
  virtual int64_t size() const = 0;
  /// Names of the classes, by label.
  virtual const std::vector<std::string>& class_names() const = 0;
  /// The size and channels of all images once decoded; a size of 0 x 0 where they differ.
  virtual ImageSize image_size() const = 0;
  virtual int64_t channels() const = 0;
  /// Below class_names().size().
  virtual int64_t label(int64_t index) const = 0;
  /// What errors call image `index`.
  virtual std::string name(int64_t index) const = 0;
  /// Image `index`; what has to be read to give it goes to `buffer`, which must live as long.
  virtual StoredImage read(int64_t index, std::string& buffer) const = 0;
  /// To be called when what `read` gave was used: error if it may have been something else than was
  /// stored, since the source is not what it was.
  virtual void confirm() const {}
};

/// Images in memory.
std::shared_ptr<const ImageSource> image_source(std::shared_ptr<const ImageSet> images);
/// Files, each read when it is asked for, of at most 256 MB.
std::shared_ptr<const ImageSource> image_source(ImageFolder files);

}  // namespace wick::data
