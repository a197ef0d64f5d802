#include "wick/tools/common/attempt.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>

#include "wick/tests/harness/temporary_folder.h"
#include "wick/tests/tools/processes.h"
#include "wick/tools/common/exit_codes.h"

namespace wick::tool {
namespace {

using wick::testing::TemporaryFolder;

// Ranks that are shells, each with a script.
std::vector<Member> shells(const std::vector<std::string>& scripts) {
  std::vector<Member> members;
  for (const std::string& script : scripts) {
    members.push_back({"rank " + std::to_string(members.size()), {"/bin/sh", "-c", script}});
  }
  return members;
}

struct Outcome {
  int code = 0;
  bool was_asked = false, interrupted = false;
  std::optional<size_t> failed = {};
  std::string sentence = {};
};

Outcome outcome_of(Attempt& attempt) {
  attempt.wait();
  return {attempt.exit_code(), attempt.was_asked_to_stop(), attempt.interrupted(), attempt.failed(),
          attempt.failed() ? attempt.sentence() : ""};
}

Outcome outcome_of(const std::vector<Member>& members) {
  const HeldSignals signals;
  Attempt attempt(members, signals);
  return outcome_of(attempt);
}

// Of a rank that is sent `numbers`, all at once, when it has made the file $READY.
Outcome outcome_of_signals(const std::string& script, const std::vector<int>& numbers) {
  const TemporaryFolder folder;
  std::vector<Member> members = shells({script});
  members[0].variables["READY"] = folder.path("ready");
  for (const int number : numbers) std::signal(number, SIG_DFL);  // nohup ignores SIGHUP
  const HeldSignals signals;
  Attempt attempt(members, signals);
  EXPECT_TRUE(appears(folder.path("ready")));
  for (const int number : numbers) raise(number);  // to this thread, which holds it back
  return outcome_of(attempt);
}

TEST(Attempt, AllEndWell) {
  const Outcome all = outcome_of(shells({"exit 0", "exit 0"}));
  EXPECT_EQ(all.code, 0);
  EXPECT_FALSE(all.failed);
  EXPECT_FALSE(all.was_asked);
  EXPECT_FALSE(all.interrupted);
}

TEST(Attempt, TheOneThatFailsIsNamed) {
  const Outcome one = outcome_of(shells({"exit 0", "exit 7", "exit 0"}));
  EXPECT_EQ(one.code, 7);
  EXPECT_EQ(one.failed, 1u);
  EXPECT_EQ(one.sentence, "rank 1 failed with exit code 7");
  EXPECT_FALSE(one.interrupted);
}

TEST(Attempt, ASignalIsNamed) {
  const Outcome crash = outcome_of(shells({"kill -ABRT $$"}));
  EXPECT_EQ(crash.code, kSignalExit + SIGABRT);
  EXPECT_EQ(crash.sentence, "rank 0 was killed by SIGABRT");
  const Outcome nameless = outcome_of(shells({"kill -40 $$"}));
  EXPECT_EQ(nameless.code, kSignalExit + 40);
  EXPECT_EQ(nameless.sentence, "rank 0 was killed by signal 40");
}

TEST(Attempt, AProgramThatIsNotThereIsNamed) {
  const Outcome none = outcome_of(std::vector<Member>{{"rank 0", {"/no/such/program", "x"}}});
  EXPECT_EQ(none.code, kCannotStartExit);
  EXPECT_EQ(none.sentence, "rank 0 could not be started: /no/such/program");
}

// Who ends because of another one (76) is outweighed by an exit code of its own, and that by a
// signal, in whatever order they end.
TEST(Attempt, WhoIsToBlameOutweighsWhoCameFirst) {
  const auto expect = [](const std::vector<std::string>& scripts, size_t failed, int code) {
    const Outcome all = outcome_of(shells(scripts));
    EXPECT_EQ(all.failed, failed);
    EXPECT_EQ(all.code, code);
  };
  expect({"exit 76", "sleep 0.3; exit 7"}, 1, 7);
  expect({"sleep 0.3; exit 7", "exit 76"}, 0, 7);
  expect({"exit 7", "sleep 0.3; kill -SEGV $$"}, 1, kSignalExit + SIGSEGV);
  expect({"exit 7", "sleep 0.3; exit 8"}, 0, 7);
  expect({"exit 76"}, 0, kOtherRankFailedExit);
}

TEST(Attempt, WhoHangsAfterAFailureIsKilledAndNamed) {
  const Outcome one = outcome_of(shells({"exit 7", "sleep 600", "sleep 600", "exit 0"}));
  EXPECT_EQ(one.code, 7);
  EXPECT_EQ(one.failed, 0u);
  EXPECT_EQ(one.sentence,
            "rank 0 failed with exit code 7; rank 1, rank 2 did not end within 5 s and had to be "
            "killed");
}

TEST(Attempt, AMemberThatWasStoppedStopsTheOthers) {
  const Outcome all = outcome_of(shells({"exit 130", "sleep 600"}));
  EXPECT_TRUE(all.was_asked);
  EXPECT_TRUE(all.interrupted);
  EXPECT_EQ(all.code, kSignalExit + SIGTERM);  // of the other one
  const Outcome alone = outcome_of(shells({"exit 130"}));
  EXPECT_TRUE(alone.interrupted);
  EXPECT_FALSE(alone.failed);
  EXPECT_EQ(alone.code, kInterruptedExit);
}

TEST(Attempt, SignalsArePassedOn) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    const Outcome stopped = outcome_of_signals(
        "trap 'exit 130' INT TERM HUP; : > $READY; while :; do sleep 0.01; done", {number});
    EXPECT_TRUE(stopped.was_asked);
    EXPECT_TRUE(stopped.interrupted);
    EXPECT_FALSE(stopped.failed);
    EXPECT_EQ(stopped.code, kInterruptedExit);
  }
}

