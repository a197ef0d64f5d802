#include "wick/tools/tune/commands.h"

#include <CLI/CLI.hpp>

#include "wick/tools/common/usage_error.h"

namespace wick::tool {

void add_tune(CLI::App& app, Command& command) {
  CLI::App* tune = app.add_subcommand("tune",
                                      "Finds a learning rate, the largest and the fastest batch, "
                                      "or how to load data, by short trials");
  tune->callback([&command] {
    if (command) return;  // that of lr, batch or loader
    command = []() -> int {
      throw UsageError("tune: expected lr, batch or loader. See wick tune --help");
    };
  });
  add_tune_lr(*tune, command);
  add_tune_batch(*tune, command);
  add_tune_loader(*tune, command);
  for (CLI::App* sub : tune->get_subcommands({})) sub->allow_extras();
}

}  // namespace wick::tool
