#include "wick/data/packed.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>

#include "wick/core/file.h"
#include "wick/data/detail/crc32c.h"
#include "wick/data/detail/packed_format.h"
#include "wick/data/image_dataset.h"
#include "wick/data/loader.h"
#include "wick/tests/data/jpeg_testing.h"
#include "wick/tests/harness/sanitized.h"

namespace wick::data {
namespace {

using Form = PackOptions::Form;
using packed::Entry;
using packed::Header;

// Images of 2 x 3 pixels, each byte other than the one before.
std::shared_ptr<ImageSet> small_set(uint8_t count, int64_t channels) {
  auto set = std::make_shared<ImageSet>();
  set->height = 2, set->width = 3, set->channels = channels;
  for (int64_t i = 0; i < count * set->bytes_per_image(); ++i) {
    set->pixels.push_back(static_cast<uint8_t>(7 * i));
  }
  for (uint8_t i = 0; i < count; ++i) set->labels.push_back(i % 3);
  set->class_names = {"ant", "bee", "cow"};
  return set;
}

LabelledImages small_images() {
  return {image_source(small_set(5, 1)),
          image_source(small_set(2, 1)),
          {.padding = 1, .flip = true, .mean = {0.25f}, .std = {0.5f}}};
}

Bytes contents(const std::string& path) {
  const std::string text = read_file(path, 1 << 20);
  return Bytes(text.begin(), text.end());
}

// Expects the images of `source` to be those of `want`.
void expect_same(const ImageSource& source, const ImageSource& want) {
  ASSERT_EQ(source.size(), want.size());
  std::string buffer, other;
  for (int64_t i = 0; i < want.size(); ++i) {
    const StoredImage a = source.read(i, buffer), b = want.read(i, other);
    EXPECT_EQ(Bytes(a.bytes.begin(), a.bytes.end()), Bytes(b.bytes.begin(), b.bytes.end()));
    EXPECT_EQ(a.size, b.size);
    EXPECT_EQ(a.channels, b.channels);
    EXPECT_EQ(source.label(i), want.label(i));
  }
  EXPECT_EQ(source.class_names(), want.class_names());
}

TEST(Packed, RawImagesComeBackWithoutACopy) {
  const TemporaryFolder folder;
  const LabelledImages images = small_images();
  pack_images(images, folder.path("p"));
  const auto file = PackedFile::open(folder.path("p"));
  file->check_content();
  const LabelledImages got = file->images();
  expect_same(*got.train, *images.train);
  expect_same(*got.test, *images.test);
  EXPECT_EQ(got.train->image_size(), (ImageSize{2, 3}));
  EXPECT_EQ(got.preparation.padding, 1);
  EXPECT_TRUE(got.preparation.flip);
  EXPECT_FALSE(got.preparation.photographs);
  EXPECT_EQ(got.preparation.mean, std::vector<float>{0.25f});
  EXPECT_EQ(got.preparation.std, std::vector<float>{0.5f});
  std::string buffer;
  const uint8_t* first = got.train->read(0, buffer).bytes.data();
  EXPECT_EQ(got.train->read(1, buffer).bytes.data(), first + 6);
  EXPECT_TRUE(buffer.empty());
  EXPECT_EQ(got.test->name(1), folder.path("p") + ": image 6");
}

TEST(Packed, TrainsOnTheSameBatches) {
  const TemporaryFolder folder;
  const auto word = [](uint8_t value) { return Bytes{0, 0, 0, value}; };
  for (const char* stem : {"train", "t10k"}) {
    Bytes pixels = Bytes{0, 0, 8, 3} + word(20) + word(5) + word(4),
          labels{0, 0, 8, 1, 0, 0, 0, 20};
    for (uint8_t i = 0; i < 200; ++i) pixels = pixels + Bytes{i, static_cast<uint8_t>(3 * i)};
    for (uint8_t i = 0; i < 20; ++i) labels.push_back(i % 10);
    folder.write(concat(stem, "-images-idx3-ubyte"), pixels);
    folder.write(concat(stem, "-labels-idx1-ubyte"), labels);
  }
  pack_images(open_images("fashion-mnist", folder.path()), folder.path("p"));
  const TrainTest a = open_data("fashion-mnist", folder.path());
  const TrainTest b = open_data("packed", folder.path("p"));
  EXPECT_EQ(a.class_names, b.class_names);
  for (const auto& [x, y] : {std::pair{a.train, b.train}, std::pair{a.test, b.test}}) {
    const DataLoaderOptions options{.batch_size = 20, .shuffle = true, .seed = 0};
    DataLoader one(x, options), two(y, options);
    const Batch left = *one.next(), right = *two.next();
    ASSERT_EQ(left[0].shape(), right[0].shape());
    EXPECT_EQ(std::memcmp(left[0].raw_data(), right[0].raw_data(), 1600), 0);
    EXPECT_EQ(std::memcmp(left[1].raw_data(), right[1].raw_data(), 160), 0);
  }
}

// A folder with JPEGs of 30 x 40 pixels and of 50 x 20.
class PackedFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    Bytes pixels;
    for (int i = 0; i < 1200; ++i) pixels = pixels + Bytes{100, static_cast<uint8_t>(i / 40), 50};
    folder_.write("train/a/1.jpg", jpeg_of(pixels, 30, 40));
    folder_.write("train/b/1.jpg", jpeg_of(first(pixels, 3000), 50, 20));
    folder_.write("test/b/1.jpg", jpeg_of(pixels, 30, 40));
  }
  LabelledImages pack(const PackOptions& options) {
    pack_images(open_images("imagefolder", folder_.path()), folder_.path("p"), options);
    const auto file = PackedFile::open(folder_.path("p"));
    file->check_content();
    return file->images();
  }
  TemporaryFolder folder_;
};