TEST(Attempt, ASecondSignalKills) {
  const Outcome killed =
      outcome_of_signals("trap '' INT TERM; : > $READY; sleep 600", {SIGINT, SIGTERM});
  EXPECT_TRUE(killed.interrupted);
  EXPECT_EQ(killed.code, kSignalExit + SIGKILL);
}

TEST(Attempt, ACrashWhileStoppingIsACrash) {
  const Outcome crash = outcome_of_signals(
      "trap 'kill -ABRT $$' TERM; : > $READY; while :; do sleep 0.01; done", {SIGTERM});
  EXPECT_TRUE(crash.was_asked);
  EXPECT_FALSE(crash.interrupted);
  EXPECT_EQ(crash.code, kSignalExit + SIGABRT);
  EXPECT_EQ(crash.sentence, "rank 0 was killed by SIGABRT");
}

TEST(Attempt, WhatIsCompleteIsNotInterrupted) {
  const Outcome complete =
      outcome_of_signals("trap 'exit 0' TERM; : > $READY; while :; do sleep 0.01; done", {SIGTERM});
  EXPECT_TRUE(complete.was_asked);
  EXPECT_FALSE(complete.interrupted);
  EXPECT_EQ(complete.code, 0);
}

TEST(Attempt, MembersGetTheirVariablesAndNoInput) {
  setenv("WICK_ATTEMPT_TEST", "old", 1);
  setenv("WICK_ATTEMPT_KEPT", "kept", 1);
  std::vector<Member> members =
      shells({"[ \"$WICK_ATTEMPT_TEST/$WICK_ATTEMPT_KEPT\" = 'a b/kept' ] || exit 8\n"
              "[ $(env | grep -c WICK_ATTEMPT_TEST=) = 1 ] || exit 9\n"
              "read line && exit 10; exit 0"});
  members[0].variables["WICK_ATTEMPT_TEST"] = "a b";
  EXPECT_EQ(outcome_of(members).code, 0);
  unsetenv("WICK_ATTEMPT_TEST");
  unsetenv("WICK_ATTEMPT_KEPT");
}

TEST(Attempt, NothingOfAMemberOutlivesIt) {
  const TemporaryFolder folder;
  const Outcome well = outcome_of(shells({"sleep 600 & echo $! > " + folder.path("pid")}));
  EXPECT_EQ(well.code, 0);
  const pid_t left = number_in(folder.path("pid"));
  EXPECT_TRUE(comes_true([&] { return is_gone(left); }));
}

TEST(Attempt, MembersAreKilledWhenItGoes) {
  const TemporaryFolder folder;
  {
    const HeldSignals signals;
    const Attempt attempt(
        shells({"trap '' TERM; echo $$ > " + folder.path("pid") + "; exec sleep 600"}), signals);
    EXPECT_FALSE(is_gone(number_in(folder.path("pid"))));
  }
  EXPECT_TRUE(is_gone(number_in(folder.path("pid"))));
}

// A process of its own that starts `script` and waits for it.
pid_t launcher_of(const std::string& script) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  const HeldSignals signals;
  Attempt attempt(shells({script}), signals);
  attempt.wait();
  _exit(attempt.exit_code());
}

TEST(Attempt, AKilledLauncherLeavesNothingOfAMemberBehind) {
  const TemporaryFolder folder;
  const pid_t launcher = launcher_of("sleep 600 & echo $! > " + folder.path("pid") + "; wait");
  const pid_t left = number_in(folder.path("pid"));
  EXPECT_FALSE(is_gone(left));
  kill(launcher, SIGKILL);
  waitpid(launcher, nullptr, 0);
  EXPECT_TRUE(comes_true([&] { return is_gone(left); }));
}

TEST(Attempt, CtrlZStopsMembersToo) {
  const TemporaryFolder folder;
  const pid_t launcher = launcher_of("echo $$ > " + folder.path("pid") + "; exec sleep 600");
  const pid_t member = number_in(folder.path("pid"));
  kill(launcher, SIGTSTP);
  EXPECT_TRUE(comes_true([&] { return state_of(launcher) == 'T' && state_of(member) == 'T'; }));
  kill(launcher, SIGCONT);
  EXPECT_TRUE(comes_true([&] { return state_of(member) == 'S'; }));
  kill(member, SIGABRT);
  int status = 0;
  EXPECT_EQ(waitpid(launcher, &status, 0), launcher);
  EXPECT_EQ(WEXITSTATUS(status), kSignalExit + SIGABRT);
}

TEST(HeldSignals, AreHeldBackWhileItLives) {
  const auto is_held = [](int number) {
    sigset_t held;
    pthread_sigmask(SIG_BLOCK, nullptr, &held);
    return sigismember(&held, number) == 1;
  };
  {
    const HeldSignals signals;
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) EXPECT_TRUE(is_held(number));
    EXPECT_EQ(sigismember(&signals.before(), SIGTERM), 0);
    EXPECT_EQ(signals.wait(std::chrono::milliseconds(1)), 0);
    raise(SIGHUP);
    EXPECT_EQ(signals.wait(std::chrono::minutes(1)), SIGHUP);
  }
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) EXPECT_FALSE(is_held(number));
}

}  // namespace
}  // namespace wick::tool
