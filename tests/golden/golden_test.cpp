// golden_test [--cases DIR] [--family F]... [--op RE] [--device D] [--survey FILE]
//
// Runs the reference cases of a folder. The last line is "N passed, M failed"; the exit status is 0
// if M is 0 and N is not. With --survey, cases that ask for what Wick does not have are counted for
// themselves and do not fail; a table says what passed, op by op, and FILE what became of each
// case.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "wick/core/file.h"
#include "wick/tests/golden/golden.h"
#include "wick/tests/golden/survey.h"
#include "wick/tests/harness/paths.h"

namespace wick::golden {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

struct Options {
  std::string cases = testing::source_folder() + "/tests/golden/cases";
  std::vector<std::string> families;
  std::optional<std::regex> op;
  Device device = kCpu;
  std::string survey;
};

struct Totals {
  int passed = 0;
  int failed = 0;
  std::set<std::string> left_out;  // ops that --op excludes
  Survey survey;

  void fail(const std::string& what, const std::string& reason) {
    ++failed;
    std::printf("FAILED %s: %s\n", what.c_str(), reason.c_str());
  }
};

// The tensors named CASE/TENSOR, without CASE/.
TensorMap tensors_of(const std::string& name, const TensorMap& all) {
  TensorMap own;
  const std::string prefix = name + "/";
  for (auto it = all.lower_bound(prefix); it != all.end() && it->first.starts_with(prefix); ++it) {
    own.emplace(it->first.substr(prefix.size()), it->second);
  }
  return own;
}

void run_case(const Options& options, const std::string& family, const json& description,
              const TensorMap& tensors, Totals& totals) {
  std::string name = "case without a name";
  try {
    name = description.at("name").get<std::string>();
    Case golden_case{name,
                     description.at("op").get<std::string>(),
                     &description,
                     tensors_of(name, tensors),
                     description.at("rtol").get<double>(),
                     description.at("atol").get<double>(),
                     options.device};
    if (options.op && !std::regex_match(golden_case.op, *options.op)) {
      totals.left_out.insert(golden_case.op);
      return;
    }
    // What stands behind a point tells files of one family apart.
    const auto runner = families().find(family.substr(0, family.find('.')));
    WICK_CHECK(runner != families().end(), "unknown family '", family, "'");
    runner->second(golden_case);
    ++totals.passed;
    totals.survey.pass(family, name);
  } catch (const Missing& missing) {
    totals.survey.miss(family, name, missing.what());
    if (options.survey.empty()) totals.fail(family + "/" + name, missing.what());
  } catch (const std::exception& error) {
    totals.survey.wrong(family, name, error.what());
    totals.fail(family + "/" + name, error.what());
  }
}

void run_family(const Options& options, const std::string& family, Totals& totals) {
  const std::string base = options.cases + "/" + family;
  json content;
  TensorMap tensors;
  try {
    content = json::parse(read_file(base + ".json", 100'000'000));
    tensors = load_safetensors(base + ".safetensors");
    WICK_CHECK(content.is_object() && content.contains("cases") && content["cases"].is_array(),
               base, ".json: there is no list of cases");
    WICK_CHECK(content.value("family", "") == family, base, ".json: family is '",
               content.value("family", ""), "', expected '", family, "'");
  } catch (const std::exception& error) {
    totals.fail(family, error.what());
    return;
  }
  for (const json& description : content["cases"]) {
    run_case(options, family, description, tensors, totals);
  }
}

std::vector<std::string> families_in(const std::string& folder) {
  std::set<std::string> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") found.insert(entry.path().stem().string());
  }
  return {found.begin(), found.end()};
}

Options parse(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string name = arguments[i];
    WICK_CHECK(i + 1 < count || name == "--help", name, ": unknown, or its value is missing");
    const std::string value = name == "--help" ? "" : arguments[++i];
    if (name == "--cases") {
      options.cases = value;
    } else if (name == "--family") {
      options.families.push_back(value);
    } else if (name == "--op") {
      options.op = std::regex(value);
    } else if (name == "--device") {
      options.device = parse_device(value);
    } else if (name == "--survey") {
      options.survey = value;
    } else {
      throw Error(
          concat("usage: golden_test [--cases DIR] [--family F]... [--op RE] [--device D] "
                 "[--survey FILE]",
                 name == "--help" ? "" : "\nunknown option " + name));
    }
  }
  return options;
}

int run(const Options& options) {
  Totals totals;
  try {
    const std::vector<std::string> wanted =
        options.families.empty() ? families_in(options.cases) : options.families;
    for (const std::string& family : wanted) run_family(options, family, totals);
  } catch (const std::exception& error) {
    totals.fail(options.cases, error.what());
  }
  if (!totals.left_out.empty()) {
    std::printf("left out by --op:");
    for (const std::string& op : totals.left_out) std::printf(" %s", op.c_str());
    std::printf("\n");
  }
  if (!options.survey.empty()) totals.survey.write(options.survey);
  std::printf("%d passed, %d failed\n", totals.passed, totals.failed);
  return totals.failed == 0 && totals.passed > 0 ? 0 : 1;
}

}  // namespace
}  // namespace wick::golden

int main(int count, char** arguments) {
  wick::golden::Options options;
  try {
    options = wick::golden::parse(count, arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  return wick::golden::run(options);
}
