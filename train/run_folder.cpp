#include "wick/train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "wick/core/base/check.h"
#include "wick/core/file.h"
#include "wick/core/plans.h"
#include "wick/train/hardware.h"

namespace wick::train {

namespace fs = std::filesystem;

namespace {

constexpr uint64_t kMaxMetricsBytes = uint64_t{1} << 32;
constexpr uint64_t kMaxEnvironmentBytes = 1 << 20;

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &local);
  return text;
}

nlohmann::ordered_json environment_of_now() {
  return {{"time", now_text()}, {"machine", one_line(find_hardware())}, {"compiler", __VERSION__}};
}

bool exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// Whether a run, be it without its config.json, has left results or a checkpoint there.
bool holds_remains(const RunFolder& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder.checkpoints(), error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename().string().starts_with("step-")) return true;
  }
  return folder.holds_results();
}

void check_free(const RunFolder& folder) {
  WICK_CHECK(!folder.holds_run() && !holds_remains(folder), "run folder: ", folder.path(),
             " already holds a run: go on with it by --resume, or name another folder");
}

// Whether a line of metrics.jsonl is whole and tells of no step after `step`.
bool tells_of(const std::string& line, int64_t step) {
  const auto values = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!values.is_object()) return false;
  const auto found = values.find("step");
  return found != values.end() && found->is_number_integer() && found->get<int64_t>() <= step;
}

}  // namespace

std::shared_ptr<const std::string> make_new_folder(const std::string& base) {
  const fs::path above = fs::path(base).parent_path();
  bool is_above_made = false;
  std::string path = base;
  for (int i = 2;;) {
    std::error_code error;
    is_above_made |= fs::create_directories(above, error);
    WICK_CHECK(!error, "run folder: cannot make ", above.string(), ": ", error.message());
    if (::mkdir(path.c_str(), 0777) == 0) break;
    if (errno == ENOENT) continue;  // another process has removed the one above
    WICK_CHECK(errno == EEXIST, "run folder: cannot make ", path, ": ", std::strerror(errno));
    path = concat(base, "-", i++);
  }
  return {new std::string(path), [=](const std::string* name) {
            const bool is_removed = ::rmdir(name->c_str()) == 0;
            if (is_removed && is_above_made) ::rmdir(above.c_str());
            delete name;
          }};
}

RunFolder RunFolder::plan(const std::string& path) {
  const auto made = path.empty() ? make_new_folder("runs/" + now_text()) : nullptr;
  RunFolder folder(made ? *made : path);
  folder.made_ = made;
  check_free(folder);
  return folder;
}

RunFolder RunFolder::open(const std::string& path) {
  RunFolder folder(path);
  WICK_CHECK(folder.holds_run(), "run folder: ", path, " holds no run: expected ",
             folder.config_file());
  return folder;
}

bool RunFolder::holds_run() const { return exists(config_file()); }

bool RunFolder::holds_results() const {
  std::error_code error;
  const bool has_metrics =
      fs::is_regular_file(metrics_file(), error) && fs::file_size(metrics_file(), error) > 0;
  return has_metrics || exists(weights_file());
}

void RunFolder::follow() {
  struct stat own {
  }, named{};
  if (descriptor_ < 0 || fstat(descriptor_, &own) != 0) return;
  const auto is_at = [&](const std::string& path) {
    return stat(path.c_str(), &named) == 0 && named.st_dev == own.st_dev &&
           named.st_ino == own.st_ino;
  };
  if (is_at(path_)) return;
  std::error_code error;
  const std::string now = fs::read_symlink(concat("/proc/self/fd/", descriptor_), error).string();
  WICK_CHECK(!error && is_at(now), "run folder: ", path_,
             " was removed, or moved where it cannot be found");
  path_ = now;
}