TEST_F(PackedFolder, FilesAreKeptAsTheyAre) {
  for (const Form form : {Form::kAsTheyAre, Form::kJpeg}) {
    const LabelledImages got = pack({.form = form});
    expect_same(*got.train, *open_images("imagefolder", folder_.path()).train);
    EXPECT_EQ(got.train->image_size(), ImageSize{});
    EXPECT_TRUE(got.preparation.photographs);
  }
  EXPECT_EQ(open_data("packed", folder_.path("p"), 16).sample().shape, (Shape{3, 16, 16}));
}

TEST_F(PackedFolder, CanBeDecoded) {
  const LabelledImages got = pack({.form = Form::kRaw});
  std::string buffer;
  const StoredImage stored = got.train->read(1, buffer);
  EXPECT_EQ(stored.size, (ImageSize{50, 20}));
  EXPECT_EQ(stored.channels, 3);
  Image want;
  read_image(folder_.path("train/b/1.jpg"), want);
  EXPECT_EQ(Bytes(stored.bytes.begin(), stored.bytes.end()), want.pixels);
}

TEST_F(PackedFolder, OnlyLargeImagesAreMadeSmaller) {
  for (const Form form : {Form::kRaw, Form::kJpeg}) {
    const LabelledImages got = pack({.form = form, .shorter_side = 24});
    std::string buffer;
    Image image;
    for (const auto& [index, size] :
         {std::pair{0, ImageSize{24, 32}}, std::pair{1, ImageSize{50, 20}}}) {
      const StoredImage stored = got.train->read(index, buffer);
      if (form == Form::kRaw) {
        EXPECT_EQ(stored.size, size);
      } else {
        decode_image(stored.bytes, "image", image);
        EXPECT_EQ((ImageSize{image.height, image.width}), size);
      }
    }
  }
}

TEST_F(PackedFolder, DamagedImagesAreErrorsThatNameTheFile) {
  const std::string bad = folder_.write("train/b/2.jpg", {0xff, 0xd8, 0xff, 0xd9});
  expect_error([&] { pack({}); }, {bad, "damaged JPEG"});
  EXPECT_FALSE(std::filesystem::exists(folder_.path("p")));
}

TEST(PackedErrors, GreyImagesAreNotPackedAsJpegs) {
  const TemporaryFolder folder;
  expect_error([&] { pack_images(small_images(), folder.path("p"), {.form = Form::kJpeg}); },
               {"grey"});
}

