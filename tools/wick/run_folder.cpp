#include "wick/tools/wick/run_folder.h"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "wick/core/base/check.h"
#include "wick/core/file.h"

namespace wick::tool {

namespace fs = std::filesystem;

namespace {

constexpr uint64_t kMaxMetricsBytes = uint64_t{1} << 32;

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &local);
  return text;
}

}  // namespace

RunFolder RunFolder::create(const std::string& path) {
  std::string target = path;
  if (target.empty()) {
    const std::string base = "runs/" + now_text();
    target = base;
    for (int i = 2; fs::exists(target); ++i) target = base + "-" + std::to_string(i);
  }
  RunFolder folder(target);
  WICK_CHECK(!fs::exists(folder.config_file()), "run folder: ", target,
             " already holds a run: go on with it by --resume, or name another folder");
  std::error_code error;
  fs::create_directories(folder.checkpoints(), error);
  WICK_CHECK(!error, "run folder: cannot make ", target, ": ", error.message());
  return folder;
}

RunFolder RunFolder::open(const std::string& path) {
  RunFolder folder(path);
  WICK_CHECK(fs::exists(folder.config_file()), "run folder: ", path, " holds no run: expected ",
             folder.config_file());
  return folder;
}

void RunFolder::write_config(const TrainConfig& config) const {
  write_file(config_file(), to_json(config).dump(2) + "\n");
}

void RunFolder::log(const nlohmann::ordered_json& values) {
  if (!metrics_.is_open()) metrics_.open(metrics_file(), std::ios::app);
  metrics_ << values.dump() << "\n" << std::flush;
  WICK_CHECK(metrics_.good(), "run folder: cannot write ", metrics_file(), ": ",
             std::strerror(errno));
}

void RunFolder::drop_metrics_after(int64_t step) {
  if (!fs::exists(metrics_file())) return;
  const std::string text = read_file(metrics_file(), kMaxMetricsBytes);
  std::string kept;
  for (size_t start = 0; start < text.size();) {
    const size_t end = text.find('\n', start);
    if (end == std::string::npos) break;
    const std::string line = text.substr(start, end - start);
    const auto values = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (values.is_object() && values.value("step", int64_t{0}) <= step) kept += line + "\n";
    start = end + 1;
  }
  write_file(metrics_file(), kept);
}

}  // namespace wick::tool
