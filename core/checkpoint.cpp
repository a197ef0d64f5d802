#include "wick/core/checkpoint.h"

#include <fcntl.h>
#include <zlib.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "wick/core/base/check.h"
#include "wick/core/file.h"

namespace wick {

namespace fs = std::filesystem;

namespace {

constexpr const char* kManifest = "manifest.json";
constexpr const char* kPrefix = "step-";
constexpr int kVersion = 1;
constexpr uint64_t kMaxManifestBytes = 1 << 20;

uint32_t crc_of(const InputFile& file) {
  std::vector<unsigned char> buffer(1 << 20);
  uLong crc = crc32(0, nullptr, 0);
  for (uint64_t at = 0; at < file.size();) {
    const size_t piece = static_cast<size_t>(std::min<uint64_t>(buffer.size(), file.size() - at));
    file.read_at(at, buffer.data(), piece);
    crc = crc32(crc, buffer.data(), static_cast<uInt>(piece));
    at += piece;
  }
  return static_cast<uint32_t>(crc);
}

// Folders "step-N" by falling N.
std::vector<std::pair<int64_t, std::string>> list_checkpoints(const std::string& folder) {
  std::vector<std::pair<int64_t, std::string>> found;
  std::error_code error;
  const fs::directory_iterator entries(folder, error);
  if (error == std::errc::no_such_file_or_directory) return found;
  WICK_CHECK(!error, "checkpoint: cannot read ", folder, ": ", error.message());
  for (const auto& entry : entries) {
    const std::string name = entry.path().filename().string();
    long long step = 0;
    char rest = 0;
    if (std::sscanf(name.c_str(), "step-%lld%c", &step, &rest) != 1 || step < 0) continue;
    found.emplace_back(step, entry.path().string());
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

Checkpoint read_checkpoint(const std::string& folder) {
  using nlohmann::json;
  const std::string manifest_path = folder + "/" + kManifest;
  const json manifest =
      json::parse(read_file(manifest_path, kMaxManifestBytes), nullptr, /*allow_exceptions=*/false);
  WICK_CHECK(manifest.is_object() && manifest.contains("step") &&
                 manifest["step"].is_number_integer() && manifest.contains("files") &&
                 manifest["files"].is_object(),
             "checkpoint: ", manifest_path, " is damaged");
  // Those of before this was checked have it, too.
  const json version = manifest.value("version", json());
  WICK_CHECK(version == kVersion, "checkpoint: ", manifest_path, " is of version ", version.dump(),
             ", expected ", kVersion, ": another release of Wick wrote it");
  Checkpoint checkpoint;
  checkpoint.step = manifest["step"].get<int64_t>();
  for (const auto& [part, entry] : manifest["files"].items()) {
    WICK_CHECK(entry.is_object() && entry.contains("bytes") &&
                   entry["bytes"].is_number_unsigned() && entry.contains("crc32") &&
                   entry["crc32"].is_number_unsigned() && part.find('/') == std::string::npos,
               "checkpoint: ", manifest_path, " is damaged");
    const std::string path = folder + "/" + part + ".safetensors";
    const InputFile file(path);
    // First the size: the content of a file that is far too long takes hours to read.
    WICK_CHECK(file.size() == entry["bytes"].get<uint64_t>(), "checkpoint: ", path,
               ": wrong size: got ", file.size(), ", expected ", entry["bytes"].get<uint64_t>());
    WICK_CHECK(crc_of(file) == entry["crc32"].get<uint64_t>(), "checkpoint: ", path,
               ": the content has changed since it was written");
    checkpoint.parts[part] = load_safetensors(path);
  }
  return checkpoint;
}

}  // namespace

CheckpointStore::CheckpointStore(std::string folder, int keep)
    : folder_(std::move(folder)), keep_(keep) {
  WICK_CHECK(keep >= 1, "checkpoint: keep: got ", keep, ", expected 1 or more");
}

std::string CheckpointStore::save(const Checkpoint& checkpoint,
                                  const std::set<int64_t>& spared) const {
  const std::string target = folder_ + "/" + kPrefix + std::to_string(checkpoint.step);
  const std::string temporary = folder_ + "/.writing";
  const auto make = [&] {
    fs::remove_all(temporary);
    fs::create_directories(temporary);
    nlohmann::json manifest = {{"version", kVersion}, {"step", checkpoint.step}};
    for (const auto& [part, tensors] : checkpoint.parts) {
      const std::string path = temporary + "/" + part + ".safetensors";
      save_safetensors(path, tensors);
      const InputFile file(path);
      manifest["files"][part] = {{"bytes", file.size()}, {"crc32", crc_of(file)}};
    }
    write_file(temporary + "/" + kManifest, manifest.dump(2) + "\n");
    // An earlier one of this step stays until the new one is in its place, where the file system
    // can exchange the two.
    if (renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) != 0) {
      fs::remove_all(target);
      fs::rename(temporary, target);
    }
    sync_folder(folder_);
    fs::remove_all(temporary);
  };
  try {
    make();
  } catch (const DeviceError&) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    throw;
  } catch (const std::exception& error) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    throw FileError(
        concat("checkpoint: could not be written, the earlier ones are untouched: ", error.what()));
  }
  int kept = 0;  // of steps up to this one: those beyond it are of another run, or damaged
  for (const auto& [step, path] : list_checkpoints(folder_)) {
    if (step > checkpoint.step || ++kept <= keep_ || spared.count(step) != 0) continue;
    std::error_code ignored;  // a leftover does no harm
    fs::remove_all(path, ignored);
  }
  return target;
}

Checkpoint CheckpointStore::load(const std::string& folder) { return read_checkpoint(folder); }

std::optional<Checkpoint> CheckpointStore::load_newest(std::string* rejected) const {
  for (const auto& [step, path] : list_checkpoints(folder_)) {
    try {
      Checkpoint checkpoint = load(path);
      WICK_CHECK(checkpoint.step == step, "checkpoint: ", path, "/", kManifest, ": got step ",
                 checkpoint.step, ", expected ", step, ", as in the folder's name");
      return checkpoint;
    } catch (const OutOfMemory&) {
      throw;  // it may be a good one
    } catch (const Error& error) {
      if (rejected != nullptr) *rejected += concat(path, " was not used: ", error.what(), "\n");
    }
  }
  return std::nullopt;
}

}  // namespace wick
