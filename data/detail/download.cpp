#include "wick/data/detail/download.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>
#include <vector>

#include "wick/core/base/check.h"
#include "wick/core/file.h"
#include "wick/data/sha256.h"

namespace wick::data {

namespace {

constexpr uint64_t kMostBytes = uint64_t{4} << 30;  // of a file of unknown size
constexpr int kCannotResume = 33;                   // what curl ends with

std::string reason() { return std::generic_category().message(errno); }

// A file being downloaded, which no other process may download meanwhile.
class PartFile {
 public:
  explicit PartFile(const std::string& path)
      : path_(path), descriptor_(open_locked(path, O_APPEND | O_NOFOLLOW)) {
    WICK_CHECK(descriptor_ >= 0, path, ": another process is downloading it");
  }
  ~PartFile() {
    struct stat info;
    const bool empty = fstat(descriptor_, &info) == 0 && info.st_size == 0;
    if (empty && !path_.empty()) unlink(path_.c_str());
    close(descriptor_);
  }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  uint64_t size() const {
    struct stat info;
    WICK_CHECK(fstat(descriptor_, &info) == 0, "cannot read ", path_, ": ", reason());
    return static_cast<uint64_t>(info.st_size);
  }
  void clear() {
    WICK_CHECK(ftruncate(descriptor_, 0) == 0, "cannot write ", path_, ": ", reason());
  }
  void append(const char* bytes, size_t count) {
    while (count > 0) {
      const ssize_t put = ::write(descriptor_, bytes, count);
      if (put < 0 && errno == EINTR) continue;
      WICK_CHECK(put >= 0, "cannot write ", path_, ": ", reason());
      bytes += put;
      count -= static_cast<size_t>(put);
    }
  }
  void become(const std::string& path) {
    WICK_CHECK(fsync(descriptor_) == 0 && rename(path_.c_str(), path.c_str()) == 0, "cannot write ",
               path, ": ", reason());
    path_.clear();
    sync_folder(path.substr(0, path.rfind('/')));
  }

 private:
  std::string path_;
  int descriptor_;
};

struct Pipe {
  int ends[2] = {-1, -1};
  Pipe() { WICK_CHECK(pipe2(ends, O_CLOEXEC) == 0, "cannot make a pipe: ", reason()); }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_end(int i) {
    if (ends[i] >= 0) close(ends[i]);
    ends[i] = -1;
  }
  /// Some of what was written to it; 0 at its end.
  size_t read(char* to, size_t most) const {
    ssize_t got = 0;
    do {
      got = ::read(ends[0], to, most);
    } while (got < 0 && errno == EINTR);
    return got < 0 ? 0 : static_cast<size_t>(got);
  }
};

// The program curl at work. Its arguments go to it as they are, through no shell.
class Curl {
 public:
  explicit Curl(std::vector<std::string> arguments) {
    std::vector<char*> words;
    for (std::string& argument : arguments) words.push_back(argument.data());
    words.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, output_.ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, errors_.ends[1], 2);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    const int failed =
        posix_spawnp(&process_, "curl", &actions, &attributes, words.data(), environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    WICK_CHECK(failed == 0, "the program curl, which downloads, cannot be started: ",
               std::generic_category().message(failed), ": install Debian's package curl");
    output_.close_end(1);
    errors_.close_end(1);
  }
  ~Curl() {
    if (process_ == 0) return;
    kill(process_, SIGKILL);
    wait();
  }
  Curl(const Curl&) = delete;
  Curl& operator=(const Curl&) = delete;

  const Pipe& output() const { return output_; }
  /// What it said in the end, in one line. It says little, so the pipe holds it all.
  std::string words() const {
    char text[1024];
    const std::string said(text, errors_.read(text, sizeof text));
    return said.substr(0, said.find('\n'));
  }
  /// Waits for its end; what it returned.
  int wait() {
    int status = 0;
    while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
    process_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  Pipe output_, errors_;
  pid_t process_ = 0;
};

// Downloads what is missing of the file. False if the server cannot go on where it stopped.
bool fill(const Download& wanted, PartFile& part) {
  const uint64_t most = wanted.bytes > 0 ? wanted.bytes : kMostBytes;
  uint64_t have = part.size();
  const std::string seconds = std::to_string(wanted.stall_seconds);
  std::vector<std::string> arguments = {
      "curl",      "--disable",         "--silent", "--show-error",  "--fail",      "--location",
      "--globoff", "--max-redirs",      "5",        "--proto",       "=http,https", "--url",
      wanted.url,  "--output",          "-",        "--speed-limit", "1024",        "--speed-time",
      seconds,     "--connect-timeout", seconds};
  if (have > 0) arguments.insert(arguments.end(), {"--continue-at", std::to_string(have)});
  Curl curl(std::move(arguments));
  char bytes[1 << 16];
  while (const size_t got = curl.output().read(bytes, sizeof bytes)) {
    have += got;
    WICK_CHECK(have <= most, wanted.url, ": wrong file: got more than ", most, " bytes");
    part.append(bytes, got);
    if (wanted.progress) wanted.progress(have);
  }
  const std::string words = curl.words();
  const int code = curl.wait();
  if (code == kCannotResume) return false;
  WICK_CHECK(code == 0, wanted.url, ": ", words.empty() ? "curl gave no reason" : words);
  return true;
}

bool is_there(const std::string& path, const std::string& sha256) {
  return access(path.c_str(), F_OK) == 0 && sha256_of_file(path) == sha256;
}

}  // namespace

void download(const Download& wanted) {
  if (is_there(wanted.path, wanted.sha256)) return;
  const std::string part_path = wanted.path + ".part";
  PartFile part(part_path);
  if (wanted.bytes > 0 && part.size() > wanted.bytes) part.clear();
  const bool resumed = part.size() > 0;
  if (wanted.bytes == 0 || part.size() < wanted.bytes) {
    if (!fill(wanted, part)) {
      part.clear();
      fill(wanted, part);
    }
  }
  std::string hash = sha256_of_file(part_path);
  if (hash != wanted.sha256 && resumed) {  // what was there may have been something else
    part.clear();
    fill(wanted, part);
    hash = sha256_of_file(part_path);
  }
  if (hash != wanted.sha256) part.clear();
  WICK_CHECK(hash == wanted.sha256, wanted.url, ": wrong content: its SHA-256 is ", hash,
             ", expected ", wanted.sha256);
  part.become(wanted.path);
}

}  // namespace wick::data
