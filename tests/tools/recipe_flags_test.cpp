#include "wick/tools/common/recipe_flags.h"

#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "wick/tests/harness/scoped_variable.h"
#include "wick/tests/harness/temporary_folder.h"

namespace wick::tool {
namespace {

// A recipe by words of the command line, and by a file where `path` names one.
train::Recipe recipe_of(std::vector<std::string> words, const std::string& path = "") {
  train::Recipe recipe;
  CLI::App app;
  add_recipe_flags(app, recipe);
  std::reverse(words.begin(), words.end());  // CLI11 takes the last word first
  app.parse(words);
  if (!path.empty()) apply_recipe_file(app, path, recipe);
  return recipe;
}

std::string text_of(train::Recipe recipe, const std::string& key) {
  for (const OptionField& field : train::fields(recipe)) {
    if (field.key() == key) return field.as_text();
  }
  return "no such option";
}

std::string error_of(const std::vector<std::string>& words) {
  try {
    recipe_of(words);
    return "";
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
}

TEST(RecipeFlags, SetOptionsOfEveryKind) {
  EXPECT_EQ(flag_name("batch_size"), "--batch-size");
  const train::Recipe recipe = recipe_of({"--batch-size", "48", "--lr", "0.5", "--model", "lenet",
                                          "--betas", "0.8,0.9", "--benchmark"});
  for (const auto& [key, text] : {std::pair{"batch_size", "48"},
                                  {"lr", "0.5"},
                                  {"model", "lenet"},
                                  {"betas", "0.8,0.9"},
                                  {"benchmark", "true"}}) {
    EXPECT_EQ(text_of(recipe, key), text) << key;
  }
}

TEST(RecipeFlags, AFlagOutweighsAVariableAndAVariableAFile) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path("recipe.json");
  std::ofstream(path) << R"({"batch_size": 16, "epochs": 3})";
  EXPECT_EQ(text_of(recipe_of({}, path), "batch_size"), "16");
  const testing::ScopedVariable variable("WICK_BATCH_SIZE", "32");
  EXPECT_EQ(text_of(recipe_of({}, path), "batch_size"), "32");
  EXPECT_EQ(text_of(recipe_of({"--batch-size", "64"}, path), "batch_size"), "64");
  EXPECT_EQ(text_of(recipe_of({"--batch-size", "64"}, path), "epochs"), "3");
}

TEST(RecipeFlags, SayWhatIsWrong) {
  EXPECT_EQ(error_of({"--batch-size", "1.5"}).find("--batch-size: "), 0u);
  EXPECT_EQ(error_of({"--batch-size", "many"}).find("--batch-size: "), 0u);
  EXPECT_NE(error_of({"--no-such-flag"}), "");
}

TEST(RecipeFlags, ShortHelpLeavesOutWhatFewRunsSet) {
  train::Recipe recipe;
  CLI::App app;
  add_recipe_flags(app, recipe);
  const std::string brief = app.help();
  EXPECT_NE(brief.find("--batch-size"), std::string::npos);
  EXPECT_NE(brief.find("WICK_BATCH_SIZE"), std::string::npos);
  EXPECT_EQ(brief.find("--clip-value"), std::string::npos);
  EXPECT_THROW(app.parse(std::vector<std::string>{"--help-all"}), CLI::CallForHelp);
  EXPECT_NE(app.help().find("--clip-value"), std::string::npos);
}

}  // namespace
}  // namespace wick::tool
