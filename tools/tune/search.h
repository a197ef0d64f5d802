#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <optional>
#include <string>

#include "wick/tools/common/plot.h"
#include "wick/tools/common/usage_error.h"
#include "wick/train/recipe.h"
#include "wick/train/run_folder.h"

namespace wick::tool {

/// A search of `wick tune` and its folder, in which it can go on where it was interrupted: flags
/// and what is found so far are in tune_progress.json, and at the end tune_WHAT.json has the
/// figures.
class Search {
 public:
  /// Checks the recipe of the trials and makes it whole; with --resume it is that of before. Throws
  /// InvalidOption, and UsageError where flags are not those of before.
  Search(std::string what, const CLI::App& sub, train::Recipe& recipe);

  /// A flag is what it was when the search began. UsageError if it is given, and something else.
  template <class T>
  void keep(const std::string& flag, T& value) {
    nlohmann::json& kept = values_["flags"][flag];
    if (!kept.is_null()) {
      T before{};
      read([&] { before = kept.get<T>(); });
      if (sub_.get_option(flag)->count() > 0 && value != before) refuse(flag, kept.dump());
      value = before;
    }
    kept = value;
  }
  /// Whether it had ended before. Then its figures are told of again.
  bool has_ended(bool json) const;
  /// Makes the folder where it is not there, and claims it.
  void begin();

  /// What is found so far, by name; null where nothing is.
  nlohmann::json& operator[](const char* name) { return values_[name]; }
  /// Does `work`, which takes values from what is found so far. Error if they are not there.
  template <class Work>
  void read(const Work& work) const {
    try {
      work();
    } catch (const nlohmann::json::exception&) {
      throw Error(concat("tune: ", progress_file(), " is damaged"));
    }
  }
  /// Writes what is found so far.
  void save() const;
  /// Writes tune_WHAT.json.
  void end(const nlohmann::ordered_json& figures) const;
  std::string path(const std::string& name) const { return folder_->path() + "/" + name; }

 private:
  [[noreturn]] static void refuse(const std::string& flag, const std::string& before);
  std::string figures_file() const { return path("tune_" + what_ + ".json"); }
  std::string progress_file() const { return path("tune_progress.json"); }
  void take_over(train::Recipe& recipe);

  std::string what_;
  const CLI::App& sub_;
  train::Recipe recipe_;
  std::optional<train::RunFolder> folder_;  // before begin() only if there is one
  nlohmann::json values_;
};

}  // namespace wick::tool
