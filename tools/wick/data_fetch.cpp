#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>

#include "wick/core/options.h"
#include "wick/data/fetch.h"
#include "wick/tools/common/as_typed.h"
#include "wick/tools/common/number_flag.h"
#include "wick/tools/common/shell_word.h"
#include "wick/tools/common/usage_error.h"
#include "wick/tools/wick/data.h"

namespace wick::tool {

namespace {

struct FetchFlags {
  std::string name;
  data::FetchOptions options;
};

int fetch(const FetchFlags& flags) {
  const std::vector<std::string>& known = data::fetch_names();
  if (std::find(known.begin(), known.end(), flags.name) == known.end()) {
    throw UsageError(fmt::format("data fetch: unknown data set: got \"{}\", expected one of {}.{}",
                                 flags.name, fmt::join(known, ", "),
                                 suggestion(flags.name, known)));
  }
  data::FetchOptions options = flags.options;
  std::string folder;
  {
    CountLine line(/*quiet=*/false);
    options.progress = [&](const std::string& file, uint64_t done, uint64_t all) {
      line.show(file, static_cast<int64_t>(done), static_cast<int64_t>(all));
    };
    folder = data::fetch(flags.name, options);
  }
  const std::string where =
      options.cache_dir.empty() ? std::string() : fmt::format(" --data-dir {}", shell_word(folder));
  fmt::print("{} is in {}\ntrain on it with: {} --data {}{}\n", flags.name, folder,
             as_typed("wick train"), flags.name, where);
  return 0;
}

}  // namespace

void add_data_fetch(CLI::App& data, Command& command) {
  CLI::App* sub =
      data.add_subcommand("fetch", "Downloads a data set with curl, for wick train to find");
  auto flags = std::make_shared<FetchFlags>();
  sub->add_option("name", flags->name, "mnist, fashion-mnist, cifar10 or cifar100")->required();
  sub->add_option("--cache-dir", flags->options.cache_dir,
                  "folder of all downloads (default: $XDG_CACHE_HOME/wick or ~/.cache/wick)");
  sub->add_option("--url", flags->options.url, "another place that has the set's files");
  sub->add_option("--sums", flags->options.sums,
                  "file of SHA-256 sums, as sha256sum prints them, instead of those known");
  sub->add_option("--timeout", flags->options.stall_seconds,
                  "seconds without data after which to give up")
      ->check(whole_number_in(1, 86400))
      ->capture_default_str();
  sub->callback([flags, &command] { command = [flags] { return fetch(*flags); }; });
}

}  // namespace wick::tool
