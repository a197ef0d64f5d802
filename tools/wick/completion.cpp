// Scripts by which shells complete commands, flags and the values of flags.
#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <memory>

#include "wick/tools/common/usage_error.h"
#include "wick/tools/wick/command_tree.h"
#include "wick/tools/wick/commands.h"

namespace wick::tool {

namespace {

using Entries = std::vector<CommandEntry>;

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// `text` within single quotes of a shell.
std::string in_quotes(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string replaced(std::string text, const std::string& characters) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (characters.find(text[i]) != std::string::npos) text.insert(i++, "\\");
  }
  return text;
}

std::string bash_script(const Entries& entries) {
  std::string script =
      "# Completion of wick for bash.\n"
      "_wick() {\n"
      "  local word command='' i\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
      "    word=${COMP_WORDS[i]}\n"
      "    case \"$command $word\" in\n";
  for (const CommandEntry& entry : entries) {
    if (entry.words.empty()) continue;
    const std::vector<std::string> parent(entry.words.begin(), entry.words.end() - 1);
    script += "      " + in_quotes(joined(parent) + " " + entry.words.back()) +
              ") command=" + in_quotes(joined(entry.words)) + " ;;\n";
  }
  script += "    esac\n  done\n  COMPREPLY=()\n  case \"$command $before\" in\n";
  for (const CommandEntry& entry : entries) {
    for (const CommandWord& flag : entry.flags) {
      if (flag.value.empty()) continue;
      script += "    " + in_quotes(joined(entry.words) + " " + flag.name) + ")";
      if (!flag.values.empty()) {
        script +=
            " COMPREPLY=($(compgen -W " + in_quotes(joined(flag.values)) + " -- \"$current\"));";
      }
      script += " return ;;\n";
    }
  }
  script += "  esac\n  case \"$command\" in\n";
  for (const CommandEntry& entry : entries) {
    std::vector<std::string> words = entry.subcommands;
    for (const CommandWord& flag : entry.flags) words.push_back(flag.name);
    script += "    " + in_quotes(joined(entry.words)) + ") COMPREPLY=($(compgen -W " +
              in_quotes(joined(words)) + " -- \"$current\")) ;;\n";
  }
  return script + "  esac\n}\ncomplete -o bashdefault -o default -F _wick wick\n";
}

std::string zsh_script(const Entries& entries) {
  std::string script = "#compdef wick\n# Completion of wick for zsh.\n";
  for (const CommandEntry& entry : entries) {
    std::string name = "_wick";
    for (const std::string& word : entry.words) name += "_" + word;
    script += name + "() {\n  local state\n  _arguments";
    for (const CommandWord& flag : entry.flags) {
      std::string spec = flag.name + "[" + replaced(flag.help, "[]\\:") + "]";
      if (!flag.value.empty()) {
        spec += ":" + replaced(flag.value, "[]\\:") + ":";
        spec += flag.values.empty() ? "_files" : "(" + joined(flag.values) + ")";
      }
      script += " \\\n    " + in_quotes(spec);
    }
    if (entry.subcommands.empty()) {
      script += " \\\n    '*:file:_files'\n}\n";
      continue;
    }
    script += " \\\n    '1:command:(" + joined(entry.subcommands) + ")' '*::word:->word'\n";
    script += "  if [[ $state == word ]]; then\n    case $words[1] in\n";
    for (const std::string& below : entry.subcommands) {
      script += "      " + below + ") " + name + "_" + below + " ;;\n";
    }
    script += "    esac\n  fi\n}\n";
  }
  return script + "_wick \"$@\"\n";
}

std::string fish_script(const Entries& entries) {
  std::string script = "# Completion of wick for fish.\n";
  for (const CommandEntry& entry : entries) {
    std::string condition = "not __fish_seen_subcommand_from " + joined(entries[0].subcommands);
    if (!entry.words.empty()) {
      condition.clear();
      for (const std::string& word : entry.words) {
        condition += (condition.empty() ? "" : "; and ") + ("__fish_seen_subcommand_from " + word);
      }
    }
    const std::string begin = "complete -c wick -n " + in_quotes(condition);
    for (const std::string& below : entry.subcommands) {
      std::vector<std::string> path = entry.words;
      path.push_back(below);
      for (const CommandEntry& other : entries) {
        if (other.words != path) continue;
        script += begin + " -f -a " + below + " -d " + in_quotes(other.summary) + "\n";
      }
    }
    for (const CommandWord& flag : entry.flags) {
      script += begin + " -l " + flag.name.substr(2) + " -d " + in_quotes(flag.help);
      if (!flag.value.empty()) script += " -r";
      if (!flag.values.empty()) script += " -f -a " + in_quotes(joined(flag.values));
      script += "\n";
    }
  }
  return script;
}

}  // namespace

void add_completion(CLI::App& app, Command& command) {
  CLI::App* sub = app.add_subcommand(
      "completion", "Prints a script by which a shell completes the words of wick");
  auto shell = std::make_shared<std::string>();
  sub->add_option("SHELL", *shell, "bash, zsh or fish")->required();
  sub->footer("Example: eval \"$(wick completion bash)\"");
  sub->callback([&app, shell, &command] {
    command = [&app, shell] {
      if (*shell != "bash" && *shell != "zsh" && *shell != "fish") {
        throw UsageError("completion: unknown shell: got " + *shell +
                         ", expected bash, zsh or fish");
      }
      const Entries entries = command_entries(app);
      fmt::print("{}", *shell == "bash"  ? bash_script(entries)
                       : *shell == "zsh" ? zsh_script(entries)
                                         : fish_script(entries));
      return 0;
    };
  });
}

}  // namespace wick::tool
