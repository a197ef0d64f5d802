#pragma once

#include "wick/tools/common/command.h"

namespace CLI {
class App;
}

namespace wick::tool {

/// Adds `wick tune` and its subcommands lr, batch and loader; sets `command` if one is called.
void add_tune(CLI::App& app, Command& command);

void add_tune_lr(CLI::App& tune, Command& command);
void add_tune_batch(CLI::App& tune, Command& command);
void add_tune_loader(CLI::App& tune, Command& command);

}  // namespace wick::tool
