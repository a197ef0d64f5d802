#pragma once

#include <string>

namespace wick::tool {

/// `text` in one line that moves no cursor and sets no colour: control characters as \xNN.
std::string printable(const std::string& text);

}  // namespace wick::tool
