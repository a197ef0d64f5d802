#include <algorithm>
#include <cstring>
#include <optional>

#include "wick/core/base/check.h"
#include "wick/core/file.h"
#include "wick/data/detail/crc32c.h"
#include "wick/data/detail/jpeg.h"
#include "wick/data/detail/packed_format.h"
#include "wick/data/packed.h"
#include "wick/data/transforms.h"

namespace wick::data {

namespace {

using namespace packed;

// An image on its way into the file; the bytes are those of the source or of one of the members.
struct Packed {
  std::span<const uint8_t> bytes;
  ImageSize size;
  std::string buffer;
  Image image;
  std::vector<uint8_t> jpeg;
};

bool is_jpeg(std::span<const uint8_t> bytes) { return bytes.size() > 1 && bytes[1] == 0xd8; }

class Packer {
 public:
  Packer(const PackOptions& options, bool raw) : options_(options), raw_(raw) {
    if (options.shorter_side > 0) resize_.emplace(options.shorter_side);
  }

  void make(const ImageSource& source, int64_t index, Packed& out) const {
    const StoredImage stored = source.read(index, out.buffer);
    const std::string name = source.name(index);
    PhiloxStream no_random(0, 0);
    if (stored.channels > 0) {
      out.image.height = stored.size.height;
      out.image.width = stored.size.width;
      out.image.channels = stored.channels;
      out.image.pixels.assign(stored.bytes.begin(), stored.bytes.end());
      if (is_large(stored.size)) resize_->apply(out.image, no_random);
    } else {
      ImageDecoder decoder(stored.bytes, name);
      out.size = decoder.size();
      const bool keep = options_.form == PackOptions::Form::kAsTheyAre || is_jpeg(stored.bytes);
      if (!raw_ && keep && !is_large(out.size)) {
        out.bytes = stored.bytes;
        return;
      }
      if (is_large(out.size)) {
        decoder.decode(*resize_->window(out.size, no_random), out.image);
      } else {
        decoder.decode(out.image);
      }
    }
    out.size = {out.image.height, out.image.width};
    if (!raw_) out.jpeg = encode_jpeg(out.image, options_.quality);
    out.bytes = raw_ ? out.image.pixels : out.jpeg;
  }

 private:
  bool is_large(ImageSize size) const {
    return resize_ && std::min(size.height, size.width) > options_.shorter_side;
  }

  const PackOptions& options_;
  bool raw_;
  std::optional<Resize> resize_;
};

Header make_header(const LabelledImages& images, bool raw) {
  const Preparation& preparation = images.preparation;
  const auto channels = static_cast<size_t>(images.train->channels());
  WICK_CHECK(raw || channels == 3, "pack: grey images cannot be packed as JPEGs: expected raw");
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.form = raw ? kRaw : kEncoded;
  header.train = static_cast<uint64_t>(images.train->size());
  header.test = static_cast<uint64_t>(images.test->size());
  header.classes = images.train->class_names().size();
  header.channels = static_cast<uint32_t>(channels);
  header.photographs = preparation.photographs;
  header.padding = static_cast<uint32_t>(preparation.padding);
  header.flip = preparation.flip;
  WICK_CHECK(preparation.mean.size() == channels && preparation.std.size() == channels,
             "pack: wrong number of means: got ", preparation.mean.size(), ", expected ", channels);
  std::copy(preparation.mean.begin(), preparation.mean.end(), header.mean);
  std::copy(preparation.std.begin(), preparation.std.end(), header.std);
  return header;
}

// The file while it grows, and its hash.
class Output {
 public:
  explicit Output(const std::string& path) : file_(path) {
    const Header nothing_yet{};
    file_.write(&nothing_yet, sizeof nothing_yet);
  }
  uint64_t position() const { return position_; }
  void write(const void* bytes, size_t count) {
    sha_.update(bytes, count);
    file_.write(bytes, count);
    position_ += count;
    index_check_ = crc32c(bytes, count, index_check_);
  }
  /// What is written from here on is the index.
  void begin_index() { index_check_ = 0; }
  void finish(Header header) {
    header.file_bytes = position_;
    header.index_check = index_check_;
    header.head_check = crc32c(&header, offsetof(Header, head_check));
    sha_.update(&header, offsetof(Header, hash));
    header.hash = sha_.digest();
    file_.write_at(0, &header, sizeof header);
    file_.commit();
  }

 private:
  AtomicFile file_;
  Sha256 sha_;
  uint64_t position_ = sizeof(Header);
  uint32_t index_check_ = 0;
};

}  // namespace

void pack_images(const LabelledImages& images, const std::string& path,
                 const PackOptions& options) {
  using Form = PackOptions::Form;
  WICK_CHECK(images.train->size() > 0, "pack: there are no images to train on");
  std::string buffer;
  const bool stored_raw = images.train->read(0, buffer).channels > 0;
  const bool raw = options.form == Form::kRaw || (options.form == Form::kAsTheyAre && stored_raw);
  Header header = make_header(images, raw);
  const Packer packer(options, raw);
  Output out(path);
  std::vector<Entry> index;
  Packed image;
  for (const auto& source : {images.train, images.test}) {
    for (int64_t i = 0; i < source->size(); ++i) {
      packer.make(*source, i, image);
      index.push_back({out.position(), image.bytes.size(), static_cast<uint32_t>(source->label(i)),
                       static_cast<uint32_t>(image.size.height),
                       static_cast<uint32_t>(image.size.width),
                       crc32c(image.bytes.data(), image.bytes.size())});
      out.write(image.bytes.data(), image.bytes.size());
      source->confirm();
      if (options.progress) options.progress(static_cast<int64_t>(index.size()));
    }
  }
  header.index_offset = out.position();
  out.begin_index();
  out.write(index.data(), index.size() * sizeof(Entry));
  for (const std::string& name : images.train->class_names()) {
    WICK_CHECK(name.size() <= kMostNameBytes, "pack: class name too long: got ", name.size(),
               " bytes, expected at most ", kMostNameBytes);
    const auto length = static_cast<uint32_t>(name.size());
    out.write(&length, sizeof length);
    out.write(name.data(), name.size());
  }
  out.finish(header);
}

}  // namespace wick::data
