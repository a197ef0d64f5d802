#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "wick/core/file.h"

namespace wick::data {

/// A file read from its beginning to its end; one that starts as gzip does is unpacked on the way.
/// Errors name the file.
class UnpackedFile {
 public:
  explicit UnpackedFile(const std::string& path);
  ~UnpackedFile();
  UnpackedFile(const UnpackedFile&) = delete;
  UnpackedFile& operator=(const UnpackedFile&) = delete;

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

  InputFile file_;
  uint64_t raw_position_ = 0, position_ = 0;
  std::unique_ptr<Gzip> gzip_;
};

/// The first of `folders` (each within `data_dir`; "" is `data_dir` itself) that holds one of
/// `files`, as the file's path. The error names `data_set` and every place looked at.
std::string find_file(const std::string& data_set, const std::string& data_dir,
                      const std::vector<std::string>& folders,
                      const std::vector<std::string>& files);

}  // namespace wick::data
