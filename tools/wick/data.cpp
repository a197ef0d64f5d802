#include "wick/tools/wick/data.h"

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <cstdio>

#include "wick/tools/common/number_flag.h"
#include "wick/tools/common/terminal.h"
#include "wick/tools/common/usage_error.h"

namespace wick::tool {

CountLine::CountLine(bool quiet) : shown_(!quiet && is_drawable(STDERR_FILENO)) {}

CountLine::~CountLine() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
}

void CountLine::show(const std::string& what, int64_t done, int64_t all) {
  const auto now = std::chrono::steady_clock::now();
  if (!shown_ || now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  const std::string of = all > 0 ? fmt::format(" of {}", all) : std::string();
  fmt::print(stderr, "\r\x1b[K{} {}{}", what, done, of);
  std::fflush(stderr);
}

void add_image_limits(CLI::App& app, data::ImageLimits& limits) {
  add_number_flag(app, "--max-image-pixels", limits.pixels, 1, 1e12,
                  "most pixels of an image that is read");
  add_number_flag(app, "--max-image-seconds", limits.seconds, 0, 1e9,
                  "most processor time to decode an image (0: any)");
}

void add_data(CLI::App& app, Command& command) {
  CLI::App* data = app.add_subcommand(
      "data", "Downloads data sets, packs one into a single file, or looks for bad images");
  data->callback([&command] {
    if (command) return;  // that of pack, check or fetch
    command = []() -> int {
      throw UsageError("data: expected pack, check or fetch. See wick data --help");
    };
  });
  add_data_pack(*data, command);
  add_data_check(*data, command);
  add_data_fetch(*data, command);
  for (CLI::App* sub : data->get_subcommands({})) sub->allow_extras();
}

}  // namespace wick::tool
