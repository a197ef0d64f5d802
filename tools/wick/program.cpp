#include "wick/program.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "wick/core/options.h"
#include "wick/tools/common/as_typed.h"
#include "wick/tools/common/command_line.h"
#include "wick/tools/common/exit_codes.h"
#include "wick/tools/common/recipe_flags.h"
#include "wick/tools/common/standard_files.h"
#include "wick/tools/common/usage_error.h"
#include "wick/tools/study/commands.h"
#include "wick/tools/tune/commands.h"
#include "wick/tools/wick/commands.h"
#include "wick/tools/wick/ranks.h"

namespace {

// What to say of words that no flag or subcommand takes.
std::string unknown_words(const CLI::App& app, const std::string& first) {
  std::vector<std::string> known;
  const CLI::App* called = &app;
  std::string command = "wick ";
  while (!called->get_subcommands().empty()) {
    called = called->get_subcommands().front();
    command += called->get_name() + " ";
  }
  for (const CLI::Option* option : called->get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  for (const CLI::App* sub : called->get_subcommands({})) known.push_back(sub->get_name());
  const std::string word = first.substr(0, first.find('='));
  return "unknown " + std::string(word.starts_with("-") ? "flag " : "word ") + word + "." +
         wick::suggestion(word, known) + " See " + command + "--help";
}

// What is wrong with an option, which on a command line is a flag, as are those that it names.
std::string flag_problem(const wick::InvalidOption& error) {
  std::string problem = error.problem();
  wick::train::Recipe recipe;
  for (const wick::OptionField& field : wick::train::fields(recipe)) {
    const size_t at = problem.find(field.key());
    if (field.key().find('_') == std::string::npos || at == std::string::npos) continue;
    if (at > problem.find("expected one of ")) continue;  // a name of something else
    problem.replace(at, field.key().size(), wick::tool::flag_name(field.key()));
  }
  return wick::tool::flag_name(error.option()) + ": " + problem;
}

std::vector<std::string> called_with;

}  // namespace

namespace wick::tool {

const std::vector<std::string>& program_words() { return called_with; }

int run_program(const std::vector<std::string>& words) {
  called_with = words;
  // What launch starts is none of its flags.
  const auto end = !words.empty() && words[0] == "launch"
                       ? std::find(words.begin(), words.end(), "--")
                       : words.end();
  const std::vector<std::string> behind(end == words.end() ? end : end + 1, words.end());
  CLI::App app("Trains neural networks, and tells what each optimization is worth.",
               as_typed("wick"));
  app.require_subcommand(0, 1);
  Command command;
  add_train(app, command);
  add_eval(app, command);
  add_profile(app, command);
  add_doctor(app, command);
  add_ops(app, command);
  add_tune(app, command);
  add_inspect(app, command);
  add_data(app, command);
  add_launch(app, command, behind);
  add_man(app, command);
  add_completion(app, command);
  study::add_study(app, command);
  study::add_report(app, command);
  app.add_subcommand("bench", "Measures every kernel against what the hardware can do at best");
  try {
    if (!words.empty() && words[0] == "bench") run_bench({words.begin() + 1, words.end()});
    check_words(app, {words.begin(), end});
    app.allow_extras();
    for (CLI::App* sub : app.get_subcommands({})) sub->allow_extras();
    app.parse(std::vector<std::string>(std::make_reverse_iterator(end), words.rend()));
    std::vector<std::string> extras = app.remaining(true);
    if (!extras.empty()) return fail(kUsageExit, unknown_words(app, extras.front()));
    if (!command) {
      std::printf("%s", app.help().c_str());
      return words.empty() ? 0 : kUsageExit;
    }
    return command();
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const InvalidOption& error) {
    return fail(kUsageExit, flag_problem(error));
  } catch (const std::bad_alloc&) {
    return fail(kFailedExit, "out of memory");
  } catch (const std::exception& error) {
    return fail(exit_code_of(error), error.what());
  }
}

}  // namespace wick::tool

int wick::program(int argc, char** argv) {
  tool::open_standard_files();
  // A file at its size limit is an error to report, not the end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  const std::vector<std::string> words(argv + 1, argv + std::max(argc, 1));
  // Its threads wait for each other as the study says.
  if (const std::optional<int> code = study::serve_study(words)) return *code;
  const int code = tool::run_program(words);
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  return code == 0 ? tool::fail(tool::kFileExit, "cannot write to standard output") : code;
}