void RunFolder::claim(bool is_new) {
  std::error_code error;
  fs::create_directories(checkpoints(), error);
  WICK_CHECK(!error, "run folder: cannot make ", path_, ": ", error.message());
  const int descriptor = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  WICK_CHECK(descriptor >= 0, "run folder: cannot open ", path_, ": ", std::strerror(errno));
  lock_ = std::shared_ptr<void>(nullptr, [descriptor](void*) { ::close(descriptor); });
  descriptor_ = descriptor;
  // Some file systems have no locks; there is nothing to do about it on those.
  const bool taken = flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  WICK_CHECK(!taken, "run folder: ", path_, " is in use by another process");
  if (is_new) check_free(*this);
}

void RunFolder::claim_for_ranks() {
  std::error_code error;
  const bool is_made = fs::create_directories(path_, error);
  WICK_CHECK(!error, "run folder: cannot make ", path_, ": ", error.message());
  const std::string name = path_ + "/launcher.lock", folder = path_;
  const int descriptor = open_locked(name);
  WICK_CHECK(descriptor >= 0, "run folder: ", path_, " is in use by another launcher");
  lock_ = std::shared_ptr<void>(nullptr, [=](void*) {
    ::unlink(name.c_str());
    ::close(descriptor);
    if (is_made) ::rmdir(folder.c_str());  // if nothing came to be in it
  });
}

void RunFolder::load_plans(int rank) const {
  const std::string own = exists(plan_file(rank)) ? plan_file(rank) : plan_file();
  // The first is where runs had them that planned convolutions alone.
  for (const std::string& file : {path_ + "/conv_plans.txt", own}) {
    if (exists(file)) plans_load(file);
  }
}

std::vector<std::string> RunFolder::environment_changes() const {
  std::vector<std::string> changes;
  if (!exists(environment_file())) return changes;
  const auto before = nlohmann::json::parse(read_file(environment_file(), kMaxEnvironmentBytes),
                                            nullptr, /*allow_exceptions=*/false);
  const nlohmann::ordered_json current = environment_of_now();
  for (const auto& [key, now] : current.items()) {
    if (key == "time" || !before.is_object() || !before.contains(key)) continue;
    if (!before[key].is_string() || !now.is_string()) continue;
    const auto was = before[key].get<std::string>(), is = now.get<std::string>();
    if (was != is) changes.push_back(concat(key, ": was ", was, ", is ", is));
  }
  return changes;
}

void RunFolder::write_config(const std::string& json) const {
  write_file(config_file(), json + "\n");
  const nlohmann::ordered_json environment = environment_of_now();
  write_file(environment_file(),
             environment.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void RunFolder::log(const std::string& json) {
  unwritten_ += json + "\n";
  flush_metrics();
}

void RunFolder::flush_metrics() {
  const auto fail = [&] { throw_file_error("run folder: cannot write " + metrics_file(), errno); };
  if (unwritten_.empty()) return;
  if (metrics_descriptor_ < 0) {
    follow();
    const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC;
    metrics_descriptor_ = ::open(metrics_file().c_str(), flags, 0666);
    if (metrics_descriptor_ < 0) fail();
    const auto close_it = [descriptor = metrics_descriptor_](void*) { ::close(descriptor); };
    metrics_ = std::shared_ptr<void>(nullptr, close_it);
  }
  while (!unwritten_.empty()) {
    const ssize_t put = ::write(metrics_descriptor_, unwritten_.data(), unwritten_.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail();
    unwritten_.erase(0, static_cast<size_t>(put));
  }
}

void RunFolder::drop_metrics_after(int64_t step) {
  if (!exists(metrics_file())) return;
  const std::string text = read_file(metrics_file(), kMaxMetricsBytes);
  std::string kept;
  for (size_t start = 0; start < text.size();) {
    const size_t end = text.find('\n', start);
    if (end == std::string::npos) break;
    const std::string line = text.substr(start, end - start);
    if (tells_of(line, step)) kept += line + "\n";
    start = end + 1;
  }
  write_file(metrics_file(), kept);
}

}  // namespace wick::train
