#include "wick/tools/common/command_line.h"

#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include "wick/core/anomaly.h"
#include "wick/core/file.h"
#include "wick/core/options.h"
#include "wick/dist/process_group.h"
#include "wick/optim/grad_scaler.h"
#include "wick/tools/common/exit_codes.h"
#include "wick/tools/common/printable.h"
#include "wick/tools/common/usage_error.h"
#include "wick/train/trainer.h"

namespace wick::tool {
namespace {

// What is wrong with `words`, or "".
std::string problem(const std::vector<std::string>& words) {
  CLI::App app;
  CLI::App* train = app.add_subcommand("train");
  train->add_option("--run-dir");
  train->add_flag("--resume");
  train->add_option("--augment")->expected(0, 1);
  app.add_subcommand("report")->add_option("RUN");
  try {
    check_words(app, words);
    return "";
  } catch (const UsageError& error) {
    return error.what();
  }
}

TEST(CommandLine, AFlagIsNoValue) {
  EXPECT_EQ(problem({"train", "--run-dir", "--resume"}),
            "--run-dir: the value is missing: got --resume, which is a flag (a value like it is "
            "given as --run-dir=--resume)");
  EXPECT_EQ(problem({"train", "--run-dir"}), "--run-dir: the value is missing");
  EXPECT_EQ(problem({"train", "--run-dir", "a", "--resume", "--run-dir=b"}),
            "--run-dir: the flag is given twice: got a and b, expected it once");
  EXPECT_EQ(problem({"train", "--augment", "0.9", "--augment"}),
            "--augment: the flag is given twice: got 0.9 and no value, expected it once");
  EXPECT_EQ(problem({"train", "--resume", "--resume"}), "");
  EXPECT_EQ(problem({"train", "--run-dir=--resume", "--resume"}), "");
  EXPECT_EQ(problem({"train", "--run-dir", "-1", "--resume"}), "");
  EXPECT_EQ(problem({"train", "--augment", "--resume"}), "");
}

TEST(CommandLine, AnEmptyValueIsNoValue) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"train", "--run-dir", ""},
                                             {"train", "--run-dir="},
                                             {"train", "--resume", "--run-dir="}}) {
    EXPECT_EQ(problem(words), "--run-dir: the value is empty");
  }
  EXPECT_EQ(problem({"train", "--augment="}), "");  // as the flag alone
  EXPECT_EQ(problem({"train", "--augment", ""}), "--augment: the value is empty");
  EXPECT_EQ(problem({"report", ""}), "a word is empty: expected none, or one that says more");
  EXPECT_EQ(problem({"report", "--", ""}), "");  // what is behind is another program's
}

TEST(ExitCodes, EachErrorHasItsCode) {
  EXPECT_EQ(exit_code_of(Error("x")), kFailedExit);
  EXPECT_EQ(exit_code_of(UsageError("x")), kUsageExit);
  EXPECT_EQ(exit_code_of(InvalidOption("lr", "x")), kUsageExit);
  EXPECT_EQ(exit_code_of(train::Diverged("x")), kDivergedExit);
  EXPECT_EQ(exit_code_of(amp::NonFiniteGradients("x")), kDivergedExit);
  EXPECT_EQ(exit_code_of(AnomalyError("x")), kDivergedExit);
  EXPECT_EQ(exit_code_of(FileError("x")), 74);
  EXPECT_EQ(exit_code_of(DeviceError("x")), 75);
  EXPECT_EQ(exit_code_of(dist::ProcessGroupError("x")), 76);
  EXPECT_EQ(exit_code_of(ExitError(7, "x")), 7);
}

TEST(ExitCodes, AFullDiskIsNoWrongName) {
  const auto code = [](int error) {
    try {
      throw_file_error("cannot write x", error);
    } catch (const Error& thrown) {
      return exit_code_of(thrown);
    }
  };
  for (const int error : {ENOSPC, EIO, EFBIG, EDQUOT, EROFS, EMFILE}) EXPECT_EQ(code(error), 74);
  for (const int error : {ENOENT, EACCES, ENOTDIR, ENAMETOOLONG}) EXPECT_EQ(code(error), 1);
  EXPECT_THROW(write_file("/dev/full/x", ""), Error);
}

TEST(Printable, ControlCharactersAreShown) {
  EXPECT_EQ(printable("a\x1b[31m\nb\x7f é"), "a\\x1b[31m\\x0ab\\x7f é");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m");  // an escape sequence's start in one
}

}  // namespace
}  // namespace wick::tool
