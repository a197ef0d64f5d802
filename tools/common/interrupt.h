#pragma once

#include <csignal>

namespace wick::tool {

/// From now on SIGINT, SIGTERM and SIGHUP (unless it is ignored, as nohup has it) call `handler`,
/// which may do no more than set a flag; with `once` a second one ends the process at once. To be
/// called by the main thread, which the system gives signals of the process to.
inline void on_interrupt(void (*handler)(int), bool once) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = once ? static_cast<int>(SA_RESETHAND) : 0;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction before {};
  if (sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) {
    sigaction(SIGHUP, &action, nullptr);
  }
}

}  // namespace wick::tool
