#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace wick::data {

/// A file read from its beginning to its end. Errors name the file.
class InputFile {
 public:
  /// Error if `path` is missing, is not a regular file, or may not be read. A file that starts as
  /// gzip does is unpacked on the way if `unpack_gzip`.
  explicit InputFile(const std::string& path, bool unpack_gzip = true);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  /// An upper bound of the bytes still to come, to check a header by before memory is allocated for
  /// what it promises: exact for a plain file, what deflate can reach at best for a packed one.
  uint64_t most_bytes_left() const;
  /// Reads exactly `bytes` bytes; `what` says in the error which part of the file they are.
  void read(void* out, uint64_t bytes, const char* what);
  /// Error unless everything was read.
  void expect_end();

 private:
  struct Gzip;
  size_t read_some(uint8_t* out, size_t bytes);
  size_t read_raw(uint8_t* out, size_t bytes);

  std::string path_;
  int descriptor_ = -1;
  uint64_t size_ = 0, raw_position_ = 0, position_ = 0;
  std::unique_ptr<Gzip> gzip_;
};

/// The bytes of a whole file, as they are. Error if there are more than `limit`.
std::vector<uint8_t> read_file(const std::string& path, uint64_t limit);

/// The first of `folders` (each within `data_dir`; "" is `data_dir` itself) that holds one of
/// `files`, as the file's path. The error names `data_set` and every place looked at.
std::string find_file(const std::string& data_set, const std::string& data_dir,
                      const std::vector<std::string>& folders,
                      const std::vector<std::string>& files);

}  // namespace wick::data
