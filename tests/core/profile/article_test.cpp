// The snippet of article 001 on PyTorch's profiler, as docs/profiler.md has it.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <sstream>

#include "wick/core/core.h"
#include "wick/nn/nn.h"
#include "wick/tests/harness/paths.h"

namespace wick {
namespace {

void snippet() {
  // From here
  nn::Linear model(3, 1);
  const Tensor x = randn({1000, 3});

  profile::Profiler prof({.cpu = true, .cuda = true, .record_shapes = true});
  prof.start();
  {
    const profile::RecordFunction scope("model_inference");
    const Tensor output = model(x);
  }
  prof.stop();

  std::cout << prof.key_averages().table({.sort_by = "cuda_time_total"});
  // to here
}

std::string content(const std::string& path) {
  std::ifstream file(testing::source_folder() + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Without the first two spaces of each line.
std::string outdented(const std::string& text) {
  std::istringstream lines(text);
  std::string line, result;
  while (std::getline(lines, line)) result += (line.size() > 2 ? line.substr(2) : "") + "\n";
  return result;
}

// Sorted: the order of rows goes by their times.
std::vector<std::string> names_in(const std::string& table) {
  std::vector<std::string> names;
  std::istringstream lines(table);
  std::string line, name;
  while (std::getline(lines, line)) {
    if (line.starts_with("---") || !(std::istringstream(line) >> name)) continue;
    names.push_back(name == "Name" ? line : name);
    while (names.back().back() == ' ') names.back().pop_back();
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(ArticleOnProfiling, IsInTheDocumentationAsItRuns) {
  const std::string own = content("/tests/core/profile/article_test.cpp");
  const size_t begin = own.find("  // From here\n") + 15, end = own.find("  // to here\n");
  const std::string page = content("/docs/profiler.md");
  const std::string code = "```cpp\n" + outdented(own.substr(begin, end - begin)) + "```\n";
  const size_t at = page.find(code);
  ASSERT_NE(at, std::string::npos) << code;

  ::testing::internal::CaptureStdout();
  snippet();
  const std::string printed = ::testing::internal::GetCapturedStdout();
  const size_t table = page.find("```\n", at + code.size()) + 4;
  const std::string shown = page.substr(table, page.find("```", table) - table);
  EXPECT_EQ(names_in(shown), names_in(printed)) << printed;
}

}  // namespace
}  // namespace wick
