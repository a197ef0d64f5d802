#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

#include "wick/tools/common/interrupt.h"
#include "wick/tools/common/standard_files.h"

namespace wick::tool {
namespace {

volatile std::sig_atomic_t calls = 0;

void note(int) { calls = calls + 1; }

// What processes of their own do; their exit code says whether all was well.

[[noreturn]] void leave(bool is_well) { std::_Exit(is_well ? 0 : 1); }

[[noreturn]] void take_signals() {
  on_interrupt(note, /*once=*/false);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGINT}) std::raise(number);
  leave(calls == 4);
}

// As nohup starts programs.
[[noreturn]] void outlive_the_terminal() {
  std::signal(SIGHUP, SIG_IGN);
  on_interrupt(note, /*once=*/false);
  std::raise(SIGHUP);
  leave(calls == 0);
}

[[noreturn]] void take_one_signal() {
  on_interrupt(note, /*once=*/true);
  std::raise(SIGTERM);
  if (calls == 1) std::raise(SIGTERM);
  leave(false);
}

[[noreturn]] void open_missing_files() {
  close(STDIN_FILENO);
  close(STDERR_FILENO);
  open_standard_files();
  char byte = 0;
  const bool is_empty = read(STDIN_FILENO, &byte, 1) == 0;
  leave(is_empty && write(STDERR_FILENO, &byte, 1) == 1);
}

const ::testing::ExitedWithCode kWell(0);

TEST(Interrupt, EachSignalCallsTheHandler) { EXPECT_EXIT(take_signals(), kWell, ""); }

TEST(Interrupt, AnIgnoredHangUpStaysIgnored) { EXPECT_EXIT(outlive_the_terminal(), kWell, ""); }

TEST(Interrupt, ASecondOneEndsTheProcess) {
  EXPECT_EXIT(take_one_signal(), ::testing::KilledBySignal(SIGTERM), "");
}

TEST(StandardFiles, ThoseThatAreMissingAreOpened) { EXPECT_EXIT(open_missing_files(), kWell, ""); }

}  // namespace
}  // namespace wick::tool
