#include "wick/core/detail/safetensors_header.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

namespace wick {

namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr size_t kMaxTensors = 65'536;
constexpr size_t kMaxTextBytes = size_t{1} << 20;

constexpr std::pair<std::string_view, Dtype> kDtypeNames[] = {
    {"F64", kFloat64}, {"F32", kFloat32}, {"F16", kFloat16}, {"BF16", kBFloat16},
    {"I64", kInt64},   {"I32", kInt32},   {"U8", kUint8},    {"BOOL", kBool}};

// The header's bytes, read in pieces: a header may have 100 MB, which need not be kept. Bounds the
// length of texts and of the space between them, which the JSON reader holds more than once.
class HeaderBytes {
 public:
  HeaderBytes(const InputFile& file, uint64_t bytes) : file_(file), end_(8 + bytes) {}

  bool at_end() const { return position_ == end_; }
  char current() {
    if (position_ >= buffered_end_) refill();
    return buffer_[position_ - buffered_begin_];
  }
  void advance() {
    const char c = current();
    if (escaped_) {
      escaped_ = false;
    } else if (in_text_ && c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      in_text_ = !in_text_;
      run_bytes_ = 0;
    }
    WICK_CHECK(++run_bytes_ <= kMaxTextBytes, "safetensors: ", file_.path(),
               ": a text in the header, or the space between two, is longer than ", kMaxTextBytes,
               " bytes");
    ++position_;
  }

 private:
  void refill() {
    buffered_begin_ = position_;
    const size_t bytes = static_cast<size_t>(std::min<uint64_t>(sizeof buffer_, end_ - position_));
    file_.read_at(position_, buffer_, bytes);
    buffered_end_ = position_ + bytes;
    // The JSON reader would take a zero for the end.
    const void* zero = std::memchr(buffer_, 0, bytes);
    WICK_CHECK(zero == nullptr, "safetensors: ", file_.path(),
               ": the header is not valid JSON: it has a zero byte");
  }

  const InputFile& file_;
  uint64_t position_ = 8;
  uint64_t end_;
  uint64_t buffered_begin_ = 0;
  uint64_t buffered_end_ = 0;
  size_t run_bytes_ = 0;
  bool in_text_ = false;
  bool escaped_ = false;
  char buffer_[1 << 16];
};

// HeaderBytes as the JSON reader wants them.
class HeaderIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  explicit HeaderIterator(HeaderBytes* bytes) : bytes_(bytes) {}
  char operator*() const { return bytes_->current(); }
  HeaderIterator& operator++() {
    bytes_->advance();
    return *this;
  }
  HeaderIterator operator++(int) {
    HeaderIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const HeaderIterator& a, const HeaderIterator& b) {
    return a.done() == b.done();
  }
  friend bool operator!=(const HeaderIterator& a, const HeaderIterator& b) { return !(a == b); }

 private:
  bool done() const { return bytes_ == nullptr || bytes_->at_end(); }
  HeaderBytes* bytes_;
};

