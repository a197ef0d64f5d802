#include "wick/tools/study/summary.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "wick/core/file.h"

namespace wick::study {

namespace {

using nlohmann::json;

constexpr double kLeft = 430, kRight = 770, kWidth = 850, kTop = 76, kRow = 26;

constexpr char kStyle[] =
    "<style>\n"
    "svg { background: #fff; font: 14px system-ui, sans-serif; fill: #1b2028; }\n"
    ".title { font-size: 18px; font-weight: 600; } .quiet { fill: #57606d; font-size: 13px; }\n"
    ".gain { fill: #0067b1; } .loss { fill: #b8530a; } .same { fill: #757c86; }\n"
    ".range { stroke: #1b2028; stroke-width: 1.5; } .one { stroke: #757c86; }\n"
    "@media (prefers-color-scheme: dark) {\n"
    "  svg { background: #14171c; fill: #e6e9ee; } .quiet { fill: #a3acb9; }\n"
    "  .gain { fill: #62b4f2; } .loss { fill: #f0974e; } .same { fill: #8f97a3; }\n"
    "  .range { stroke: #e6e9ee; }\n"
    "}\n</style>\n";

std::string words(double x, double y, const std::string& text, const char* kind = "",
                  const char* anchor = "start") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\" text-anchor=\"{}\">{}</text>\n",
                     x, y, kind, anchor, escaped(text));
}

// A logarithmic axis that holds 1 and all intervals.
struct Axis {
  double low = 1, high = 1;
  double at(double ratio) const {
    const double share = std::log(ratio / low) / std::log(high / low);
    return kLeft + (kRight - kLeft) * std::clamp(share, 0.0, 1.0);
  }
};

std::string row(const Measured& measured, const Axis& axis, double y) {
  const Comparison& c = measured.cases[0].comparison;
  const double one = axis.at(1), middle = axis.at(c.speed.middle);
  return words(kLeft - 10, y + 15, measured.technique->title, "", "end") +
         fmt::format(
             "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"16\" "
             "class=\"{}\"/>\n<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" "
             "y2=\"{:.1f}\" class=\"range\"/>\n",
             std::min(one, middle), y + 2, std::max(1.0, std::fabs(middle - one)),
             kind_of(speed_verdict(c)), axis.at(c.speed.low), axis.at(c.speed.high), y + 10,
             y + 10) +
         words(kRight + 10, y + 15, ratio_text(c.speed.middle));
}

std::string machine_text(const json& start) {
  return fmt::format("{}, {}, {} threads", start.at("machine").value("processor", ""),
                     start.value("device", ""), start.value("threads", 0));
}

// The picture in pixels, of twice its size, by librsvg's program. No file where that is not
// installed or fails.
void draw_png(const std::string& svg, const std::string& png) {
  std::error_code ignored;
  std::filesystem::remove(png, ignored);  // of an earlier study
  const std::string part = png + ".part";
  const char* const words[] = {"rsvg-convert", "--zoom",    "2",    "--output",
                               part.c_str(),   svg.c_str(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t process = 0;
  const int error =
      posix_spawnp(&process, words[0], &actions, nullptr, const_cast<char* const*>(words), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return;
  int status = -1;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  if (status == 0) std::filesystem::rename(part, png, ignored);
  std::filesystem::remove(part, ignored);
}

}  // namespace

void write_summary(const Store& store, const std::vector<Measured>& all) {
  std::vector<const Measured*> shown;
  Axis axis{.low = 0.9, .high = 1.1};
  for (const Measured& measured : all) {
    if (measured.cases.empty()) continue;
    const Interval& speed = measured.cases[0].comparison.speed;
    if (!(speed.low > 0) || !std::isfinite(speed.high)) continue;
    axis.low = std::min(axis.low, speed.low);
    axis.high = std::max(axis.high, speed.high);
    shown.push_back(&measured);
  }
  std::stable_sort(shown.begin(), shown.end(), [](const Measured* a, const Measured* b) {
    return a->cases[0].comparison.speed.middle > b->cases[0].comparison.speed.middle;
  });
  const double bottom = kTop + kRow * static_cast<double>(shown.size());
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" "
      "width=\"{}\" height=\"{}\">\n",
      kWidth, bottom + 40, kWidth, bottom + 40);
  svg += kStyle + words(20, 32, "What each optimization is worth here", "title");
  const json* start = store.find("start");
  store.reading(start, [&] {
    if (start != nullptr) svg += words(20, 54, machine_text(*start), "quiet");
  });
  for (size_t i = 0; i < shown.size(); ++i) {
    svg += row(*shown[i], axis, kTop + kRow * static_cast<double>(i));
  }
  svg += fmt::format(
      "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\" "
      "class=\"one\"/>\n",
      axis.at(1), kTop, bottom);
  svg +=
      words(20, bottom + 26,
            "Speed with each technique over speed without; grey: no clear difference. wick study",
            "quiet");
  const std::string name = store.folder() + "/summary";
  write_file(name + ".svg", svg + "</svg>\n");
  draw_png(std::filesystem::absolute(name + ".svg"), std::filesystem::absolute(name + ".png"));
}

}  // namespace wick::study
