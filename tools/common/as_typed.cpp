#include "wick/tools/common/as_typed.h"

#include <cstdlib>

#include "wick/tools/common/shell_word.h"

namespace wick::tool {

std::string as_typed(std::string text) {
  static constexpr char kName[] = "wick";
  static constexpr size_t kLength = sizeof kName - 1;
  const char* const variable = std::getenv("WICK_COMMAND");
  if (variable == nullptr || *variable == '\0') return text;
  const std::string typed = shell_word(variable);
  const auto is_letter = [&](size_t i) {
    return i < text.size() && text[i] >= 'a' && text[i] <= 'z';
  };
  size_t at = 0;
  while ((at = text.find(kName, at)) != std::string::npos) {
    const size_t end = at + kLength;
    const bool begins = at == 0 || text[at - 1] == ' ' || text[at - 1] == '`';
    const bool is_command = end == text.size()
                                ? at == 0
                                : text[end] == ' ' && (is_letter(end + 1) || text[end + 1] == '-');
    if (begins && is_command) {
      text.replace(at, kLength, typed);
      at += typed.size();
    } else {
      at = end;
    }
  }
  return text;
}

}  // namespace wick::tool
