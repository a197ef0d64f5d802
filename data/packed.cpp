#include "wick/data/packed.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include "wick/core/base/check.h"
#include "wick/core/file.h"
#include "wick/data/detail/crc32c.h"
#include "wick/data/detail/packed_format.h"
#include "wick/data/sha256.h"

namespace wick::data {

namespace {

using namespace packed;

template <class T>
T load(const uint8_t* bytes) {
  static_assert(std::endian::native == std::endian::little);
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

void check_preparation(const std::string& path, const Header& header) {
  const bool known = header.form <= 1 && header.photographs <= 1 && header.flip <= 1 &&
                     header.padding <= kMostPadding &&
                     (header.channels == 1 || header.channels == 3);
  WICK_CHECK(known, path, ": damaged packed file: its header has unknown values");
  for (uint32_t c = 0; c < header.channels; ++c) {
    WICK_CHECK(std::isfinite(header.mean[c]) && std::isfinite(header.std[c]) && header.std[c] > 0,
               path, ": damaged packed file: wrong mean or standard deviation of channel ", c);
  }
}

// The header of a mapped file, checked: every part lies within the file, and nothing else does.
Header read_header(const MappedFile& file) {
  const std::string& path = file.path();
  WICK_CHECK(file.size() >= sizeof(Header), path, ": not a packed file: got ", file.size(),
             " bytes, expected a header of ", sizeof(Header));
  const auto header = load<Header>(file.data());
  WICK_CHECK(std::memcmp(header.magic, kMagic, sizeof kMagic) == 0, path,
             ": not a packed file: it does not start with WICKPACK");
  WICK_CHECK(header.version == kVersion || header.version == kUncheckedVersion, path,
             ": packed file of another version: got ", header.version, ", expected ",
             kUncheckedVersion, " or ", kVersion);
  WICK_CHECK(header.file_bytes == file.size(), path, ": cut off or too long: got ", file.size(),
             " bytes, its header promises ", header.file_bytes);
  // Each count is below the file's size, and that below 2^63, so sums of two do not overflow.
  const uint64_t most = file.size() / sizeof(Entry);
  WICK_CHECK(header.train > 0 && header.train <= most && header.test <= most, path,
             ": damaged packed file: its header promises ", header.train, " and ", header.test,
             " images, expected at most ", most, " in a file of this size");
  const uint64_t index_bytes = (header.train + header.test) * sizeof(Entry);
  const bool inside = header.index_offset >= sizeof(Header) && header.index_offset <= file.size() &&
                      index_bytes <= file.size() - header.index_offset;
  WICK_CHECK(inside, path, ": damaged packed file: its index lies outside: at byte ",
             header.index_offset, " of ", file.size());
  WICK_CHECK(header.classes > 0 && header.classes <= kMostClasses, path,
             ": damaged packed file: wrong number of classes: got ", header.classes,
             ", expected 1 to ", kMostClasses);
  check_preparation(path, header);
  return header;
}

std::vector<std::string> read_names(const MappedFile& file, const Header& header) {
  std::vector<std::string> names;
  uint64_t at = header.index_offset + (header.train + header.test) * sizeof(Entry);
  const auto left = [&] { return file.size() - at; };
  for (uint64_t i = 0; i < header.classes; ++i) {
    const bool has_length = left() >= sizeof(uint32_t);
    const uint32_t length = has_length ? load<uint32_t>(file.data() + at) : 0;
    WICK_CHECK(has_length && length <= kMostNameBytes && length <= left() - sizeof(uint32_t),
               file.path(), ": damaged packed file: the name of class ", i,
               " is cut off or longer "
               "than ",
               kMostNameBytes, " bytes");
    at += sizeof(uint32_t);
    names.emplace_back(reinterpret_cast<const char*>(file.data() + at), length);
    at += length;
  }
  WICK_CHECK(left() == 0, file.path(), ": damaged packed file: got ", left(),
             " bytes after the last class name");
  return names;
}

// Images follow each other without a gap from the header to the index.
void check_entry(const std::string& path, const Header& header, uint64_t i, const Entry& entry,
                 uint64_t expected_offset) {
  WICK_CHECK(entry.offset == expected_offset && entry.offset <= header.index_offset &&
                 entry.length > 0 && entry.length <= header.index_offset - entry.offset,
             path, ": damaged packed file: image ", i, " is out of place: got ", entry.length,
             " bytes at ", entry.offset, ", expected them at ", expected_offset,
             " and to end before ", header.index_offset);
  WICK_CHECK(entry.label < header.classes, path, ": damaged packed file: the label of image ", i,
             " is out of range: got ", entry.label, ", expected less than ", header.classes);
  const bool possible = entry.height > 0 && entry.width > 0 &&
                        (header.version != kUncheckedVersion || entry.check == 0) &&
                        entry.height <= static_cast<uint64_t>(image_limits().pixels) / entry.width;
  WICK_CHECK(possible, path, ": damaged packed file: wrong size of image ", i, ": got ",
             entry.height, " x ", entry.width);
  const uint64_t pixels = uint64_t{entry.height} * entry.width;
  WICK_CHECK(header.form == kEncoded ? entry.length <= kMostImageBytes
                                     : entry.length == pixels * header.channels,
             path, ": damaged packed file: wrong length of image ", i, ": got ", entry.length,
             " bytes for ", entry.height, " x ", entry.width, " pixels");
}

// What is not an image, against its checksums.
void check_sums(const MappedFile& file, const Header& header) {
  if (header.version == kUncheckedVersion) return;
  const uint32_t head = crc32c(&header, offsetof(Header, head_check));
  const uint32_t index = crc32c(file.data() + header.index_offset,
                                static_cast<size_t>(file.size() - header.index_offset));
  file.check();
  WICK_CHECK(head == header.head_check, file.path(),
             ": damaged packed file: its header is not as it was written: got the checksum ", head,
             ", expected ", header.head_check);
  WICK_CHECK(index == header.index_check, file.path(),
             ": damaged packed file: its index is not as it was written: got the checksum ", index,
             ", expected ", header.index_check);
}

}  // namespace

struct PackedFile::State {
  explicit State(const std::string& path) : file(path), header(read_header(file)) {}