// Writes the small file changed by `change`, and expects the error that opening it gives.
class PackedDamage : public ::testing::Test {
 protected:
  void SetUp() override {
    pack_images(small_images(), folder_.path("p"));
    bytes_ = contents(folder_.path("p"));
    std::memcpy(&header_, bytes_.data(), sizeof header_);
  }
  void expect(const Bytes& bytes, const std::vector<std::string>& parts) const {
    const std::string path = folder_.write("bad", bytes);
    expect_error([&] { PackedFile::open(path); }, {path});
    expect_error([&] { PackedFile::open(path); }, parts);
  }
  template <class Change>
  void expect_header(const Change& change, const std::vector<std::string>& parts) const {
    Header header = header_;
    change(header);
    Bytes bytes = bytes_;
    std::memcpy(bytes.data(), &header, sizeof header);
    expect(bytes, parts);
  }
  template <class Change>
  void expect_entry(size_t i, const Change& change, const std::vector<std::string>& parts) const {
    Bytes bytes = bytes_;
    uint8_t* at = bytes.data() + header_.index_offset + i * sizeof(Entry);
    Entry entry;
    std::memcpy(&entry, at, sizeof entry);
    change(entry);
    std::memcpy(at, &entry, sizeof entry);
    expect(bytes, parts);
  }
  TemporaryFolder folder_;
  Bytes bytes_;
  Header header_;
};

TEST_F(PackedDamage, EveryCutIsAnError) {
  for (size_t count = 0; count < bytes_.size(); count += 1 + count / 8) {
    expect(first(bytes_, count), {count < sizeof(Header) ? "not a packed file" : "cut off"});
  }
  expect(bytes_ + Bytes{0}, {"too long"});
}

TEST_F(PackedDamage, WrongHeadersAreErrors) {
  expect_header([](Header& h) { h.magic[0] = 'w'; }, {"WICKPACK"});
  expect_header([](Header& h) { h.version = 3; }, {"another version", "got 3"});
  for (const uint64_t count : {uint64_t{0}, uint64_t{1} << 58, UINT64_MAX, UINT64_MAX - 1}) {
    expect_header([&](Header& h) { h.train = count; }, {"damaged"});
  }
  for (const uint64_t count : {uint64_t{3}, uint64_t{1} << 59, UINT64_MAX}) {
    expect_header([&](Header& h) { h.test = count; }, {"damaged"});
    expect_header([&](Header& h) { h.classes = count + 1; }, {"class"});
  }
  for (const uint64_t offset : {uint64_t{0}, uint64_t{191}, header_.index_offset + 1, UINT64_MAX}) {
    expect_header([&](Header& h) { h.index_offset = offset; }, {"damaged"});
  }
  expect_header([](Header& h) { h.classes = 2; }, {"after the last class name"});
  expect_header([](Header& h) { h.form = 2; }, {"unknown values"});
  expect_header([](Header& h) { h.channels = 2; }, {"unknown values"});
  expect_header([](Header& h) { h.channels = 3; }, {"mean or standard deviation"});
  expect_header([](Header& h) { h.photographs = 2; }, {"unknown values"});
  expect_header([](Header& h) { h.padding = 1u << 31; }, {"unknown values"});
  expect_header([](Header& h) { h.std[0] = 0; }, {"standard deviation"});
  expect_header([](Header& h) { h.mean[0] = NAN; }, {"mean"});
  expect_header([](Header& h) { h.padding ^= 2; }, {"its header is not as it was written"});
  expect_header([](Header& h) { h.mean[0] *= 2; }, {"its header is not as it was written"});
}

TEST_F(PackedDamage, WrongIndicesAreErrors) {
  for (const uint64_t offset : {uint64_t{0}, uint64_t{193}, uint64_t{1} << 62, UINT64_MAX}) {
    expect_entry(0, [&](Entry& e) { e.offset = offset; }, {"image 0", "out of place"});
  }
  for (const uint64_t length : {uint64_t{0}, uint64_t{1} << 40, UINT64_MAX, UINT64_MAX - 191}) {
    expect_entry(2, [&](Entry& e) { e.length = length; }, {"image 2", "out of place"});
  }
  expect_entry(2, [](Entry& e) { e.length = 5; }, {"image 2", "wrong length", "got 5"});
  expect_entry(3, [](Entry& e) { e.label = 3; }, {"image 3", "label", "less than 3"});
  expect_entry(3, [](Entry& e) { e.height = 0; }, {"image 3", "wrong size"});
  expect_entry(3, [](Entry& e) { e.height = e.width = 0x10000; }, {"image 3", "wrong size"});
  expect_entry(3, [](Entry& e) { e.height = e.width = UINT32_MAX; }, {"image 3", "wrong size"});
  expect_entry(3, [](Entry& e) { ++e.check; }, {"its index is not as it was written"});
  expect_entry(3, [](Entry& e) { e.label ^= 1; }, {"its index is not as it was written"});
  expect_entry(6, [](Entry& e) { e.height = 3, e.width = 2; }, {"differ in size"});
}

