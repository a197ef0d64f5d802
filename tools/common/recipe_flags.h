#pragma once

#include <string>

#include "wick/core/options.h"
#include "wick/train/recipe.h"

namespace CLI {
class App;
}

namespace wick::tool {

/// Gives `app` a flag and an environment variable for every option of a recipe: --batch-size and
/// WICK_BATCH_SIZE for batch_size. A flag outweighs a variable, a variable a file.
void add_recipe_flags(CLI::App& app, train::Recipe& recipe);

/// Sets the options that neither a flag nor a variable has set from a JSON file. To be called after
/// parsing. OptionError as of read_options.
void apply_recipe_file(const CLI::App& app, const std::string& path, train::Recipe& recipe);

/// "--batch-size" for "batch_size".
std::string flag_name(std::string key);

}  // namespace wick::tool