  const uint8_t* entry_bytes(int64_t i) const {
    return file.data() + header.index_offset + static_cast<uint64_t>(i) * sizeof(Entry);
  }

  MappedFile file;
  Header header;
  std::vector<std::string> class_names;
  ImageSize size;  // of all images, or 0 x 0
};

PackedFile::PackedFile(const std::string& path) : state_(std::make_unique<State>(path)) {
  const Header& header = state_->header;
  state_->class_names = read_names(state_->file, header);
  uint64_t offset = sizeof(Header);
  for (uint64_t i = 0; i < header.train + header.test; ++i) {
    const auto entry = load<Entry>(state_->entry_bytes(static_cast<int64_t>(i)));
    check_entry(path, header, i, entry, offset);
    offset += entry.length;
    const ImageSize size{entry.height, entry.width};
    if (i == 0) state_->size = size;
    if (!(size == state_->size)) state_->size = {};
  }
  WICK_CHECK(offset == header.index_offset, path, ": damaged packed file: images end at byte ",
             offset, ", expected ", header.index_offset, ", where the index begins");
  WICK_CHECK(header.photographs == 1 || state_->size.height > 0, path,
             ": damaged packed file: images differ in size, but are not called photographs");
  state_->file.check();
  check_sums(state_->file, header);
}

PackedFile::~PackedFile() = default;

std::shared_ptr<const PackedFile> PackedFile::open(const std::string& path) {
  return std::shared_ptr<const PackedFile>(new PackedFile(path));
}

class PackedFile::Source final : public ImageSource {
 public:
  Source(std::shared_ptr<const PackedFile> packed, int64_t first, int64_t count)
      : packed_(std::move(packed)), state_(*packed_->state_), first_(first), count_(count) {}
  int64_t size() const override { return count_; }
  const std::vector<std::string>& class_names() const override { return state_.class_names; }
  ImageSize image_size() const override { return state_.size; }
  int64_t channels() const override { return state_.header.channels; }
  int64_t label(int64_t index) const override { return entry(index).label; }
  std::string name(int64_t index) const override {
    return concat(state_.file.path(), ": image ", first_ + index);
  }
  StoredImage read(int64_t index, std::string&) const override {
    const Entry found = entry(index);
    const std::span<const uint8_t> bytes(state_.file.data() + found.offset, found.length);
    check_bytes(index, found, bytes);
    if (state_.header.form == kEncoded) return {bytes, {}, 0};
    return {bytes, {found.height, found.width}, state_.header.channels};
  }
  void confirm() const override { state_.file.check(); }

 private:
  void check_bytes(int64_t index, const Entry& found, std::span<const uint8_t> bytes) const {
    if (state_.header.version == kUncheckedVersion) return;
    const uint32_t sum = crc32c(bytes.data(), bytes.size());
    if (sum == found.check) return;
    confirm();
    throw Error(concat(name(index), " is not as it was written: got the checksum ", sum,
                       ", expected ", found.check));
  }

  // Checked again, for the file may have been written to meanwhile.
  Entry entry(int64_t index) const {
    const int64_t i = first_ + index;
    const auto found = load<Entry>(state_.entry_bytes(i));
    const ImageSize size{found.height, found.width};
    confirm();
    check_entry(state_.file.path(), state_.header, static_cast<uint64_t>(i), found,
                std::max<uint64_t>(found.offset, sizeof(Header)));
    WICK_CHECK(state_.size.height == 0 || size == state_.size, state_.file.path(),
               ": damaged packed file: wrong size of image ", i, ": got ", size.height, " x ",
               size.width, ", expected ", state_.size.height, " x ", state_.size.width);
    return found;
  }

  std::shared_ptr<const PackedFile> packed_;
  const State& state_;
  int64_t first_, count_;
};

LabelledImages PackedFile::images() const {
  const Header& header = state_->header;
  const auto train = static_cast<int64_t>(header.train), test = static_cast<int64_t>(header.test);
  return {std::make_shared<Source>(shared_from_this(), 0, train),
          std::make_shared<Source>(shared_from_this(), train, test),
          {.photographs = header.photographs == 1,
           .padding = header.padding,
           .flip = header.flip == 1,
           .mean = {header.mean, header.mean + header.channels},
           .std = {header.std, header.std + header.channels}}};
}

std::string PackedFile::content_hash() const { return to_hex(state_->header.hash); }

void PackedFile::check_content() const {
  const MappedFile& file = state_->file;
  Sha256 sha;
  sha.update(file.data() + sizeof(Header), file.size() - sizeof(Header));
  sha.update(file.data(), offsetof(Header, hash));
  const Sha256::Digest digest = sha.digest();
  file.check();
  WICK_CHECK(digest == state_->header.hash, file.path(),
             ": damaged packed file: its content has the SHA-256 ", to_hex(digest), ", expected ",
             content_hash());
}

}  // namespace wick::data
