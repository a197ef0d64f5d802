#include "wick/data/fingerprint.h"

#include <algorithm>

#include "wick/core/base/check.h"
#include "wick/data/sha256.h"

namespace wick::data {

namespace {

constexpr int64_t kMostRead = 64;
constexpr size_t kDigits = 32;

class Fingerprint {
 public:
  void add(int64_t number) { sha_.update(&number, sizeof number); }
  void add(const void* bytes, size_t count) {
    add(static_cast<int64_t>(count));
    sha_.update(bytes, count);
  }
  void add(const std::string& text) { add(text.data(), text.size()); }
  std::string digits() { return to_hex(sha_.digest()).substr(0, kDigits); }

 private:
  Sha256 sha_;
};

// Calls `read` with numbers below `size`, evenly spread.
template <class Read>
void add_some(Fingerprint& print, int64_t size, const Read& read) {
  const int64_t count = std::min(size, kMostRead);
  for (int64_t i = 0; i < count; ++i) {
    try {
      read(i * size / count);
    } catch (const OutOfMemory&) {
      throw;
    } catch (const Error&) {
      print.add("cannot be read");
    }
  }
}

void add_images(Fingerprint& print, const ImageSource& images) {
  print.add(images.size());
  for (const std::string& name : images.class_names()) print.add(name);
  for (int64_t i = 0; i < images.size(); ++i) print.add(images.label(i));
  add_some(print, images.size(), [&](int64_t i) {
    std::string buffer;
    const StoredImage image = images.read(i, buffer);
    print.add(image.size.height);
    print.add(image.size.width);
    print.add(image.bytes.data(), image.bytes.size());
    images.confirm();
  });
}

void add_samples(Fingerprint& print, const Dataset& samples) {
  print.add(samples.size());
  add_some(print, samples.size(), [&](int64_t i) {
    for (const Tensor& field : samples.get(i, PhiloxStream(0, static_cast<uint64_t>(i)))) {
      const Tensor dense = field.contiguous();
      print.add(dense.raw_data(),
                static_cast<size_t>(dense.numel()) * static_cast<size_t>(size_of(dense.dtype())));
    }
  });
}

}  // namespace

std::string fingerprint(const LabelledImages& images) {
  Fingerprint print;
  add_images(print, *images.train);
  add_images(print, *images.test);
  return print.digits();
}

std::string fingerprint(const TrainTest& data) {
  Fingerprint print;
  for (const std::string& name : data.class_names) print.add(name);
  add_samples(print, *data.train);
  if (data.test) add_samples(print, *data.test);
  return print.digits();
}

}  // namespace wick::data
