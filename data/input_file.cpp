#include "wick/data/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "wick/core/base/check.h"

namespace wick::data {

namespace {

// One deflate symbol of a bit or two stands for up to 258 bytes: no stream unpacks to more than
// this many times its size.
constexpr uint64_t kMostDeflateRatio = 1032;

std::string reason(int error) { return std::generic_category().message(error); }

}  // namespace

struct InputFile::Gzip {
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

InputFile::InputFile(const std::string& path, bool unpack_gzip) : path_(path) {
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  WICK_CHECK(descriptor_ >= 0, path, ": cannot be opened: ", reason(errno));
  struct stat status {};
  const bool known = ::fstat(descriptor_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    WICK_CHECK(false, path, ": is not a file: expected a file that can be read");
  }
  size_ = static_cast<uint64_t>(status.st_size);
  uint8_t start[2] = {};
  if (unpack_gzip && ::pread(descriptor_, start, 2, 0) == 2 && start[0] == 0x1f &&
      start[1] == 0x8b) {
    gzip_ = std::make_unique<Gzip>();
  }
}

InputFile::~InputFile() { ::close(descriptor_); }

uint64_t InputFile::most_bytes_left() const {
  return gzip_ ? size_ * kMostDeflateRatio - position_ : size_ - position_;
}

size_t InputFile::read_raw(uint8_t* out, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t got = ::read(descriptor_, out + done, bytes - done);
    if (got < 0 && errno == EINTR) continue;
    WICK_CHECK(got >= 0, path_, ": cannot be read: ", reason(errno));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  raw_position_ += done;
  return done;
}

size_t InputFile::read_some(uint8_t* out, size_t bytes) {
  if (!gzip_) return read_raw(out, bytes);
  z_stream& z = gzip_->stream;
  z.next_out = out;
  z.avail_out = static_cast<uInt>(bytes);
  while (z.avail_out > 0) {
    if (z.avail_in == 0) {
      z.next_in = gzip_->packed.data();
      z.avail_in = static_cast<uInt>(read_raw(gzip_->packed.data(), gzip_->packed.size()));
      if (z.avail_in == 0) {
        WICK_CHECK(gzip_->finished, path_, ": the gzip stream is cut off: got ", size_,
                   " bytes, expected more");
        break;
      }
    }
    if (gzip_->finished) {  // further members may follow, nothing else
      WICK_CHECK(*z.next_in == 0x1f && inflateReset(&z) == Z_OK, path_,
                 ": extra bytes after the end of the gzip stream, near byte ",
                 raw_position_ - z.avail_in, " of ", size_);
      gzip_->finished = false;
    }
    const int status = inflate(&z, Z_NO_FLUSH);
    gzip_->finished = status == Z_STREAM_END;
    WICK_CHECK(status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR, path_,
               ": the gzip stream is damaged near byte ", raw_position_ - z.avail_in, " of ", size_,
               ": ", z.msg != nullptr ? z.msg : "zlib gave no reason");
  }
  return bytes - z.avail_out;
}

void InputFile::read(void* out, uint64_t bytes, const char* what) {
  auto* target = static_cast<uint8_t*>(out);
  uint64_t done = 0;
  while (done < bytes) {
    const size_t piece = static_cast<size_t>(std::min<uint64_t>(bytes - done, 1 << 20));
    const size_t got = read_some(target + done, piece);
    WICK_CHECK(got > 0, path_, ": cut off in ", what, ": got ", position_ + done,
               " bytes in all, expected ", position_ + bytes, " or more");
    done += got;
  }
  position_ += bytes;
}

void InputFile::expect_end() {
  uint8_t extra = 0;
  WICK_CHECK(read_some(&extra, 1) == 0, path_, ": too long: got more than the ", position_,
             " bytes that its header promises");
}

std::vector<uint8_t> read_file(const std::string& path, uint64_t limit) {
  InputFile file(path, /*unpack_gzip=*/false);
  const uint64_t size = file.most_bytes_left();
  WICK_CHECK(size <= limit, path, ": too large: got ", size, " bytes, expected at most ", limit);
  std::vector<uint8_t> bytes(size);
  file.read(bytes.data(), size, "its contents");
  return bytes;
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