// Takes the header's JSON event by event and accepts only what the format allows:
// {"__metadata__": {text: text...}, name: {"dtype": text, "shape": [...], "data_offsets": [b, e]}}
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(const std::string& path, SafetensorsHeader& header) : path_(path), header_(header) {}

  bool start_object(std::size_t) override {
    switch (place_) {
      case Place::kStart: place_ = Place::kTop; return true;
      case Place::kTopValue: break;
      default: fail("an object where none belongs");
    }
    if (name_ == "__metadata__") {
      check(!seen_metadata_, "__metadata__ appears twice");
      seen_metadata_ = true;
      place_ = Place::kMetadata;
      return true;
    }
    check(header_.entries.size() < kMaxTensors,
          concat("more than ", kMaxTensors, " tensors in one file"));
    const auto [entry, inserted] = header_.entries.try_emplace(name_);
    check(inserted, "tensor '" + name_ + "' appears twice");
    entry_ = &entry->second;
    seen_dtype_ = seen_shape_ = seen_offsets_ = false;
    place_ = Place::kEntry;
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kEntry) {
      check(seen_dtype_ && seen_shape_ && seen_offsets_,
            of_tensor() + "dtype, shape or data_offsets is missing");
    }
    place_ = Place::kTop;
    return true;
  }

  bool key(std::string& key) override {
    switch (place_) {
      case Place::kTop:
        name_ = std::move(key);
        place_ = Place::kTopValue;
        break;
      case Place::kMetadata:
        key_ = std::move(key);
        check(!header_.metadata.contains(key_), "metadata key '" + key_ + "' appears twice");
        place_ = Place::kMetadataValue;
        break;
      default: entry_key(key);
    }
    return true;
  }

  bool string(std::string& value) override {
    if (place_ == Place::kMetadataValue) {
      header_.metadata.emplace(std::move(key_), std::move(value));
      place_ = Place::kMetadata;
      return true;
    }
    check(place_ == Place::kDtype, where() + "a text where none belongs");
    const auto* known = std::find_if(std::begin(kDtypeNames), std::end(kDtypeNames),
                                     [&](const auto& pair) { return pair.first == value; });
    check(known != std::end(kDtypeNames),
          of_tensor() + "dtype '" + value.substr(0, 64) +
              "' is not supported, expected F64, F32, F16, BF16, I64, I32, U8 or BOOL");
    entry_->dtype = known->second;
    place_ = Place::kEntry;
    return true;
  }

  bool start_array(std::size_t) override {
    check((place_ == Place::kShape || place_ == Place::kOffsets) && !in_list_,
          where() + "a list where none belongs");
    in_list_ = true;
    list_.clear();
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    check(in_list_, where() + "a number where none belongs");
    check(list_.size() < (place_ == Place::kShape ? size_t{kMaxRank} : 2),
          place_ == Place::kShape
              ? of_tensor() + concat("its rank is above ", kMaxRank, ", the most that is supported")
              : of_tensor() + "data_offsets has more than 2 numbers");
    list_.push_back(value);
    return true;
  }

  bool end_array() override {
    in_list_ = false;
    if (place_ == Place::kShape) {
      for (const uint64_t size : list_) {
        check(size <= INT64_MAX, of_tensor() + concat("size ", size, " is too large"));
        entry_->shape.push_back(static_cast<int64_t>(size));
      }
    } else {
      check(list_.size() == 2, of_tensor() + "data_offsets needs 2 numbers");
      entry_->begin = list_[0];
      entry_->end = list_[1];
    }
    place_ = Place::kEntry;
    return true;
  }

  bool null() override { fail(where() + "null where none belongs"); }
  bool boolean(bool) override { fail(where() + "a boolean where none belongs"); }
  bool binary(binary_t&) override { fail("binary data in the header"); }
  bool number_integer(number_integer_t value) override {
    fail(where() + concat("negative number ", value));
  }
  bool number_float(number_float_t, const string_t& text) override {
    fail(where() + "'" + text.substr(0, 64) + "' is not an integer below 2^64");
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    fail(concat("the header is not valid JSON at its byte ", position));
  }

 private:
  enum class Place {
    kStart,
    kTop,
    kTopValue,
    kMetadata,
    kMetadataValue,
    kEntry,
    kDtype,
    kShape,
    kOffsets,
  };

  void entry_key(const std::string& key) {
    bool* seen = nullptr;
    if (key == "dtype") {
      seen = &seen_dtype_;
      place_ = Place::kDtype;
    } else if (key == "shape") {
      seen = &seen_shape_;
      place_ = Place::kShape;
    } else if (key == "data_offsets") {
      seen = &seen_offsets_;
      place_ = Place::kOffsets;
    } else {
      fail(of_tensor() + "unknown key '" + key.substr(0, 64) + "'");
    }
    check(!*seen, of_tensor() + key + " appears twice");
    *seen = true;
  }

  std::string of_tensor() const { return "tensor '" + name_.substr(0, 256) + "': "; }
  std::string where() const {
    switch (place_) {
      case Place::kStart: return "instead of an object: ";
      case Place::kTop:
      case Place::kTopValue: return "'" + name_.substr(0, 256) + "': ";
      case Place::kMetadata:
      case Place::kMetadataValue: return "metadata: ";
      default: return of_tensor();
    }
  }
  void check(bool condition, const std::string& what) const {
    if (!condition) fail(what);
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error("safetensors: " + path_ + ": " + what);
  }

  const std::string& path_;
  SafetensorsHeader& header_;
  Place place_ = Place::kStart;
  std::string name_;
  std::string key_;
  SafetensorsEntry* entry_ = nullptr;
  std::vector<uint64_t> list_;
  bool in_list_ = false;
  bool seen_metadata_ = false;
  bool seen_dtype_ = false;
  bool seen_shape_ = false;
  bool seen_offsets_ = false;
};

