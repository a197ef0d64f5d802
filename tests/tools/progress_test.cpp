#include "wick/tools/common/progress.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>

#include "wick/tests/harness/scoped_variable.h"

namespace wick::tool {
namespace {

using testing::ScopedVariable;

// What `write` sends to standard output where that is a terminal of `width` columns.
std::string on_terminal(unsigned short width, const std::function<void()>& write) {
  const int screen = posix_openpt(O_RDWR | O_NOCTTY);
  EXPECT_TRUE(screen >= 0 && grantpt(screen) == 0 && unlockpt(screen) == 0);
  const int terminal = open(ptsname(screen), O_RDWR | O_NOCTTY);
  EXPECT_GE(terminal, 0);
  const winsize size{.ws_row = 24, .ws_col = width, .ws_xpixel = 0, .ws_ypixel = 0};
  ioctl(terminal, TIOCSWINSZ, &size);
  std::fflush(stdout);
  const int usual = dup(STDOUT_FILENO);
  dup2(terminal, STDOUT_FILENO);
  write();
  const std::string end = "<end>";  // the system passes on what is written in its own time
  std::fputs(end.c_str(), stdout);
  std::fflush(stdout);
  dup2(usual, STDOUT_FILENO);
  close(usual);
  std::string text;
  char part[4096];
  while (!text.ends_with(end)) {
    const ssize_t bytes = read(screen, part, sizeof part);
    if (bytes <= 0) {
      ADD_FAILURE() << "the terminal ends after: " << text;
      break;
    }
    text.append(part, static_cast<size_t>(bytes));
  }
  close(terminal);
  close(screen);
  return text.substr(0, text.rfind(end));
}

std::string in_file(const std::function<void()>& write) {
  ::testing::internal::CaptureStdout();
  write();
  return ::testing::internal::GetCapturedStdout();
}

const StepReport kHalf{.epoch = 1,
                       .epochs = 2,
                       .step = 5,
                       .steps = 10,
                       .last = true,
                       .loss = 0.25,
                       .accuracy = 0.5,
                       .images_per_second = 1000,
                       .data_wait = 0.02,
                       .seconds_left = 3909,
                       .memory_bytes = 12'345'000'000};

TEST(Progress, NamesTimesAndSizes) {
  EXPECT_EQ(clock_text(127.4), "2:07");
  EXPECT_EQ(clock_text(59.6), "1:00");
  EXPECT_EQ(clock_text(3909), "1:05:09");
  EXPECT_EQ(clock_text(-5), "0:00");
  EXPECT_EQ(bytes_text(412'400'000), "412 MB");
  EXPECT_EQ(bytes_text(12'345'000'000), "12.3 GB");
}

TEST(Progress, IsPlainLinesInAFile) {
  const std::string text = in_file([] {
    Progress progress(/*quiet=*/false);
    StepReport early = kHalf;
    early.last = false;
    progress.show(early);  // less than thirty seconds after the beginning
    progress.show(kHalf);
    progress.show_evaluation(100, 100);
    progress.finish_line();
  });
  EXPECT_EQ(text,
            "epoch 1/2  50 %  loss 0.2500  accuracy 50.00 %  1000 images/s  data wait 2 %  ETA "
            "1:05:09  12.3 GB\n");
}

TEST(Progress, QuietShowsNothing) {
  EXPECT_EQ(in_file([] {
              Progress progress(/*quiet=*/true);
              progress.show(kHalf);
              progress.show_evaluation(1, 1);
              progress.finish_line();
            }),
            "");
}

TEST(Progress, RedrawsOneLineOfATerminal) {
  const ScopedVariable term("TERM", "xterm"), color("NO_COLOR", nullptr);
  const std::string text = on_terminal(160, [] {
    Progress progress(/*quiet=*/false);
    progress.show(kHalf);
    progress.show_evaluation(30, 30);
    progress.finish_line();
  });
  EXPECT_EQ(text.find("\r\033[Kepoch 1/2 \033[32m▕████████████            ▏\033[0m  50 %"), 0u)
      << text;
  EXPECT_NE(text.find("12.3 GB\r\n\r\033[Kevaluation \033[32m▕████████████████████████▏\033[0m "
                      "100 %  30 of 30 images\r\n"),
            std::string::npos)
      << text;
}

TEST(Progress, LeavesOutWhatATerminalCannotShow) {
  const ScopedVariable color("NO_COLOR", "1");
  const auto show = [] { Progress(/*quiet=*/false).show(kHalf); };
  {
    const ScopedVariable term("TERM", "xterm");
    EXPECT_EQ(on_terminal(160, show).find("\033[32m"), std::string::npos);
    EXPECT_EQ(on_terminal(60, show).find("█"), std::string::npos);  // no room for a bar
  }
  const ScopedVariable term("TERM", "dumb");
  EXPECT_EQ(on_terminal(160, show).find("epoch 1/2  50 %"), 0u);  // a plain line
}

}  // namespace
}  // namespace wick::tool
