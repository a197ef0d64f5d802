#include "wick/tools/tune/search.h"

#include <fmt/core.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "wick/core/file.h"
#include "wick/tools/common/recipe_flags.h"

namespace wick::tool {

namespace {

constexpr uint64_t kMaxProgressBytes = 64 << 20;

}  // namespace

Search::Search(std::string what, const CLI::App& sub, train::Recipe& recipe)
    : what_(std::move(what)), sub_(sub) {
  values_["tune"] = what_;
  if (recipe.run.resume && !recipe.run.dir.empty()) take_over(recipe);
  train::check(recipe);
  recipe_ = recipe = train::resolve(recipe);
  if (!folder_) return;
  const auto before = train::recipe_from_json(folder_->config_file());
  const std::vector<std::string> changes = train::changes_since(recipe_, before);
  if (!changes.empty()) {
    throw UsageError(concat("--resume: ", changes[0], ": begin anew in another folder"));
  }
}

void Search::take_over(train::Recipe& recipe) {
  const std::string dir = recipe.run.dir;
  folder_ = train::RunFolder::open(dir);
  std::error_code error;
  WICK_CHECK(std::filesystem::exists(progress_file(), error), "tune: ", dir,
             " holds no search to go on with: expected ", progress_file());
  const std::string text = read_file(progress_file(), kMaxProgressBytes);
  values_ = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  WICK_CHECK(values_.is_object() && values_.contains("flags") && values_["flags"].is_object(),
             "tune: ", progress_file(), " is damaged");
  WICK_CHECK(values_["tune"] == what_, "tune: ", dir, " holds a search of wick tune ",
             values_["tune"].dump(), ", expected ", what_);
  apply_recipe_file(sub_, folder_->config_file(), recipe);
  recipe.run.dir = dir;
}

void Search::refuse(const std::string& flag, const std::string& before) {
  throw UsageError(concat("--resume: ", flag, " was ", before,
                          ": leave it out, or begin anew in another folder"));
}

bool Search::has_ended(bool json) const {
  std::error_code error;
  if (!folder_ || !std::filesystem::exists(figures_file(), error)) return false;
  if (json) {
    const std::string text = read_file(figures_file(), kMaxProgressBytes);
    fmt::print("{}\n", nlohmann::ordered_json::parse(text, nullptr, false).dump());
  } else {
    fmt::print("the search has ended before: its figures are in {}\n", figures_file());
  }
  return true;
}

void Search::begin() {
  const bool is_new = !folder_;
  if (is_new) folder_ = train::RunFolder::plan(recipe_.run.dir);
  folder_->claim(is_new);
  if (!is_new) return;
  save();  // first: what has a configuration can be resumed
  folder_->write_config(to_json(recipe_));
}

void Search::save() const { write_file(progress_file(), values_.dump() + "\n"); }

void Search::end(const nlohmann::ordered_json& figures) const {
  write_file(figures_file(), figures.dump(2) + "\n");
}

}  // namespace wick::tool
