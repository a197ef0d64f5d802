#include "wick/core/file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <system_error>

#include "wick/core/base/check.h"

namespace wick {

namespace {

[[noreturn]] void fail_with_errno(const char* action, const std::string& path) {
  const int error = errno;
  throw_file_error(concat("cannot ", action, " ", path), error);
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

// Makes a write past the file size limit an error (EFBIG), where the signal's default action would
// end the process.
class NoFileSizeSignal {
 public:
  NoFileSizeSignal() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~NoFileSizeSignal() {
    const int error = errno;
    const timespec at_once{0, 0};
    if (!was_pending_) sigtimedwait(&signal_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  NoFileSizeSignal(const NoFileSizeSignal&) = delete;
  NoFileSizeSignal& operator=(const NoFileSizeSignal&) = delete;

 private:
  sigset_t signal_;
  sigset_t before_;
  bool was_pending_;
};

// A name beside `path` that no other file has.
std::string temporary_name(const std::string& path) {
  static std::atomic<uint64_t> count{0};
  return concat(path, ".tmp-", getpid(), "-", count.fetch_add(1));
}

// What renaming replaces: the file that a link points to, and never a device or a folder.
std::string resolve_target(const std::string& path) {
  std::string target = path;
  struct stat info;
  if (lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) {
    char resolved[PATH_MAX];
    if (realpath(path.c_str(), resolved) == nullptr) fail_with_errno("write", path);
    target = resolved;
  }
  if (stat(target.c_str(), &info) == 0) {
    WICK_CHECK(S_ISREG(info.st_mode), "cannot write ", path, ": it is not a regular file");
  }
  return target;
}

}  // namespace

void throw_file_error(const std::string& text, int error) {
  const std::string message = concat(text, ": ", std::generic_category().message(error));
  for (const int of_names : {ENOENT, ENOTDIR, EISDIR, EEXIST, EACCES, EPERM, ENAMETOOLONG, ELOOP,
                             EINVAL, EXDEV, ENOTEMPTY, ENXIO}) {
    if (error == of_names) throw Error(message);
  }
  throw FileError(message);
}

InputFile::InputFile(const std::string& path)
    : path_(path), descriptor_(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  if (descriptor_ < 0) fail_with_errno("read", path);
  struct stat info;
  if (fstat(descriptor_, &info) != 0) {
    close(descriptor_);
    fail_with_errno("read", path);
  }
  if (!S_ISREG(info.st_mode)) {
    close(descriptor_);
    throw Error(concat("cannot read ", path, ": it is not a regular file"));
  }
  size_ = static_cast<uint64_t>(info.st_size);
}

InputFile::~InputFile() { close(descriptor_); }

void InputFile::read_at(uint64_t offset, void* destination, size_t bytes) const {
  char* to = static_cast<char*>(destination);
  while (bytes > 0) {
    const ssize_t got = pread(descriptor_, to, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_with_errno("read", path_);
    WICK_CHECK(got > 0, "cannot read ", path_, ": the file ends at byte ", offset, ", expected ",
               bytes, " more");
    to += got;
    offset += static_cast<uint64_t>(got);
    bytes -= static_cast<size_t>(got);
  }
}

AtomicFile::AtomicFile(const std::string& path) : path_(resolve_target(path)) {
  WICK_CHECK(!path.empty(), "cannot write: the name of the file is empty");
  // Without a name, so that nothing is left of it even if the process is killed; where that can be.
  if (access("/proc/self/fd", X_OK) == 0) {
    descriptor_ = open(folder_of(path_).c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
    if (descriptor_ >= 0) return;
  }
  temporary_ = temporary_name(path_);
  descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail_with_errno("write", path_);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, size_t bytes) {
  const NoFileSizeSignal guard;
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t put = ::write(descriptor_, from, bytes);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_with_errno("write", path_);
    from += put;
    bytes -= static_cast<size_t>(put);
  }
}

void AtomicFile::write_at(uint64_t offset, const void* data, size_t bytes) {
  const NoFileSizeSignal guard;
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t put = pwrite(descriptor_, from, bytes, static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_with_errno("write", path_);
    from += put;
    offset += static_cast<uint64_t>(put);
    bytes -= static_cast<size_t>(put);
  }
}

void AtomicFile::commit() {
  if (fsync(descriptor_) != 0) fail_with_errno("write", path_);
  if (temporary_.empty()) {
    const std::string source = concat("/proc/self/fd/", descriptor_);
    const std::string name = temporary_name(path_);
    if (linkat(AT_FDCWD, source.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      fail_with_errno("write", path_);
    }
    temporary_ = name;
  }
  const int closed = close(descriptor_);
  descriptor_ = -1;
  if (closed != 0) fail_with_errno("write", path_);
  if (rename(temporary_.c_str(), path_.c_str()) != 0) fail_with_errno("write", path_);
  temporary_.clear();
  sync_folder(folder_of(path_));
}

std::string read_file(const std::string& path, uint64_t max_bytes) {
  const InputFile file(path);
  WICK_CHECK(file.size() <= max_bytes, "cannot read ", path, ": it has ", file.size(),
             " bytes, expected at most ", max_bytes);
  std::string content(static_cast<size_t>(file.size()), '\0');
  file.read_at(0, content.data(), content.size());
  return content;
}

void write_file(const std::string& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

int open_locked(const std::string& path, int flags) {
  for (;;) {
    const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | flags, 0666);
    if (descriptor < 0) fail_with_errno("open", path);
    const bool taken = flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    struct stat locked, named;
    const bool is_named = fstat(descriptor, &locked) == 0 && stat(path.c_str(), &named) == 0 &&
                          locked.st_dev == named.st_dev && locked.st_ino == named.st_ino;
    if (!taken && is_named) return descriptor;
    close(descriptor);
    if (taken) return -1;
  }
}

void sync_folder(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail_with_errno("sync folder", path);
  const int synced = fsync(descriptor);
  const int error = errno;
  close(descriptor);
  errno = error;
  // Some file systems cannot sync folders; there is nothing more to do on those.
  if (synced != 0 && errno != EINVAL) fail_with_errno("sync folder", path);
}

}  // namespace wick
