#include "wick/tools/common/exit_codes.h"

#include <CLI/CLI.hpp>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "wick/core/anomaly.h"
#include "wick/core/file.h"
#include "wick/core/options.h"
#include "wick/dist/process_group.h"
#include "wick/optim/grad_scaler.h"
#include "wick/tools/common/as_typed.h"
#include "wick/tools/common/printable.h"
#include "wick/tools/common/usage_error.h"
#include "wick/train/trainer.h"

namespace wick::tool {

namespace {

template <class... Types>
bool is_one_of(const std::exception& error) {
  return (... || (dynamic_cast<const Types*>(&error) != nullptr));
}

// A write that failed, of those that throw the system's own error: fmt::print.
bool is_failed_write(const std::exception& error) {
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  if (system == nullptr) return false;
  const int code = system->code().value();
  return code == ENOSPC || code == EDQUOT || code == EFBIG || code == EIO;
}

}  // namespace

int exit_code_of(const std::exception& error) {
  if (const auto* known = dynamic_cast<const ExitError*>(&error)) return known->code();
  if (is_one_of<CLI::ParseError, UsageError, OptionError>(error)) return kUsageExit;
  if (is_one_of<train::Diverged, amp::NonFiniteGradients, AnomalyError>(error)) {
    return kDivergedExit;
  }
  if (is_one_of<FileError>(error) || is_failed_write(error)) return kFileExit;
  if (is_one_of<DeviceError>(error)) return kBrokenDeviceExit;
  if (is_one_of<dist::ProcessGroupError>(error)) return kOtherRankFailedExit;
  return kFailedExit;
}

int fail(int code, const std::string& message) {
  std::fflush(stdout);
  std::fprintf(stderr, "wick: %s\n", printable(as_typed(message)).c_str());
  return code;
}

}  // namespace wick::tool
