#include "wick/data/idx.h"

#include <algorithm>
#include <cstdio>

#include "wick/core/base/check.h"
#include "wick/data/detail/files.h"

namespace wick::data {

namespace {

constexpr uint64_t kMostValues = uint64_t{4} << 30;  // MNIST has a hundredth of that

uint32_t big_endian(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

std::string hex(uint32_t value) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", value);
  return text;
}

std::string idx_path(const std::string& data_set, const std::string& data_dir,
                     const std::vector<std::string>& folders, const std::string& stem, int rank) {
  const std::string kind = rank == 1 ? "idx1-ubyte" : "idx3-ubyte";
  const std::string dashed = concat(stem, "-", kind), dotted = concat(stem, ".", kind);
  return find_file(data_set, data_dir, folders, {dashed, dashed + ".gz", dotted, dotted + ".gz"});
}

ImageSet read_mnist_form(const std::string& data_set, const std::string& data_dir,
                         std::vector<std::string> folders, Split split,
                         std::vector<std::string> class_names) {
  folders.insert(folders.begin(), "");
  const std::string stem = split == Split::kTrain ? "train" : "t10k";
  const std::string image_path = idx_path(data_set, data_dir, folders, stem + "-images", 3);
  const std::string label_path = idx_path(data_set, data_dir, folders, stem + "-labels", 1);
  IdxArray images = read_idx(image_path, 3);
  IdxArray labels = read_idx(label_path, 1);
  WICK_CHECK(images.sizes[0] == labels.sizes[0], label_path, ": wrong number of labels: got ",
             labels.sizes[0], ", expected ", images.sizes[0], ", one per image of ", image_path);
  const auto wrong = std::find_if(labels.values.begin(), labels.values.end(),
                                  [&](uint8_t label) { return label >= class_names.size(); });
  WICK_CHECK(wrong == labels.values.end(), label_path, ": label ", wrong - labels.values.begin(),
             " is out of range: got ", static_cast<int>(*wrong), ", expected less than ",
             class_names.size());
  ImageSet set;
  set.height = images.sizes[1];
  set.width = images.sizes[2];
  set.channels = 1;
  set.pixels = std::move(images.values);
  set.labels = std::move(labels.values);
  set.class_names = std::move(class_names);
  return set;
}

}  // namespace

IdxArray read_idx(const std::string& path, int rank) {
  WICK_CHECK(rank >= 1 && rank <= 4, "read_idx: wrong number of axes: got ", rank,
             ", expected 1 to 4");
  UnpackedFile file(path);
  uint8_t word[4];
  file.read(word, 4, "the header");
  const uint32_t magic = big_endian(word), expected = 0x00000800u + static_cast<uint32_t>(rank);
  WICK_CHECK(magic == expected, path, ": wrong magic number: got ", hex(magic), ", expected ",
             hex(expected), " (IDX, unsigned bytes, axes: ", rank, ")");
  IdxArray array;
  uint64_t total = 1;
  for (int axis = 0; axis < rank; ++axis) {
    file.read(word, 4, "the header");
    const uint32_t size = big_endian(word);
    WICK_CHECK(size > 0 && size <= 0x7fffffffu, path, ": size ", axis, " is wrong: got ", size,
               ", expected 1 to 2147483647");
    array.sizes.push_back(size);
    const uint64_t limit = file.most_bytes_left();
    // total stays below 2^63 here: it is at most `limit` before the product
    WICK_CHECK(total <= limit / size, path, ": cut off: its header promises ", size, " x ", total,
               " values or more, expected at most ", limit, " in a file of this size");
    total *= size;
    WICK_CHECK(total <= kMostValues, path, ": too large: its header promises ", total,
               " values or more, expected at most ", kMostValues);
  }
  array.values.resize(total);
  file.read(array.values.data(), total, "the values");
  file.expect_end();
  return array;
}

ImageSet read_mnist(const std::string& data_dir, Split split) {
  return read_mnist_form("mnist", data_dir, {"mnist", "MNIST", "raw", "MNIST/raw"}, split,
                         {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"});
}

ImageSet read_fashion_mnist(const std::string& data_dir, Split split) {
  return read_mnist_form("fashion-mnist", data_dir,
                         {"fashion-mnist", "FashionMNIST", "raw", "FashionMNIST/raw"}, split,
                         {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt",
                          "Sneaker", "Bag", "Ankle boot"});
}

}  // namespace wick::data