uint64_t read_header_length(const InputFile& file) {
  WICK_CHECK(file.size() >= 8, "safetensors: ", file.path(), ": the file has ", file.size(),
             " bytes, expected at least 8");
  unsigned char bytes[8];
  file.read_at(0, bytes, sizeof bytes);
  const bool zip = std::memcmp(bytes, "PK\x03\x04", 4) == 0;
  const bool pickle = bytes[0] == 0x80 && bytes[1] <= 5;
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | bytes[i];
  if ((zip || pickle) && length > kMaxHeaderBytes) {
    throw Error("safetensors: " + file.path() +
                ": this is a Python pickle, which is never read: convert it in Python with "
                "safetensors.torch.save_file");
  }
  WICK_CHECK(length <= kMaxHeaderBytes, "safetensors: ", file.path(), ": the header has ", length,
             " bytes, expected at most ", kMaxHeaderBytes, ": this is no safetensors file");
  WICK_CHECK(length <= file.size() - 8, "safetensors: ", file.path(), ": the header has ", length,
             " bytes, but only ", file.size() - 8, " are in the file");
  return length;
}

// Bytes of a tensor; an error where its size, or its strides if it has none, overflow.
uint64_t entry_bytes(const std::string& path, const std::string& name,
                     const SafetensorsEntry& entry) {
  int64_t bytes = size_of(entry.dtype);
  for (const int64_t size : entry.shape) {
    WICK_CHECK(!__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes),
               "safetensors: ", path, ": tensor '", name, "': shape ", entry.shape, " overflows");
  }
  return entry.shape.numel() == 0 ? 0 : static_cast<uint64_t>(bytes);
}

void check_entries(const InputFile& file, const SafetensorsHeader& header) {
  std::vector<const std::pair<const std::string, SafetensorsEntry>*> in_order;
  in_order.reserve(header.entries.size());
  const uint64_t available = file.size() - header.data_start;
  for (const auto& item : header.entries) {
    const auto& [name, entry] = item;
    WICK_CHECK(entry.begin <= entry.end && entry.end <= available, "safetensors: ", file.path(),
               ": tensor '", name, "': data_offsets [", entry.begin, ", ", entry.end,
               "] are not within the ", available, " bytes of data");
    const uint64_t bytes = entry_bytes(file.path(), name, entry);
    WICK_CHECK(entry.end - entry.begin == bytes, "safetensors: ", file.path(), ": tensor '", name,
               "': data_offsets span ", entry.end - entry.begin, " bytes, expected ", bytes);
    in_order.push_back(&item);
  }
  std::sort(in_order.begin(), in_order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  uint64_t covered = 0;
  for (const auto* item : in_order) {
    WICK_CHECK(item->second.begin == covered, "safetensors: ", file.path(), ": tensor '",
               item->first, "': its data starts at ", item->second.begin,
               item->second.begin < covered ? " and overlaps that before it, which ends at "
                                            : " and leaves a hole after that before it, which "
                                              "ends at ",
               covered);
    covered = item->second.end;
  }
  WICK_CHECK(covered == available, "safetensors: ", file.path(), ": ", available - covered,
             " bytes after the last tensor belong to none");
}

}  // namespace

std::string_view safetensors_dtype_name(Dtype dtype) {
  for (const auto& [name, value] : kDtypeNames) {
    if (value == dtype) return name;
  }
  unsupported_dtype(dtype);
}

SafetensorsHeader read_safetensors_header(const InputFile& file) {
  const uint64_t length = read_header_length(file);
  SafetensorsHeader header;
  header.data_start = 8 + length;
  HeaderBytes bytes(file, length);
  WICK_CHECK(length > 0 && bytes.current() != '\xEF', "safetensors: ", file.path(),
             ": the header is not valid JSON at its byte 1");
  HeaderReader reader(file.path(), header);
  nlohmann::json::sax_parse(HeaderIterator(&bytes), HeaderIterator(nullptr), &reader);
  check_entries(file, header);
  return header;
}

}  // namespace wick
