#pragma once

#include <system_error>
#include <thread>
#include <utility>

#include "wick/core/base/check.h"

namespace wick::detail {

/// A thread that does `work`. Error that names `op` where the system has none to give.
template <class Work>
std::thread start_thread(const char* op, Work&& work) {
  try {
    return std::thread(std::forward<Work>(work));
  } catch (const std::system_error& error) {
    throw Error(concat(op, ": cannot start a thread: ", error.code().message(),
                       ": the limit of processes (ulimit -u) or the memory may be too small"));
  }
}

}  // namespace wick::detail
