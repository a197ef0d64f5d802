#pragma once

#include "wick/tools/common/plot.h"
#include "wick/tools/wick/commands.h"
#include "wick/train/recipe.h"
#include "wick/train/run_folder.h"

namespace wick::tool {

/// Checks the recipe of a trial and makes it whole. Throws InvalidOption.
void prepare_tuning(train::Recipe& recipe);

/// The folder for what a trial writes, claimed.
train::RunFolder tuning_folder(const train::Recipe& recipe);

void add_tune_lr(CLI::App& tune, Command& command);
void add_tune_batch(CLI::App& tune, Command& command);
void add_tune_loader(CLI::App& tune, Command& command);

}  // namespace wick::tool
