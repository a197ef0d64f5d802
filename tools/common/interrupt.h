#pragma once

#include <sys/auxv.h>

#include <algorithm>
#include <csignal>

namespace wick::tool {

/// From now on SIGINT, SIGTERM and SIGHUP (unless it is ignored, as nohup has it) call `handler`,
/// which may do no more than set a flag; with `once` a second one ends the process at once. To be
/// called by the main thread, which the system gives signals of the process to. The handler runs on
/// a stack of its own: some of oneDNN's code points the stack pointer into its workspace, in
/// which the frame of a handler on the usual stack would overwrite matrices and whatever lies below
/// them. Other handlers need SA_ONSTACK as well.
inline void on_interrupt(void (*handler)(int), bool once) {
  stack_t stack{};
  if (sigaltstack(nullptr, &stack) == 0 && (stack.ss_flags & SS_DISABLE) != 0) {
    // The registers of AVX-512 and AMX alone take more than MINSIGSTKSZ.
    const size_t frame = std::max<size_t>(getauxval(AT_MINSIGSTKSZ), MINSIGSTKSZ);
    static char* memory = nullptr;
    stack.ss_size = frame + 64 * 1024;
    if (memory == nullptr) memory = new char[stack.ss_size];
    stack.ss_sp = memory;
    stack.ss_flags = 0;
    sigaltstack(&stack, nullptr);
  }
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_ONSTACK | (once ? static_cast<int>(SA_RESETHAND) : 0);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction before {};
  if (sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) {
    sigaction(SIGHUP, &action, nullptr);
  }
}

}  // namespace wick::tool
