#include "wick/tools/common/exit_codes.h"

#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include <cerrno>
#include <new>
#include <string>
#include <system_error>

#include "wick/core/anomaly.h"
#include "wick/core/file.h"
#include "wick/core/options.h"
#include "wick/dist/process_group.h"
#include "wick/optim/grad_scaler.h"
#include "wick/tests/harness/scoped_variable.h"
#include "wick/tools/common/as_typed.h"
#include "wick/tools/common/usage_error.h"
#include "wick/train/trainer.h"

namespace wick::tool {
namespace {

TEST(ExitCodes, AreThoseOfTheTable) {
  EXPECT_EQ(exit_code_of(Error("x")), 1);
  EXPECT_EQ(exit_code_of(std::bad_alloc()), 1);
  EXPECT_EQ(exit_code_of(UsageError("x")), 2);
  EXPECT_EQ(exit_code_of(OptionError("x")), 2);
  EXPECT_EQ(exit_code_of(CLI::ValidationError("--n", "x")), 2);
  EXPECT_EQ(exit_code_of(train::Diverged("x")), 3);
  EXPECT_EQ(exit_code_of(amp::NonFiniteGradients("x")), 3);
  EXPECT_EQ(exit_code_of(AnomalyError("x")), 3);
  EXPECT_EQ(exit_code_of(FileError("x")), 74);
  for (const int error : {ENOSPC, EDQUOT, EFBIG, EIO}) {
    EXPECT_EQ(exit_code_of(std::system_error(error, std::generic_category())), 74) << error;
  }
  EXPECT_EQ(exit_code_of(std::system_error(EAGAIN, std::generic_category())), 1);
  EXPECT_EQ(exit_code_of(DeviceError("x")), 75);
  EXPECT_EQ(exit_code_of(dist::ProcessGroupError("x")), 76);
  EXPECT_EQ(exit_code_of(ExitError(77, "x")), 77);
}

TEST(ExitCodes, FailWritesOnePrintableLine) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(fail(74, "no \033[31mroom\n"), 74);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "wick: no \\x1b[31mroom\\x0a\n");
}

// `text` where the user has typed `command` for wick.
std::string typed_as(const char* command, const std::string& text) {
  const testing::ScopedVariable variable("WICK_COMMAND", command);
  return as_typed(text);
}

TEST(AsTyped, NamesCommandsAsTheUserDid) {
  EXPECT_EQ(typed_as(nullptr, "go on with: wick train"), "go on with: wick train");
  EXPECT_EQ(typed_as("", "wick train"), "wick train");
  EXPECT_EQ(typed_as("./wick", "wick"), "./wick");
  EXPECT_EQ(typed_as("./wick", "go on with: wick train"), "go on with: ./wick train");
  EXPECT_EQ(typed_as("./wick", "see `wick --help`, wick eval"), "see `./wick --help`, ./wick eval");
  EXPECT_EQ(typed_as("/my tools/wick", "run wick eval"), "run '/my tools/wick' eval");
  // The project, a path and a part of a word are no commands.
  for (const char* text : {"the library wick", "Wick trains", "wick 1.0", "bin/wick train",
                           "wicked games", "a wick"}) {
    EXPECT_EQ(typed_as("./wick", text), text);
  }
}

}  // namespace
}  // namespace wick::tool
