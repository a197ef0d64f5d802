#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <thread>

#include "wick/core/base/check.h"
#include "wick/data/check_images.h"
#include "wick/data/packed.h"
#include "wick/tools/common/exit_codes.h"
#include "wick/tools/common/printable.h"
#include "wick/tools/common/usage_error.h"
#include "wick/tools/wick/data.h"

namespace wick::tool {

namespace {

constexpr size_t kMostShown = 20;  // groups of duplicates in the text

struct CheckFlags {
  std::string data, data_dir;
  bool json = false;
  data::ImageLimits limits;
};

struct Result {
  data::CheckReport report;
  std::vector<std::string> class_names;
};

Result check(const CheckFlags& flags) {
  data::check({.name = flags.data, .dir = flags.data_dir});
  data::set_image_limits(flags.limits);
  Result result;
  try {
    if (flags.data == "packed" && !flags.data_dir.empty()) {
      data::PackedFile::open(flags.data_dir)->check_content();
    }
    const data::LabelledImages images = data::open_images(flags.data, flags.data_dir);
    result.class_names = images.train->class_names();
    const int64_t all = images.train->size() + images.test->size();
    CountLine line(flags.json);
    const auto workers = std::clamp(std::thread::hardware_concurrency(), 1u, 64u);
    result.report = data::check_images(images, static_cast<int>(workers),
                                       [&](int64_t done) { line.show("read", done, all); });
  } catch (const Error& error) {  // the set as a whole
    result.report.bad.push_back({flags.data_dir, error.what()});
  }
  return result;
}

std::string json_text(const Result& result) {
  nlohmann::ordered_json line;
  line["images"] = result.report.images;
  line["bad"] = nlohmann::ordered_json::array();
  for (const auto& bad : result.report.bad) {
    line["bad"].push_back({{"name", bad.name}, {"reason", bad.reason}});
  }
  line["classes"] = nlohmann::ordered_json::array();
  for (size_t i = 0; i < result.report.counts.size(); ++i) {
    const auto& count = result.report.counts[i];
    line["classes"].push_back(
        {{"name", result.class_names[i]}, {"train", count.train}, {"test", count.test}});
  }
  line["duplicates"] = result.report.duplicates;
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void print_text(const Result& result) {
  for (const auto& bad : result.report.bad) fmt::print("bad: {}\n", printable(bad.reason));
  const auto& duplicates = result.report.duplicates;
  for (size_t i = 0; i < std::min(duplicates.size(), kMostShown); ++i) {
    std::string names;
    for (const std::string& name : duplicates[i]) names += (names.empty() ? "" : ", ") + name;
    fmt::print("the same bytes: {}\n", printable(names));
  }
  if (duplicates.size() > kMostShown) {
    fmt::print("the same bytes: {} more; all with --json\n", duplicates.size() - kMostShown);
  }
  if (!result.class_names.empty()) fmt::print("{:>8} {:>8}  class\n", "train", "test");
  for (size_t i = 0; i < result.report.counts.size(); ++i) {
    const auto& count = result.report.counts[i];
    fmt::print("{:>8} {:>8}  {}\n", count.train, count.test, printable(result.class_names[i]));
  }
  fmt::print("{} images, {} bad, {} stored more than once\n", result.report.images,
             result.report.bad.size(), duplicates.size());
}

}  // namespace

void add_data_check(CLI::App& data, Command& command) {
  CLI::App* sub = data.add_subcommand(
      "check", "Reads every image; lists bad ones, duplicates and the number in each class");
  auto flags = std::make_shared<CheckFlags>();
  sub->add_option("--data", flags->data, "the data set, as in wick train")->required();
  sub->add_option("--data-dir", flags->data_dir, "folder that holds its files, or its parent");
  add_image_limits(*sub, flags->limits);
  sub->add_flag("--json", flags->json, "print one JSON object");
  sub->footer("The exit code is 1 if anything is bad.");
  sub->callback([flags, &command] {
    command = [flags] {
      const Result result = check(*flags);
      if (flags->json) {
        fmt::print("{}\n", json_text(result));
      } else {
        print_text(result);
      }
      return result.report.bad.empty() ? 0 : kFailedExit;
    };
  });
}

}  // namespace wick::tool
