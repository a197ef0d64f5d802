#include "wick/tools/common/progress.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "wick/tools/common/terminal.h"

namespace wick::tool {

namespace {

int terminal_width() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 100;
}

// Columns taken by UTF-8 text of characters that are one column wide.
int columns(const std::string& text) {
  int n = 0;
  for (const char c : text) n += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
  return n;
}

}  // namespace

std::string clock_text(double seconds) {
  const auto s = static_cast<int64_t>(std::max(seconds, 0.0) + 0.5);
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string bytes_text(int64_t bytes) {
  if (bytes >= 10'000'000'000) return fmt::format("{:.1f} GB", static_cast<double>(bytes) / 1e9);
  return fmt::format("{} MB", (bytes + 500'000) / 1'000'000);
}

Progress::Progress(bool quiet)
    : quiet_(quiet), terminal_(is_drawable(STDOUT_FILENO)), last_(Clock::now()) {
  const char* no_color = std::getenv("NO_COLOR");
  color_ = terminal_ && (no_color == nullptr || *no_color == 0);
}

std::string Progress::bar(double share, int width) const {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(share * width * 8);
  std::string text;
  for (int i = 0; i < eighths / 8; ++i) text += "█";
  text += kEighths[eighths % 8];
  for (int used = (eighths + 7) / 8; used < width; ++used) text += " ";
  return color_ ? "\033[32m▕" + text + "▏\033[0m" : "▕" + text + "▏";
}

bool Progress::due(bool at_once) {
  if (quiet_) return false;
  const auto now = Clock::now();
  const auto pause = terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(30'000);
  if (!at_once && now - last_ < pause) return false;
  last_ = now;
  return true;
}

void Progress::print(const std::string& head, double share, const std::string& rest) {
  if (terminal_) {
    const int space = terminal_width() - columns(head) - columns(rest) - 6;
    const std::string middle = space >= 4 ? bar(share, std::min(space, 24)) : "";
    fmt::print("\r\033[K{} {} {}", head, middle, rest);
    line_open_ = true;
  } else {
    fmt::print("{} {}\n", head, rest);
  }
  std::fflush(stdout);
}

void Progress::show(const StepReport& r) {
  if (!due(r.last)) return;
  const double share = r.steps > 0 ? static_cast<double>(r.step) / static_cast<double>(r.steps) : 1;
  print(fmt::format("epoch {}/{}", r.epoch, r.epochs), share,
        fmt::format("{:3.0f} %  loss {:.4f}  accuracy {:5.2f} %  {:.0f} images/s  data wait {:.0f} "
                    "%  ETA {}  {}",
                    100 * share, r.loss, 100 * r.accuracy, r.images_per_second, 100 * r.data_wait,
                    clock_text(r.seconds_left), bytes_text(r.memory_bytes)));
  if (r.last) finish_line();
}

void Progress::show_evaluation(int64_t done, int64_t images) {
  if (!due(terminal_ && done == images)) return;
  const double share =
      static_cast<double>(done) / static_cast<double>(std::max<int64_t>(images, 1));
  print("evaluation", share, fmt::format("{:3.0f} %  {} of {} images", 100 * share, done, images));
}

void Progress::finish_line() {
  if (line_open_) fmt::print("\n");
  line_open_ = false;
  std::fflush(stdout);
}

}  // namespace wick::tool
