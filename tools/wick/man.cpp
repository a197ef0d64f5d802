// Manual pages in the macros of man(7).
#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "wick/core/file.h"
#include "wick/tools/common/usage_error.h"
#include "wick/tools/wick/command_tree.h"
#include "wick/tools/wick/commands.h"

namespace wick::tool {

namespace {

// `text` as troff prints it.
std::string troff(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool begins_line = i == 0 || text[i - 1] == '\n';
    if (begins_line && (text[i] == '.' || text[i] == '\'')) out += "\\&";
    if (text[i] == '\\') {
      out += "\\e";
    } else if (text[i] == '-') {
      out += "\\-";
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string with_value(const CommandWord& word) {
  std::string text = "\\fB" + troff(word.name) + "\\fR";
  if (!word.value.empty()) text += " \\fI" + troff(word.value) + "\\fR";
  return text;
}

std::string paragraphs(const std::vector<CommandWord>& words) {
  std::string text, group = words.empty() ? "" : words.front().group;
  for (const CommandWord& word : words) {
    if (word.group != group) text += ".SS " + troff(word.group) + "\n";
    group = word.group;
    text += ".TP\n" + with_value(word) + "\n" + troff(word.help) + "\n";
  }
  return text;
}

std::string page_of(const CommandEntry& entry, const std::vector<CommandEntry>& all) {
  std::string text = ".TH " + full_name(entry, "-") + " 1 \"\" wick \"Wick\"\n.SH NAME\n" +
                     troff(full_name(entry, "-")) + " \\- " + troff(entry.summary) +
                     "\n.SH SYNOPSIS\n.B " + full_name(entry) + "\n";
  if (!entry.subcommands.empty()) text += ".I COMMAND\n";
  text += "[\\fIOPTION\\fR...]\n";
  for (const CommandWord& word : entry.positionals) text += ".I " + troff(word.name) + "\n";
  if (!entry.positionals.empty()) text += ".SH WORDS\n" + paragraphs(entry.positionals);
  if (!entry.subcommands.empty()) text += ".SH COMMANDS\n";
  for (const CommandEntry& below : all) {
    const bool is_child = below.words.size() == entry.words.size() + 1 &&
                          std::equal(entry.words.begin(), entry.words.end(), below.words.begin());
    if (!is_child) continue;
    text += ".TP\n\\fB" + full_name(below) + "\\fR\n" + troff(below.summary) + "\n";
  }
  text += ".SH OPTIONS\n" + paragraphs(entry.flags);
  if (!entry.footer.empty()) text += ".SH NOTES\n.nf\n" + troff(entry.footer) + "\n.fi\n";
  return text;
}

struct ManFlags {
  std::vector<std::string> words;
  std::string folder;
};

int print_pages(CLI::App& app, const ManFlags& flags) {
  const std::vector<CommandEntry> entries = command_entries(app);
  if (!flags.folder.empty()) {
    std::filesystem::create_directories(flags.folder);
    for (const CommandEntry& entry : entries) {
      write_file(flags.folder + "/" + full_name(entry, "-") + ".1", page_of(entry, entries));
    }
    return 0;
  }
  for (const CommandEntry& entry : entries) {
    if (entry.words != flags.words) continue;
    fmt::print("{}", page_of(entry, entries));
    return 0;
  }
  std::string wanted;
  for (const std::string& word : flags.words) wanted += " " + word;
  throw UsageError("man: there is no command" + wanted + ". See wick --help");
}

}  // namespace

void add_man(CLI::App& app, Command& command) {
  CLI::App* sub = app.add_subcommand("man", "Prints the manual page of a command");
  auto flags = std::make_shared<ManFlags>();
  sub->add_option("COMMAND", flags->words, "the command, such as tune lr (default: wick itself)");
  sub->add_option("--folder", flags->folder, "write all pages to this folder instead");
  sub->footer("Example: wick man train | man -l -");
  sub->callback(
      [&app, flags, &command] { command = [&app, flags] { return print_pages(app, *flags); }; });
}

}  // namespace wick::tool