TEST_F(PackedDamage, WrongNamesAreErrors) {
  Bytes bytes = bytes_;
  const size_t names = header_.index_offset + 7 * sizeof(Entry);
  ASSERT_EQ(bytes[names], 3);
  for (const uint8_t length : {2, 4, 200}) {
    bytes[names] = length;
    expect(bytes, {"class"});
  }
  bytes = bytes_;
  bytes[names + 3] = 0xff;
  expect(bytes, {"class 0", "cut off"});
}

// The file as it was written before there were checksums.
Bytes unchecked(Bytes bytes) {
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  header.version = packed::kUncheckedVersion;
  header.index_check = header.head_check = 0;
  for (uint64_t i = 0; i < header.train + header.test; ++i) {
    std::memset(bytes.data() + header.index_offset + i * sizeof(Entry) + offsetof(Entry, check), 0,
                sizeof(Entry::check));
  }
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

TEST_F(PackedDamage, ChangedContentIsFoundWhenAskedFor) {
  PackedFile::open(folder_.path("p"))->check_content();
  for (const size_t at : {sizeof(Header), sizeof(Header) + 41, bytes_.size() - 1, size_t{64}}) {
    Bytes bytes = unchecked(bytes_);
    bytes[at] ^= at == 64 ? 2 : 1;  // there: padding of 3 pixels, not 1
    const std::string path = folder_.write("bad", bytes);
    const auto file = PackedFile::open(path);
    expect_error([&] { file->check_content(); }, {path, "SHA-256", file->content_hash()});
  }
}

TEST_F(PackedDamage, EachFlippedBitIsFoundAsItIsRead) {
  for (size_t bit = 0; bit < 8 * bytes_.size(); ++bit) {
    if (bit / 8 >= offsetof(Header, zero) && bit / 8 < sizeof(Header)) continue;
    Bytes bytes = bytes_;
    bytes[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    const std::string path = folder_.write("bad", bytes);
    const auto read_all = [&] {
      const LabelledImages images = PackedFile::open(path)->images();
      std::string buffer;
      for (const auto& source : {images.train, images.test}) {
        for (int64_t i = 0; i < source->size(); ++i) source->read(i, buffer);
      }
    };
    EXPECT_THROW(read_all(), Error) << "bit " << bit;
  }
}

TEST_F(PackedDamage, FilesWithoutChecksumsAreReadAsTheyWere) {
  const auto file = PackedFile::open(folder_.write("old", unchecked(bytes_)));
  const auto images = file->images().train,
             whole = PackedFile::open(folder_.path("p"))->images().train;
  std::string buffer, other;
  for (int64_t i = 0; i < whole->size(); ++i) {
    const auto a = images->read(i, buffer).bytes, b = whole->read(i, other).bytes;
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end()));
  }
}

TEST(Crc32c, IsThatOfTheStandard) {
  EXPECT_EQ(crc32c("123456789", 9), 0xe3069283);
  EXPECT_EQ(crc32c_by_table("123456789", 9), 0xe3069283);
  const Bytes zeros(32);
  EXPECT_EQ(crc32c(zeros.data(), 32), 0x8a9136aa);
  EXPECT_EQ(crc32c_by_table(zeros.data(), 32), 0x8a9136aa);
  EXPECT_EQ(crc32c("456789", 6, crc32c("123", 3)), 0xe3069283);
}

TEST(Crc32c, IsTheSameByWhateverWay) {
  Bytes bytes(5000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * i >> 3);
  for (const size_t count : {0, 7, 8, 1535, 1536, 1537, 3071, 3072, 4608, 4999}) {
    const uint32_t before = crc32c_by_table(bytes.data(), 1);
    EXPECT_EQ(crc32c(bytes.data() + 1, count, before),
              crc32c_by_table(bytes.data() + 1, count, before))
        << count << " bytes";
  }
}

