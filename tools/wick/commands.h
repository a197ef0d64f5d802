#pragma once

#include <string>
#include <vector>

#include "wick/tools/common/command.h"

namespace CLI {
class App;
}

namespace wick::tool {

/// Does what the program does when it is called with `words`; returns its exit code.
int run_program(const std::vector<std::string>& words);
/// The words of the latest call.
const std::vector<std::string>& program_words();

// Each adds its subcommand and sets `command` if that is the one called.

void add_train(CLI::App& app, Command& command);
void add_profile(CLI::App& app, Command& command);
void add_eval(CLI::App& app, Command& command);
void add_doctor(CLI::App& app, Command& command);
void add_ops(CLI::App& app, Command& command);
void add_inspect(CLI::App& app, Command& command);
void add_data(CLI::App& app, Command& command);
/// `words` are those behind "--".
void add_launch(CLI::App& app, Command& command, const std::vector<std::string>& words);
/// Of all subcommands of `app`.
void add_man(CLI::App& app, Command& command);
void add_completion(CLI::App& app, Command& command);

/// Becomes wick-bench, from this program's folder, with `words`. Error where there is none.
[[noreturn]] void run_bench(std::vector<std::string> words);

}  // namespace wick::tool
