#include "wick/tools/study/store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "wick/core/base/check.h"
#include "wick/core/file.h"

namespace wick::study {

namespace fs = std::filesystem;

namespace {

constexpr uint64_t kMostStudyBytes = uint64_t{64} << 20;
constexpr const char* kStudyFile = "/study.jsonl";

std::shared_ptr<void> keep_open(int descriptor) {
  return std::shared_ptr<void>(nullptr, [descriptor](void*) { ::close(descriptor); });
}

}  // namespace

std::vector<nlohmann::json> read_study(const std::string& folder, size_t* whole_bytes) {
  const std::string file = folder + kStudyFile;
  std::vector<nlohmann::json> lines;
  if (!fs::exists(file)) return lines;
  const std::string text = read_file(file, kMostStudyBytes);
  size_t start = 0;
  for (size_t end = 0; (end = text.find('\n', start)) != std::string::npos; start = end + 1) {
    auto line = nlohmann::json::parse(text.begin() + static_cast<std::ptrdiff_t>(start),
                                      text.begin() + static_cast<std::ptrdiff_t>(end), nullptr,
                                      /*allow_exceptions=*/false);
    const bool good = line.is_object() && line.contains("kind") && line["kind"].is_string() &&
                      (!line.contains("id") || line["id"].is_string());
    WICK_CHECK(good, "study: ", file, ": line ", lines.size() + 1, " is not one of a study");
    lines.push_back(std::move(line));
  }
  if (whole_bytes != nullptr) *whole_bytes = start;
  return lines;
}

Store::Store(const std::string& folder) : folder_(folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  WICK_CHECK(!error, "study: cannot make ", folder, ": ", error.message());
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  WICK_CHECK(descriptor >= 0, "study: cannot open ", folder, ": ", std::strerror(errno));
  lock_ = keep_open(descriptor);
  const bool taken = flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  WICK_CHECK(!taken, "study: ", folder, " is in use by another process");
  size_t whole = 0;
  lines_ = read_study(folder, &whole);
  if (fs::exists(file()) && whole < fs::file_size(file())) fs::resize_file(file(), whole);
}

std::string Store::file() const { return folder_ + kStudyFile; }

const nlohmann::json* Store::find(const std::string& kind, const std::string& id) const {
  for (auto line = lines_.rbegin(); line != lines_.rend(); ++line) {
    if ((*line)["kind"] == kind && (id.empty() || line->value("id", "") == id)) return &*line;
  }
  return nullptr;
}

void Store::fail(const nlohmann::json& line, const std::string& error) const {
  // Without the library's "[json.exception.NAME.NUMBER] ".
  const size_t end = error.starts_with("[json") ? error.find("] ") : std::string::npos;
  const std::string words = end == std::string::npos ? error : error.substr(end + 2);
  throw Error(concat("study: ", file(), ": line ", &line - lines_.data() + 1, ", of kind ",
                     line["kind"].get<std::string>(), ": ", words));
}

void Store::append(const nlohmann::json& line) {
  const std::string text =
      line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  const int descriptor = ::open(file().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  WICK_CHECK(descriptor >= 0, "study: cannot write ", file(), ": ", std::strerror(errno));
  const std::shared_ptr<void> closing = keep_open(descriptor);
  const auto written = ::write(descriptor, text.data(), text.size());
  WICK_CHECK(written == static_cast<ssize_t>(text.size()), "study: cannot write ", file(), ": ",
             written < 0 ? std::strerror(errno) : "the disk is full");
  lines_.push_back(line);
}

}  // namespace wick::study
