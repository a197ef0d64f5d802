#include "wick/data/cifar.h"

#include <string_view>
#include <vector>

#include "wick/core/base/check.h"
#include "wick/core/file.h"
#include "wick/data/detail/files.h"

namespace wick::data {

namespace {

constexpr uint64_t kPixels = 32 * 32, kChannels = 3;
constexpr uint64_t kMostImages = 1 << 20;  // per file; the originals have 10,000 or 50,000

// How a record begins: label bytes, of which the last is the one to use.
struct Layout {
  uint64_t label_bytes;
  uint64_t classes;
  uint64_t record() const { return label_bytes + kPixels * kChannels; }
};

void append_file(const std::string& path, const Layout& layout, ImageSet& set) {
  const InputFile file(path);
  const uint64_t bytes = file.size(), count = bytes / layout.record();
  WICK_CHECK(bytes > 0 && bytes % layout.record() == 0, path, ": wrong size: got ", bytes,
             " bytes, expected a multiple of ", layout.record(), " (", layout.label_bytes,
             layout.label_bytes == 1 ? " label byte" : " label bytes", " and 3 x 32 x 32 pixels)");
  WICK_CHECK(count <= kMostImages, path, ": too large: got ", count, " images, expected at most ",
             kMostImages);
  uint64_t at = set.pixels.size();
  set.pixels.resize(at + count * kPixels * kChannels);
  std::vector<uint8_t> record(layout.record());
  for (uint64_t i = 0; i < count; ++i) {
    file.read_at(i * record.size(), record.data(), record.size());
    const uint8_t label = record[layout.label_bytes - 1];
    WICK_CHECK(label < layout.classes, path, ": the label of image ", i, " is out of range: got ",
               static_cast<int>(label), ", expected less than ", layout.classes);
    set.labels.push_back(label);
    const uint8_t* planes = record.data() + layout.label_bytes;
    for (uint64_t p = 0; p < kPixels; ++p) {
      for (uint64_t c = 0; c < kChannels; ++c) set.pixels[at++] = planes[c * kPixels + p];
    }
  }
}

constexpr std::string_view kCifar10Classes =
    "airplane automobile bird cat deer dog frog horse ship truck";
constexpr std::string_view kCifar100Classes =
    "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus "
    "butterfly camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch "
    "crab crocodile cup dinosaur dolphin elephant flatfish forest fox girl hamster house "
    "kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle "
    "mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree "
    "plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark "
    "shrew skunk skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table "
    "tank telephone television tiger tractor train trout tulip turtle wardrobe whale "
    "willow_tree wolf woman worm";

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> list(1);
  for (const char c : text) {
    if (c == ' ') {
      list.emplace_back();
    } else {
      list.back() += c;
    }
  }
  return list;
}

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

ImageSet empty_set(std::string_view class_names) {
  ImageSet set;
  set.class_names = words(class_names);
  set.height = set.width = 32;
  set.channels = kChannels;
  return set;
}

}  // namespace

ImageSet read_cifar10(const std::string& data_dir, Split split) {
  const bool train = split == Split::kTrain;
  const std::string first = find_file("cifar10", data_dir, {"", "cifar-10-batches-bin"},
                                      {train ? "data_batch_1.bin" : "test_batch.bin"});
  ImageSet set = empty_set(kCifar10Classes);
  const Layout layout{.label_bytes = 1, .classes = 10};
  append_file(first, layout, set);
  for (int batch = 2; train && batch <= 5; ++batch) {
    append_file(concat(folder_of(first), "/data_batch_", batch, ".bin"), layout, set);
  }
  return set;
}

ImageSet read_cifar100(const std::string& data_dir, Split split) {
  const std::string path = find_file("cifar100", data_dir, {"", "cifar-100-binary"},
                                     {split == Split::kTrain ? "train.bin" : "test.bin"});
  ImageSet set = empty_set(kCifar100Classes);
  append_file(path, {.label_bytes = 2, .classes = 100}, set);
  return set;
}

}  // namespace wick::data
