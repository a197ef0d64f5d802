#include "wick/tools/common/exit_codes.h"

#include <CLI/CLI.hpp>

#include <cstdio>

#include "wick/core/anomaly.h"
#include "wick/core/file.h"
#include "wick/core/options.h"
#include "wick/dist/process_group.h"
#include "wick/optim/grad_scaler.h"
#include "wick/tools/common/printable.h"
#include "wick/tools/common/usage_error.h"
#include "wick/train/trainer.h"

namespace wick::tool {

namespace {

template <class... Types>
bool is_one_of(const std::exception& error) {
  return (... || (dynamic_cast<const Types*>(&error) != nullptr));
}

}  // namespace

int exit_code_of(const std::exception& error) {
  if (const auto* known = dynamic_cast<const ExitError*>(&error)) return known->code();
  if (is_one_of<CLI::ParseError, UsageError, OptionError>(error)) return kUsageExit;
  if (is_one_of<train::Diverged, amp::NonFiniteGradients, AnomalyError>(error)) {
    return kDivergedExit;
  }
  if (is_one_of<FileError>(error)) return kFileExit;
  if (is_one_of<DeviceError>(error)) return kBrokenDeviceExit;
  if (is_one_of<dist::ProcessGroupError>(error)) return kOtherRankFailedExit;
  return kFailedExit;
}

int fail(int code, const std::string& message) {
  std::fflush(stdout);
  std::fprintf(stderr, "wick: %s\n", printable(message).c_str());
  return code;
}

}  // namespace wick::tool
