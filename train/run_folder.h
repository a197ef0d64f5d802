#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace wick::train {

/// Makes the first of BASE, BASE-2, BASE-3... that is not there, which then is no other process's,
/// and the folder that it is in. With the last copy of the name it is removed, if nothing is in it.
std::shared_ptr<const std::string> make_new_folder(const std::string& base);

/// The folder in which a run keeps everything: config.json, metrics.jsonl (one JSON object a line),
/// weights.safetensors, checkpoints/.
class RunFolder {
 public:
  /// The folder of a run to come; empty means a new one, runs/DATE-TIME, which is removed if it
  /// is empty when the last RunFolder of it goes. Error if it already holds a run.
  static RunFolder plan(const std::string& path);
  /// The folder of a run that is there already.
  static RunFolder open(const std::string& path);
  /// The folder of a run that another process cares for: to read from.
  static RunFolder of_other(const std::string& path) { return RunFolder(path); }

  /// Makes the folder where it is not there, and keeps other processes from claiming it while this
  /// object lives. Error if it cannot be made, one of them has it, or (`is_new`) it holds a run.
  void claim(bool is_new);
  /// The same for a launcher, whose ranks claim the folder one after another: keeps other launchers
  /// from the folder, but not the ranks.
  void claim_for_ranks();

  /// Whether it holds a run.
  bool holds_run() const;
  /// Whether it holds metrics or weights.
  bool holds_results() const;
  /// Finds the folder that was claimed where it is now, should it have been renamed. Error if it
  /// was removed.
  void follow();
  const std::string& path() const { return path_; }                             // of the folder
  std::string config_file() const { return path_ + "/config.json"; }            // the recipe
  std::string environment_file() const { return path_ + "/environment.json"; }  // the machine
  std::string metrics_file() const { return path_ + "/metrics.jsonl"; }         // a line per record
  std::string weights_file() const { return path_ + "/weights.safetensors"; }   // the trained model
  /// Of each rank.
  std::string plan_file(int rank = 0) const {
    return path_ + (rank == 0 ? "/plans.txt" : "/plans-" + std::to_string(rank) + ".txt");
  }
  std::string memory_file() const { return path_ + "/memory.pickle"; }  // of --memory-history
  std::string checkpoints() const { return path_ + "/checkpoints"; }    // the folder of checkpoints

  /// Adds the plans that the rank has measured in this run, or those of rank 0.
  void load_plans(int rank = 0) const;
  /// Where the run is not on the machine, or of the compiler, that environment.json tells of: a
  /// sentence each, "machine: was A, is B".
  std::vector<std::string> environment_changes() const;
  /// Writes `json` to config.json, and what machine the run is on to environment.json.
  void write_config(const std::string& json) const;
  /// Appends a line to metrics.jsonl: `json`, an object without line breaks. FileError if that
  /// cannot be written now: the next call, or flush_metrics, tries again.
  void log(const std::string& json);
  /// Writes the lines that are not in the file yet. FileError if they cannot be.
  void flush_metrics();
  /// Drops the lines of metrics.jsonl about steps after `step`, and a torn last line.
  void drop_metrics_after(int64_t step);

 private:
  explicit RunFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
  std::shared_ptr<const std::string> made_;  // if it is a new one
  std::shared_ptr<void> lock_;
  int descriptor_ = -1;            // of the folder, while it is claimed
  std::shared_ptr<void> metrics_;  // closes its descriptor
  int metrics_descriptor_ = -1;
  std::string unwritten_;  // of metrics.jsonl
};

}  // namespace wick::train
