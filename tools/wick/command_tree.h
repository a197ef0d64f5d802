#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace wick::tool {

/// A flag, or a word without one, of a command.
struct CommandWord {
  std::string name;   // "--batch-size", or "RUN"
  std::string group;  // what help puts it under: "Loading"
  std::string value;  // "INT"; empty for a switch
  std::string help;
  std::vector<std::string> values;  // what the value may be; empty: anything, such as a file
};

/// A command, as help describes it.
struct CommandEntry {
  std::vector<std::string> words;  // {"tune", "lr"}; none for the program itself
  std::string summary;
  std::vector<CommandWord> flags, positionals;
  std::vector<std::string> subcommands;
  std::string footer;
};

/// The program, then all its commands and those of theirs, with every flag.
std::vector<CommandEntry> command_entries(CLI::App& app);

/// "wick", "wick tune lr"
std::string full_name(const CommandEntry& entry, const char* between = " ");

}  // namespace wick::tool
