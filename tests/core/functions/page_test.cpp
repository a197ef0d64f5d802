#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "wick/core/stream.h"
#include "wick/tests/core/functions/declarations.h"
#include "wick/tests/core/functions/traits.h"
#include "wick/tests/harness/paths.h"

// docs/ops.md: its table of functions is as they are, and it has a word on each of PyTorch's.
namespace wick::testing {
namespace {

const std::string kBegin = "<!-- table: core_functions_test -->\n\n";
const std::string kEnd = "\n<!-- end of table -->\n";

std::string page_path() { return source_folder() + "/docs/ops.md"; }

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(file.good()) << path;
  return text.str();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Between two marks, both of which must be there.
std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t from = text.find(begin);
  EXPECT_NE(from, std::string::npos) << begin;
  if (from == std::string::npos) return "";
  const size_t first = from + begin.size(), to = text.find(end, first);
  return text.substr(first, to == std::string::npos ? to : to - first);
}

// The texts in backquotes.
std::vector<std::string> quoted(const std::string& text) {
  static const std::regex kQuoted("`([^`]+)`");
  std::vector<std::string> all;
  for (std::sregex_iterator i(text.begin(), text.end(), kQuoted), end; i != end; ++i) {
    all.push_back((*i)[1]);
  }
  return all;
}

// What the page says of the CUDA side, which only a program with a GPU can tell.
std::map<std::string, std::string> cuda_cells(const std::string& table) {
  std::map<std::string, std::string> cells;
  static const std::regex kRow(R"(\| `([\w:]+)` \| [^|]+ \| [^|]+ \| ([^|]+) \|.*)");
  std::smatch row;
  for (const std::string& line : lines_of(table)) {
    if (std::regex_match(line, row, kRow)) cells[row[1]] = row[2];
  }
  return cells;
}

std::string table_of(const std::map<std::string, Traits>& traits, const std::string& before) {
  const auto cuda = cuda_cells(before);
  std::string text =
      "| Function | Header | CPU | CUDA | Gradient | Second | Autocast, GPU | CPU |\n"
      "|---|---|---|---|---|---|---|---|\n";
  std::set<std::pair<std::string, std::string>> rows;
  for (const Declaration& declaration : declarations()) {
    const auto found = traits.find(declaration.name);
    if (found != traits.end()) rows.insert({declaration.name, declaration.header});
  }
  for (const auto& [name, header] : rows) {
    const Traits& t = traits.at(name);
    const auto known = cuda.find(name);
    const std::string on_gpu = !t.cuda.empty()       ? t.cuda
                               : known != cuda.end() ? known->second
                                                     : "same";
    text += "| `" + name + "` | `" + header + "` | " + t.cpu + " | " + on_gpu + " | " +
            (t.gradient ? "yes" : "no") + " | " + (t.second ? "yes" : "no") + " | " +
            t.autocast_gpu + " | " + t.autocast_cpu + " |\n";
  }
  return text;
}

TEST(OpsPage, TableIsThatOfTheFunctions) {
  const std::string page = read_file(page_path());
  const std::string table = between(page, kBegin, kEnd);
  const std::string wanted = table_of(traits_of(all_functions()), table);
  if (std::getenv("WICK_WRITE_PAGE") != nullptr) {
    const size_t begin = page.find(kBegin) + kBegin.size(), end = page.find(kEnd);
    ASSERT_LT(end, page.size());
    std::ofstream(page_path()) << page.substr(0, begin) << wanted << page.substr(end);
    return;
  }
  const std::vector<std::string> has = lines_of(table), is = lines_of(wanted);
  for (const std::string& line : is) {
    EXPECT_NE(std::find(has.begin(), has.end(), line), has.end()) << "the page lacks " << line;
  }
  EXPECT_EQ(has.size(), is.size()) << "run core_functions_test with WICK_WRITE_PAGE=1";
}

// "nn.functional.relu" and "special.expit" are "relu" and "expit".
std::string without_namespace(const std::string& name) {
  static const std::regex kNamespace(R"(^(nn\.functional|special|torch|torch\.special)\.)");
  return std::regex_replace(name, kNamespace, "");
}

// The names at the start of the first column's quotes in a table of the section. A * stands for
// any letters.
std::vector<std::regex> names_in(const std::string& section) {
  std::vector<std::regex> names;
  static const std::regex kName(R"(^[\w.*]+)");
  for (const std::string& line : lines_of(section)) {
    if (line.rfind("| `", 0) != 0 && line.find("`") == std::string::npos) continue;
    if (line.rfind("| ", 0) != 0) continue;
    for (const std::string& code : quoted(line.substr(0, line.find(" | ", 2)))) {
      std::smatch name;
      if (!std::regex_search(code, name, kName)) continue;
      std::string pattern = std::regex_replace(name.str(), std::regex(R"(\.)"), R"(\.)");
      names.emplace_back(std::regex_replace(pattern, std::regex(R"(\*)"), R"([\w.]*)"));
    }
  }
  return names;
}

TEST(OpsPage, HasAWordOnEachFunctionOfPyTorch) {
  const std::string page = read_file(page_path());
  std::set<std::string> here;
  for (const auto& [name, cell] : cuda_cells(between(page, kBegin, kEnd))) here.insert(name);
  ASSERT_GT(here.size(), 300u);
  std::vector<std::regex> elsewhere = names_in(between(page, "## By other names", "\n## "));
  const std::vector<std::regex> left_out = names_in(between(page, "## What is left out", "\n## "));
  EXPECT_GT(elsewhere.size(), 100u);
  EXPECT_GT(left_out.size(), 50u);
  elsewhere.insert(elsewhere.end(), left_out.begin(), left_out.end());
  int count = 0;
  for (const std::string& name :
       lines_of(read_file(source_folder() + "/tests/core/functions/pytorch_functions.txt"))) {
    if (name[0] == '#') continue;
    ++count;
    const std::string base = without_namespace(name);
    const std::string here_name = std::regex_replace(name, std::regex(R"(\.)"), "::");
    bool found = here.count(base) != 0 || here.count(here_name) != 0;
    for (const std::regex& other : elsewhere) {
      found = found || std::regex_match(name, other) || std::regex_match(base, other);
    }
    EXPECT_TRUE(found) << "docs/ops.md has no word on PyTorch's " << name;
  }
  EXPECT_GT(count, 600);
}

}  // namespace
}  // namespace wick::testing