// A file of several pages that is cut, or written to, while it is open.
class PackedChange : public ::testing::Test {
 protected:
  void SetUp() override {
    auto set = std::make_shared<ImageSet>();
    set->height = set->width = 64, set->channels = 3;
    set->pixels.assign(static_cast<size_t>(20 * set->bytes_per_image()), 7);
    set->labels.assign(20, 1);
    set->class_names = {"ant", "bee"};
    const Normalize normalize = normalize_by(*set);
    pack_images(
        {image_source(set), image_source(set), {.mean = normalize.mean(), .std = normalize.std()}},
        path_);
    file_ = PackedFile::open(path_);
  }
  std::shared_ptr<const Dataset> dataset() const {
    return std::make_shared<ImageDataset>(file_->images().train, Transforms(), std::nullopt);
  }
  TemporaryFolder folder_;
  std::string path_ = folder_.path("p");
  std::shared_ptr<const PackedFile> file_;
};

TEST_F(PackedChange, AFileThatShrinksIsAnErrorWhenItsTurnHasCome) {
  for (const int workers : {0, 2}) {
    SetUp();
    DataLoader loader(dataset(), {.batch_size = 5, .num_workers = workers});
    loader.next();
    std::filesystem::resize_file(path_, 100);
    int errors = 0;
    for (int i = 0; i < 8; ++i) {  // what workers have read before is still given
      try {
        loader.next();
      } catch (const Error& error) {
        ++errors;
        EXPECT_NE(std::string(error.what()).find("p: cannot be read any more"), std::string::npos)
            << error.what();
      }
    }
    EXPECT_GE(errors, 3);
    expect_error([&] { file_->check_content(); }, {"p: cannot be read any more"});
    expect_error([&] { pack_images(file_->images(), folder_.path("q")); },
                 {"p: cannot be read any more"});
    EXPECT_FALSE(std::filesystem::exists(folder_.path("q")));
  }
}

TEST_F(PackedChange, AnIndexThatChangesIsAnError) {
  std::vector<Entry> index(40);
  const uint64_t at = sizeof(Header) + 40 * 64 * 64 * 3;
  std::memcpy(index.data(), contents(path_).data() + at, 40 * sizeof(Entry));
  const auto images = file_->images().train;
  std::string buffer;
  const auto change = [&](const std::function<void(Entry&)>& how) {
    Entry entry = index[3];
    how(entry);
    std::fstream out(path_, std::ios::binary | std::ios::in | std::ios::out);
    out.seekp(static_cast<std::streamoff>(at + 3 * sizeof entry));
    out.write(reinterpret_cast<const char*>(&entry), sizeof entry);
    out.close();
    expect_error([&] { images->read(3, buffer); }, {path_, "image 3"});
    expect_error([&] { images->label(3); }, {path_, "image 3"});
  };
  images->read(3, buffer);
  change([](Entry& e) { e.offset = UINT64_MAX - 100; });
  change([](Entry& e) { e.offset = 0; });
  change([](Entry& e) { e.length = 1 << 30; });
  change([](Entry& e) { e.label = 2; });
  change([](Entry& e) { e.height = 32, e.length /= 2; });
}

TEST_F(PackedChange, OtherMemoryErrorsStillEndTheProcess) {
  if (testing::kSanitized) GTEST_SKIP() << "sanitizers tell of them in their way";
  const auto touch = [&] {
    const int other = ::open(folder_.write("other", Bytes(8192)).c_str(), O_RDWR);
    const auto* bytes =
        static_cast<const char*>(mmap(nullptr, 8192, PROT_READ, MAP_PRIVATE, other, 0));
    if (ftruncate(other, 0) != 0) return;
    std::exit(bytes[5000]);
  };
  EXPECT_EXIT(touch(), ::testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(raise(SIGBUS), ::testing::KilledBySignal(SIGBUS), "");
}

TEST(PackedErrors, AFullDiskLeavesNothingBehind) {
  const TemporaryFolder folder;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  for (const rlim_t most : {0, 100, 200, 220, 300, 440}) {
    const rlimit limit{most, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    expect_error([&] { pack_images(small_images(), folder.path("p")); }, {folder.path("p")});
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  }
}

TEST(Sha256, IsThatOfTheStandard) {
  Sha256 sha;
  sha.update("a", 1);
  sha.update("bc", 2);
  EXPECT_EQ(to_hex(sha.digest()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const TemporaryFolder folder;
  EXPECT_EQ(sha256_of_file(folder.write("empty", {})),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_of_file(folder.write("abc", {'a', 'b', 'c'})),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace wick::data
