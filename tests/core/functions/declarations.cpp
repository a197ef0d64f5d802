#include "wick/tests/core/functions/declarations.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "wick/tests/harness/paths.h"

namespace wick::testing {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Without comments, and without what is in namespace detail.
std::string public_part(const std::string& text) {
  std::istringstream lines(text);
  std::string all, line;
  bool in_detail = false;
  while (std::getline(lines, line)) {
    line.erase(std::min(line.find("//"), line.size()));
    in_detail = in_detail || line == "namespace detail {";
    if (!in_detail) all += line + "\n";
    in_detail = in_detail && line != "}  ";
  }
  return all;
}

bool takes_tensors(const std::string& arguments) {
  static const std::regex kTensor(
      R"((const Tensor& \w+|const std::vector<Tensor>& \w+|const Start& \w+)(,|\)))");
  return std::regex_search(arguments, kTensor);
}

void read(const std::filesystem::path& path, std::vector<Declaration>& all) {
  const std::string text = public_part(text_of(path));
  std::smatch inner;
  std::string within;
  if (std::regex_search(text, inner, std::regex(R"(\nnamespace wick::(\w+) \{)"))) {
    within = inner[1].str() + "::";
  }
  // A result and a name at the start of a line, and all up to the closing parenthesis of the
  // arguments, which hold none but in pairs.
  static const std::regex kFunction(
      R"(\n(?:inline |requires [^;{]*> )*(?:[\w:]+(?:<[\w:, ]+>)? )(\w+))"
      R"((\((?:[^(){}]|\{[^{}]*\}|\([^()]*\))*\));?( = delete)?)");
  for (std::sregex_iterator i(text.begin(), text.end(), kFunction), end; i != end; ++i) {
    const std::smatch& found = *i;
    if (found[3].matched) continue;
    all.push_back({within + found[1].str(), path.filename().string(), takes_tensors(found[2])});
  }
}

}  // namespace

std::vector<Declaration> declarations() {
  std::vector<std::filesystem::path> headers;
  for (const auto& entry : std::filesystem::directory_iterator(source_folder() + "/core/ops")) {
    if (entry.path().extension() == ".h") headers.push_back(entry.path());
  }
  std::sort(headers.begin(), headers.end());
  std::vector<Declaration> all;
  for (const std::filesystem::path& header : headers) read(header, all);
  return all;
}

}  // namespace wick::testing
