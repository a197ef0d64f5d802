#include "wick/tools/wick/command_tree.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <map>

#include "wick/tools/common/recipe_flags.h"

namespace wick::tool {

namespace {

using Choices = std::map<std::string, std::vector<std::string>>;

// What the values of a recipe's flags may be, by flag.
Choices recipe_choices() {
  train::Recipe recipe;
  Choices choices;
  for (const OptionField& field : train::fields(recipe)) {
    if (!field.names().empty()) choices[flag_name(field.key())] = field.names();
  }
  return choices;
}

// Gives the flags that short help leaves out their groups.
void show_all(CLI::App& app) {
  CLI::Option* const all = app.get_option_no_throw("--help-all");
  if (all == nullptr) return;
  try {
    all->add_result("true");
    all->run_callback();
  } catch (const CLI::CallForHelp&) {
  }
  all->clear();
}

CommandWord word_of(const CLI::Option& option, const Choices& choices) {
  const bool has_value = option.get_expected_max() > 0;
  CommandWord word{
      .name = option.get_positional() ? option.get_name(true) : "--" + option.get_lnames().front(),
      .group = option.get_group(),
      .value = has_value ? option.get_type_name() : "",
      .help = option.get_description(),
      .values = {}};
  if (has_value && !option.get_default_str().empty()) {
    word.help += " (default: " + option.get_default_str() + ")";
  }
  if (const auto found = choices.find(word.name); found != choices.end()) {
    word.values = found->second;
  }
  return word;
}

void add_entries(CLI::App& app, const std::vector<std::string>& words, const Choices& choices,
                 std::vector<CommandEntry>& entries) {
  show_all(app);
  CommandEntry entry{.words = words,
                     .summary = app.get_description(),
                     .flags = {},
                     .positionals = {},
                     .subcommands = {},
                     .footer = app.get_footer()};
  for (const CLI::Option* option : app.get_options()) {
    (option->get_positional() ? entry.positionals : entry.flags)
        .push_back(word_of(*option, choices));
  }
  // Those of the command itself before those of a recipe.
  std::stable_partition(entry.flags.begin(), entry.flags.end(),
                        [](const CommandWord& flag) { return flag.group == "Options"; });
  const std::vector<CLI::App*> subs = app.get_subcommands({});
  for (const CLI::App* sub : subs) entry.subcommands.push_back(sub->get_name());
  entries.push_back(std::move(entry));
  for (CLI::App* sub : subs) {
    std::vector<std::string> below = words;
    below.push_back(sub->get_name());
    add_entries(*sub, below, choices, entries);
  }
}

}  // namespace

std::vector<CommandEntry> command_entries(CLI::App& app) {
  std::vector<CommandEntry> entries;
  add_entries(app, {}, recipe_choices(), entries);
  return entries;
}

std::string full_name(const CommandEntry& entry, const char* between) {
  std::string name = "wick";
  for (const std::string& word : entry.words) name += between + word;
  return name;
}

}  // namespace wick::tool
