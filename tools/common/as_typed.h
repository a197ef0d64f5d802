#pragma once

#include <string>

namespace wick::tool {

/// `text` with its commands as the user types them: "go on with: wick train" becomes "go on with:
/// ./wick train" where WICK_COMMAND is ./wick, as the script of that name sets it.
std::string as_typed(std::string text);

}  // namespace wick::tool
