#pragma once

#include <optional>
#include <string>
#include <vector>

#include "wick/tools/common/command.h"

namespace CLI {
class App;
}

namespace wick::study {

// Each adds a subcommand, as those in tools/wick/commands.h do.

void add_study(CLI::App& app, tool::Command& command);
void add_report(CLI::App& app, tool::Command& command);

/// What a process does that a study has started, and its exit code: if `words` are such a
/// process's.
std::optional<int> serve_study(const std::vector<std::string>& words);

/// The word by which a study starts this program: "study-worker", "study-rank" or "study-lab".
inline constexpr const char* kWorkerWord = "study-worker";
inline constexpr const char* kRankWord = "study-rank";
inline constexpr const char* kLabWord = "study-lab";

}  // namespace wick::study
