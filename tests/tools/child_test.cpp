#include "wick/tools/common/child.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <memory>

#include "wick/tests/harness/expect_error.h"
#include "wick/tests/tools/processes.h"

namespace wick::tool {
namespace {

using wick::testing::error_of;

constexpr double kPatience = 60;
const char* const kShell = "/bin/sh";

class ChildTest : public ::testing::Test {
 protected:
  // Programs that have children ignore it, so that one that is gone is an error.
  void SetUp() override { before_ = std::signal(SIGPIPE, SIG_IGN); }
  void TearDown() override { std::signal(SIGPIPE, before_); }

 private:
  void (*before_)(int) = SIG_DFL;
};

TEST_F(ChildTest, AnswersLineByLine) {
  Child child("/bin/cat", {});
  EXPECT_EQ(child.ask("one", kPatience), "one");
  child.send("two\nthree");
  child.send("");
  EXPECT_EQ(child.answer(kPatience), "two");
  EXPECT_EQ(child.answer(kPatience), "three");
  EXPECT_EQ(child.answer(kPatience), "");
  const std::string large(1 << 20, 'x');
  EXPECT_EQ(Child(kShell, {"-c", "head -c 1048576 /dev/zero | tr '\\0' x; echo; exec sleep 600"})
                .answer(kPatience),
            large);
}

TEST_F(ChildTest, GetsTheEnvironmentOfThisProcess) {
  const std::vector<std::string> script = {"-c", "echo \"$WICK_OWN/$WICK_KEPT\""};
  setenv("WICK_OWN", "parent", 1);
  setenv("WICK_KEPT", "kept", 1);
  EXPECT_EQ(Child(kShell, script).answer(kPatience), "parent/kept");
  unsetenv("WICK_OWN");
  unsetenv("WICK_KEPT");
}

TEST_F(ChildTest, HowItEndedIsSaid) {
  EXPECT_EQ(error_of([] {
              Child(kShell, {"-c", "exit 5"}).answer(kPatience);
            }),
            "/bin/sh ended with exit code 5");
  EXPECT_EQ(error_of([] {
              Child(kShell, {"-c", "kill -SEGV $$"}, {.name = "its process"}).answer(kPatience);
            }),
            "its process ended by signal 11");
  // What it has said before is not lost.
  Child last(kShell, {"-c", "echo done; exit 6"});
  EXPECT_EQ(last.answer(kPatience), "done");
  EXPECT_THROW(last.answer(kPatience), ChildError);
  Child deaf(kShell, {"-c", "exit 7"});
  EXPECT_EQ(error_of([&] {
              for (;;) deaf.send("is anybody there?");
            }),
            "/bin/sh ended with exit code 7");
}

TEST_F(ChildTest, WhoClosesItsOutputIsKilled) {
  Child mute(kShell, {"-c", "exec >&-; exec sleep 600"}, {.name = "it"});
  EXPECT_EQ(error_of([&] { mute.answer(kPatience); }), "it ended by signal 9");
}

TEST_F(ChildTest, IsNotWaitedForForEver) {
  Child silent("/bin/sleep", {"600"}, {.name = "it"});
  EXPECT_EQ(error_of([&] { silent.answer(0.05); }), "it gave no answer within 0.05 s");
  Child endless("/bin/cat", {"/dev/zero"}, {.name = "it"});
  EXPECT_EQ(error_of([&] { endless.answer(kPatience); }), "it answers without end");
  Child unwanted("/bin/sleep", {"600"}, {.name = "it", .interrupted = [] { return true; }});
  EXPECT_EQ(error_of([&] { unwanted.answer(kPatience); }), "it was not waited for");
}

TEST_F(ChildTest, AProgramThatIsNotThereIsNamed) {
  EXPECT_EQ(error_of([] { Child("/no/such/program", {}); }),
            "cannot run /no/such/program: No such file or directory");
}

TEST_F(ChildTest, RestsBetweenAnswers) {
  Child child(kShell, {"-c", "echo $$; exec cat"}, {.rests = true});
  const pid_t pid = std::stoi(child.answer(kPatience));
  EXPECT_TRUE(comes_true([&] { return state_of(pid) == 'T'; }));
  EXPECT_EQ(child.ask("awake", kPatience), "awake");
  EXPECT_TRUE(comes_true([&] { return state_of(pid) == 'T'; }));
}

TEST_F(ChildTest, IsKilledWhenItGoes) {
  auto child = std::make_unique<Child>(
      kShell, std::vector<std::string>{"-c", "trap '' TERM; echo $$; exec sleep 600"});
  const pid_t pid = std::stoi(child->answer(kPatience));
  EXPECT_FALSE(is_gone(pid));
  child.reset();
  EXPECT_TRUE(is_gone(pid));
}

}  // namespace
}  // namespace wick::tool
