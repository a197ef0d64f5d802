#pragma once

#include <exception>

#include "wick/core/base/check.h"

namespace wick::tool {

// The exit codes of the programs. 0: what was asked for is done.

/// An error, which one sentence on standard error names; or not all of the work could be done.
inline constexpr int kFailedExit = 1;

/// A mistake in how the program was called. Called so again it fails again.
inline constexpr int kUsageExit = 2;

/// The loss, or a result of the model, is infinite or NaN. Started again it is so again.
inline constexpr int kDivergedExit = 3;

/// `wick bench`: some rows are slower than those that they are compared with.
inline constexpr int kSlowerExit = 4;

/// A file could not be read or written: a full disk, a quota, a limit, a fault (EX_IOERR).
inline constexpr int kFileExit = 74;

/// The GPU can do no more work in this process; started again, it may (EX_TEMPFAIL).
inline constexpr int kBrokenDeviceExit = 75;

/// Another rank is lost or failed, and this one ends because of it.
inline constexpr int kOtherRankFailedExit = 76;

/// a study's lab: this system does not let it make network namespaces, or lacks a program for
/// it.
inline constexpr int kNoLabExit = 77;

/// The program to start could not be run. A shell says it so, too.
inline constexpr int kCannotStartExit = 127;

/// Signal N ended a rank, and so the job: 128 + N, as a shell says it.
inline constexpr int kSignalExit = 128;

/// A signal asked the program to stop, and it did, with its work saved: 128 + SIGINT.
inline constexpr int kInterruptedExit = 130;

/// An error whose exit code is known.
class ExitError : public Error {
 public:
  ExitError(int code, const std::string& text) : Error(text), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

/// The exit code of a program that ends by `error`.
int exit_code_of(const std::exception& error);

/// What a program does that ends by an error: one line "wick: `message`" on standard error, in
/// which control characters are \xNN. Returns `code`.
int fail(int code, const std::string& message);

}  // namespace wick::tool
