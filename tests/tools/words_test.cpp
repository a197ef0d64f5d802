#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include <array>
#include <cstdio>
#include <memory>

#include "wick/core/options.h"
#include "wick/tools/common/number_flag.h"
#include "wick/tools/common/shell_word.h"

namespace wick::tool {
namespace {

// What a flag --n from -5 to 100 makes of `word`: its error, or "" and the value.
template <class T>
std::string error_of_flag(const std::string& word, T& value) {
  CLI::App app;
  add_number_flag(app, "--n", value, -5, 100, "a number");
  try {
    app.parse(std::vector<std::string>{word, "--n"});  // the last word first
    return "";
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
}

TEST(NumberFlag, TakesWholeNumbers) {
  int64_t value = 0;
  for (const auto& [word, expected] :
       {std::pair{"7", 7}, {"0", 0}, {"-5", -5}, {"100", 100}, {"-0", 0}}) {
    value = 42;
    EXPECT_EQ(error_of_flag(word, value), "") << word;
    EXPECT_EQ(value, expected) << word;
  }
}

TEST(NumberFlag, SaysWhatIsNoWholeNumber) {
  int64_t value = 42;
  for (const char* word : {"0x10", "010", "1.5", "1e3", "+5", "5 ", " 5", "-", "five"}) {
    EXPECT_EQ(error_of_flag(word, value), std::string("--n: expected a whole number, got ") + word);
  }
  EXPECT_EQ(error_of_flag("", value), "--n: the value is empty");
  EXPECT_EQ(error_of_flag("99999999999999999999", value),
            "--n: out of range: got 99999999999999999999, expected -5 to 100");
  EXPECT_EQ(error_of_flag("101", value), "--n: out of range: got 101, expected -5 to 100");
  EXPECT_EQ(error_of_flag("-6", value), "--n: out of range: got -6, expected -5 to 100");
  const std::string shown = error_of_flag(std::string(1000, 'x'), value);
  EXPECT_EQ(shown, "--n: expected a whole number, got " + std::string(kMaxShown, 'x'));
  EXPECT_EQ(value, 42);
}

TEST(NumberFlag, TakesFractions) {
  double value = 0;
  for (const auto& [word, expected] :
       {std::pair{"7", 7.0}, {"1e-3", 1e-3}, {"-0.5", -0.5}, {"99.9", 99.9}}) {
    EXPECT_EQ(error_of_flag(word, value), "") << word;
    EXPECT_EQ(value, expected) << word;
  }
  EXPECT_EQ(error_of_flag("nan", value), "--n: out of range: got nan, expected -5 to 100");
  EXPECT_EQ(error_of_flag("inf", value), "--n: out of range: got inf, expected -5 to 100");
  EXPECT_EQ(error_of_flag("1,5", value), "--n: expected a number, got 1,5");
}

TEST(NumberFlag, HelpShowsTheDefault) {
  CLI::App app;
  int64_t value = 17;
  add_number_flag(app, "--n", value, 0, 100, "how many there are");
  EXPECT_NE(app.help().find("=17"), std::string::npos) << app.help();
  EXPECT_NE(app.help().find("how many there are"), std::string::npos);
}

TEST(NumberFlag, AutoIsNoNumber) {
  EXPECT_EQ(check_whole_number("auto"), "expected a whole number, got auto");
}

// What a shell makes of `text`, of which it prints each word in brackets.
std::string words_of_shell(const std::string& text) {
  const std::string command = "cd /; printf '[%s]' " + text;
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string result;
  std::array<char, 256> buffer{};
  for (size_t n; (n = fread(buffer.data(), 1, buffer.size(), pipe.get())) > 0;) {
    result.append(buffer.data(), n);
  }
  return result;
}

TEST(ShellWord, PlainWordsStayAsTheyAre) {
  for (const char* word : {"train", "--batch-size=128", "/data/a_b.c", "x:y,z@1+2%"}) {
    EXPECT_EQ(shell_word(word), word);
  }
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
}

TEST(ShellWord, IsOneWordOfAShell) {
  for (const std::string word :
       {"",  "a b", "it's", "''",  "\"", "$HOME", "`id`", "$(id)", "\\",  "a\nb",  "\t", "*",
        "?", "~",   "a;b",  "a&b", "#a", "<a",    "|",    "!",     "[a]", "{a,b}", "ä",  "plain"}) {
    EXPECT_EQ(words_of_shell(shell_word(word)), "[" + word + "]");
  }
}

TEST(Suggestion, NamesTheNearest) {
  const std::vector<std::string> flags = {"--epochs", "--eval-every", "--ema", "--resume"};
  EXPECT_EQ(suggestion("--epoch", flags), " Did you mean --epochs?");
  EXPECT_EQ(suggestion("--epcohs", flags), " Did you mean --epochs?");
  EXPECT_EQ(suggestion("--resmue", flags), " Did you mean --resume?");
  EXPECT_EQ(suggestion("--eval", flags), " Did you mean --eval-every?");  // however much is missing
  EXPECT_EQ(suggestion("--ema", flags), " Did you mean --ema?");
}

TEST(Suggestion, NamesNoneThatIsFar) {
  EXPECT_EQ(suggestion("--learning-rate", {"--lr", "--epochs"}), "");
  EXPECT_EQ(suggestion("mnist", {}), "");
  EXPECT_EQ(suggestion("ab", {"xyzw"}), "");
  EXPECT_EQ(suggestion("", {"abc"}), "");
  EXPECT_EQ(suggestion("re", {"resnet"}), "");  // two letters begin too many words
}

TEST(Suggestion, OfSeveralAsNearTheFirst) {
  EXPECT_EQ(suggestion("cat", {"bat", "hat"}), " Did you mean bat?");
}

}  // namespace
}  // namespace wick::tool
