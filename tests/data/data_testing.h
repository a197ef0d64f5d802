#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "wick/core/base/check.h"
#include "wick/data/image_io.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/temporary_folder.h"

namespace wick::data {

using wick::testing::expect_error;
using Bytes = std::vector<uint8_t>;

/// A folder for a test's own data files.
class TemporaryFolder : public wick::testing::TemporaryFolder {
 public:
  /// Writes a file, with the folders it needs, and returns its path.
  std::string write(const std::string& name, const Bytes& bytes) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream out(path(name), std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
    return path(name);
  }
};

/// The picture in `bytes`, a file in memory.
inline Image decode(const Bytes& bytes) {
  Image image;
  decode_image(bytes, "a.file", image);
  return image;
}

/// `bytes` as one gzip member.
inline Bytes gzip(const Bytes& bytes) {
  z_stream z{};
  if (deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) std::abort();
  Bytes packed(deflateBound(&z, bytes.size()) + 64);
  Bytes input = bytes;
  z.next_in = input.data();
  z.avail_in = static_cast<uInt>(input.size());
  z.next_out = packed.data();
  z.avail_out = static_cast<uInt>(packed.size());
  if (deflate(&z, Z_FINISH) != Z_STREAM_END) std::abort();
  packed.resize(z.total_out);
  deflateEnd(&z);
  return packed;
}

inline Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// The first `count` bytes.
inline Bytes first(const Bytes& bytes, size_t count) {
  return Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
}

}  // namespace wick::data
