#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "wick/core/base/check.h"

namespace wick {

namespace detail {
struct MappedRegion;
}

/// A file could not be read or written, and not since its name is wrong: the disk is full or
/// failing, a quota or a limit is reached.
class FileError : public Error {
 public:
  using Error::Error;
};

/// Throws `text` and what the system says of `error`, an errno: Error where a name is to blame (no
/// such file, no right to it), else FileError.
[[noreturn]] void throw_file_error(const std::string& text, int error);

/// A regular file opened for reading. Errors name the file and what the system says.
class InputFile {
 public:
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }  // as given
  /// Bytes when it was opened.
  uint64_t size() const { return size_; }
  /// Reads exactly `bytes` from `offset` on; an error if the file ends before.
  void read_at(uint64_t offset, void* destination, size_t bytes) const;

 private:
  friend class MappedFile;
  std::string path_;
  int descriptor_;
  uint64_t size_ = 0;
};

/// A regular file in memory, read when it is looked at. What cannot be read, because the file has
/// shrunk or its disk fails, is zeros, which `check` tells of. (The system tells by a SIGBUS: the
/// first such file gets that a handler, which passes on what is about other memory.)
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }  // as given
  const uint8_t* data() const { return data_; }      // the first byte; null for an empty file
  uint64_t size() const { return size_; }            // bytes when it was opened
  /// Error if any byte looked at so far could not be read. To be called when bytes were used.
  void check() const;

 private:
  std::string path_;
  const uint8_t* data_ = nullptr;
  uint64_t size_ = 0;
  detail::MappedRegion* region_ = nullptr;
};

/// Writes a file in one step: others see the old content or the new, never a part, and after a
/// power failure too. The content goes to a temporary file in the same folder, which `commit` syncs
/// and renames; without `commit` nothing is left of it, nor, where the file system has files
/// without names, if the process is killed.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Adds bytes behind those written before. Throws FileError if the disk is full.
  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Writes over what was written at `offset`.
  void write_at(uint64_t offset, const void* data, size_t bytes);
  /// Syncs the file, and gives it its name. No other function may be called after it.
  void commit();

 private:
  std::string path_;
  std::string temporary_;
  int descriptor_ = -1;
};

/// The whole of a file of at most `max_bytes`.
std::string read_file(const std::string& path, uint64_t max_bytes);
/// Makes `content` the whole of the file, in one step.
void write_file(const std::string& path, std::string_view content);
/// Opens a file, made where it is not there, for reading and writing, and locks it for as long as
/// the descriptor is open; -1 if another has it locked. The holder of the lock may remove or rename
/// the file: the lock of a removed file can then not be had. `flags`: further ones of open(2). A
/// file system without locks gives it to all.
int open_locked(const std::string& path, int flags = 0);
/// Makes the names of the folder's files last through a power failure.
void sync_folder(const std::string& path);

}  // namespace wick
