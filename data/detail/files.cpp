#include "wick/data/detail/files.h"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>

#include "wick/core/base/check.h"

namespace wick::data {

namespace {

// One deflate symbol of a bit or two stands for up to 258 bytes: no stream unpacks to more than
// this many times its size.
constexpr uint64_t kMostDeflateRatio = 1032;

}  // namespace

struct UnpackedFile::Gzip {
  z_stream stream{};
  std::vector<uint8_t> packed = std::vector<uint8_t>(1 << 16);
  bool finished = false;  // the last member ended

  Gzip() {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    WICK_CHECK(inflateInit2(&stream, kGzipOnly) == Z_OK, "gzip: zlib could not start");
  }
  ~Gzip() { inflateEnd(&stream); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;
};

UnpackedFile::UnpackedFile(const std::string& path) : file_(path) {
  uint8_t start[2] = {};
  if (file_.size() >= 2) file_.read_at(0, start, 2);
  if (start[0] == 0x1f && start[1] == 0x8b) gzip_ = std::make_unique<Gzip>();
}

UnpackedFile::~UnpackedFile() = default;

uint64_t UnpackedFile::most_bytes_left() const {
  return (gzip_ ? file_.size() * kMostDeflateRatio : file_.size()) - position_;
}

size_t UnpackedFile::read_raw(uint8_t* out, size_t bytes) {
  const auto count = static_cast<size_t>(std::min<uint64_t>(bytes, file_.size() - raw_position_));
  file_.read_at(raw_position_, out, count);
  raw_position_ += count;
  return count;
}

size_t UnpackedFile::read_some(uint8_t* out, size_t bytes) {
  if (!gzip_) return read_raw(out, bytes);
  z_stream& z = gzip_->stream;
  z.next_out = out;
  z.avail_out = static_cast<uInt>(bytes);
  while (z.avail_out > 0) {
    if (z.avail_in == 0) {
      z.next_in = gzip_->packed.data();
      z.avail_in = static_cast<uInt>(read_raw(gzip_->packed.data(), gzip_->packed.size()));
      if (z.avail_in == 0) {
        WICK_CHECK(gzip_->finished, file_.path(), ": the gzip stream is cut off: got ",
                   file_.size(), " bytes, expected more");
        break;
      }
    }
    if (gzip_->finished) {  // further members may follow, nothing else
      WICK_CHECK(*z.next_in == 0x1f && inflateReset(&z) == Z_OK, file_.path(),
                 ": extra bytes after the end of the gzip stream, near byte ",
                 raw_position_ - z.avail_in, " of ", file_.size());
      gzip_->finished = false;
    }
    const int status = inflate(&z, Z_NO_FLUSH);
    gzip_->finished = status == Z_STREAM_END;
    WICK_CHECK(status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR, file_.path(),
               ": the gzip stream is damaged near byte ", raw_position_ - z.avail_in, " of ",
               file_.size(), ": ", z.msg != nullptr ? z.msg : "zlib gave no reason");
  }
  return bytes - z.avail_out;
}

void UnpackedFile::read(void* out, uint64_t bytes, const char* what) {
  auto* target = static_cast<uint8_t*>(out);
  uint64_t done = 0;
  while (done < bytes) {
    const size_t piece = static_cast<size_t>(std::min<uint64_t>(bytes - done, 1 << 20));
    const size_t got = read_some(target + done, piece);
    WICK_CHECK(got > 0, file_.path(), ": cut off in ", what, ": got ", position_ + done,
               " bytes in all, expected ", position_ + bytes, " or more");
    done += got;
  }
  position_ += bytes;
}

void UnpackedFile::expect_end() {
  uint8_t extra = 0;
  WICK_CHECK(read_some(&extra, 1) == 0, file_.path(), ": too long: got more than the ", position_,
             " bytes that its header promises");
}

std::string find_file(const std::string& data_set, const std::string& data_dir,
                      const std::vector<std::string>& folders,
                      const std::vector<std::string>& files) {
  WICK_CHECK(!data_dir.empty(), data_set, ": needs a data folder (--data-dir), which holds ",
             files[0]);
  const std::string root = data_dir.substr(0, data_dir.find_last_not_of('/') + 1);
  std::string looked_at;
  for (const std::string& folder : folders) {
    const std::string place = folder.empty() ? root : concat(root, "/", folder);
    for (const std::string& file : files) {
      std::string path = concat(place, "/", file);
      if (::access(path.c_str(), F_OK) == 0) return path;
    }
    looked_at += concat(looked_at.empty() ? "" : ", ", place);
  }
  detail::fail(data_set, ": no file ", files[0], " found: looked in ", looked_at);
}

}  // namespace wick::data
