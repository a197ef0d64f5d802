#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "wick/data/catalog.h"
#include "wick/data/image_source.h"

namespace wick::data {

/// A data set in one file, which is mapped into memory: training and test images, each either its
/// pixels or a JPEG (or PNG), with labels, class names and how the images are to be prepared.
///
/// The file, little-endian:
/// - a header of 192 bytes (packed_format.h);
/// - the images one after the other;
/// - the index, 32 bytes for each: offset and length (64 bits), label, height, width and
///   CRC-32C (32 bits);
/// - the class names, each after its length (32 bits).
///
/// All of it is checked when it is opened, but the images themselves: each of those whenever it is
/// read. Files of version 1 have no checksums but the one for `check_content`. If the file shrinks
/// while it is open, reading from it is an error from then on.
class PackedFile : public std::enable_shared_from_this<PackedFile> {
 public:
  /// Maps the file `path` into memory. Error if it cannot be read, is no packed file, or is
  /// damaged.
  static std::shared_ptr<const PackedFile> open(const std::string& path);
  ~PackedFile();
  PackedFile(const PackedFile&) = delete;
  PackedFile& operator=(const PackedFile&) = delete;

  /// Its images, read without a copy, and how to prepare them.
  LabelledImages images() const;
  /// The SHA-256 that the header gives for all the rest, in 64 digits.
  std::string content_hash() const;
  /// Error if the content has another hash. Reads the whole file.
  void check_content() const;

 private:
  class Source;
  struct State;
  explicit PackedFile(const std::string& path);
  std::unique_ptr<State> state_;
};

/// How pack_images stores images. By default it keeps them as they are.
struct PackOptions {
  /// How images are stored: as they are (a folder's files unchanged, others as pixels), as pixels,
  /// or as JPEGs (which files already are).
  enum class Form { kAsTheyAre, kRaw, kJpeg } form = Form::kAsTheyAre;
  /// Images whose shorter side is longer than this are resized to it (0: none).
  int64_t shorter_side = 0;
  /// Of JPEGs made here, 1 to 100.
  int quality = 90;
  /// Called after each image, with how many are done.
  std::function<void(int64_t)> progress = {};
};

/// Writes `images` as the packed file `path`, in one step: if it fails nothing is left behind.
void pack_images(const LabelledImages& images, const std::string& path,
                 const PackOptions& options = {});

}  // namespace wick::data
