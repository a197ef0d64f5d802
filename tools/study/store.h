#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace wick::study {

/// The lines of the study in `folder`; none if it has no study.jsonl. A torn last line is left out,
/// and `whole_bytes` are those of the others. Error if they cannot be read or are no study's.
std::vector<nlohmann::json> read_study(const std::string& folder, size_t* whole_bytes = nullptr);

/// The folder of a study: study.jsonl, a line of JSON for each thing that was measured, written at
/// once, so that a study that is interrupted keeps it.
class Store {
 public:
  /// Makes the folder if it is not there, and keeps other processes out while this object lives.
  /// What study.jsonl holds already is read; a torn last line is dropped. Error if it cannot be
  /// read or is no study's.
  explicit Store(const std::string& folder);

  const std::string& folder() const { return folder_; }
  std::string page() const { return folder_ + "/study.html"; }
  const std::vector<nlohmann::json>& lines() const { return lines_; }
  /// The last line of that kind, and of that name if one is given; null if there is none.
  const nlohmann::json* find(const std::string& kind, const std::string& id = "") const;
  /// Calls `read`, which takes values out of `line`, one of these or null. If something is missing
  /// there or of another kind, the error names the file and the line.
  template <class Read>
  void reading(const nlohmann::json* line, const Read& read) const {
    try {
      read();
    } catch (const nlohmann::json::exception& error) {
      if (line == nullptr) throw;
      fail(*line, error.what());
    }
  }
  /// Writes a line. Error if that cannot be done.
  void append(const nlohmann::json& line);

 private:
  [[noreturn]] void fail(const nlohmann::json& line, const std::string& error) const;
  std::string file() const;

  std::string folder_;
  std::shared_ptr<void> lock_;
  std::vector<nlohmann::json> lines_;
};

}  // namespace wick::study
