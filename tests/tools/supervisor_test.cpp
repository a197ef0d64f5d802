#include "wick/tools/common/supervisor.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "wick/tests/harness/temporary_folder.h"
#include "wick/tools/common/exit_codes.h"

namespace wick::tool {
namespace {

using wick::testing::TemporaryFolder;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

RankWords shell(const std::string& script) {
  return [script](int64_t) { return std::vector<std::string>{"/bin/sh", "-c", script}; };
}

TEST(Supervisor, RanksFindEachOtherByTorchrunsVariables) {
  const std::vector<Member> members = members_of(
      {.count = 2, .master_port = 1234, .token = "secret", .flight_folder = "f", .restarts = 3},
      {"program"});
  ASSERT_EQ(members.size(), 2u);
  EXPECT_EQ(members[1].name, "rank 1 of 2");
  const std::map<std::string, std::string> expected = {{"RANK", "1"},
                                                       {"LOCAL_RANK", "1"},
                                                       {"WORLD_SIZE", "2"},
                                                       {"LOCAL_WORLD_SIZE", "2"},
                                                       {"MASTER_ADDR", "127.0.0.1"},
                                                       {"MASTER_PORT", "1234"},
                                                       {"WICK_JOB_TOKEN", "secret"},
                                                       {"WICK_RESTARTS", "3"},
                                                       {"WICK_FLIGHT_DIR", "f"}};
  for (const auto& [name, value] : expected) {
    EXPECT_EQ(members[1].variables.at(name), value) << name;
  }
  EXPECT_EQ(members_of({.count = 1}, {"program"})[0].name, "the process");
}

TEST(Supervisor, ThreadsAreSharedOutUnlessTheUserSaysHowMany) {
  unsetenv("OMP_NUM_THREADS");
  EXPECT_EQ(members_of({.count = 1000}, {"x"})[0].variables.at("OMP_NUM_THREADS"), "1");
  setenv("OMP_NUM_THREADS", "5", 1);
  EXPECT_EQ(members_of({.count = 1000}, {"x"})[0].variables.count("OMP_NUM_THREADS"), 0u);
  unsetenv("OMP_NUM_THREADS");
}

TEST(Supervisor, EachRankOfAJobRunsWithTheSameTokenAndPort) {
  const TemporaryFolder folder;
  const std::string script =
      "echo $MASTER_PORT $WICK_JOB_TOKEN > " + folder.path("") + "/$RANK; exit 0";
  EXPECT_EQ(supervise({.ranks = 2}, shell(script)), 0);
  const std::string first = text_of(folder.path("0"));
  EXPECT_GT(first.size(), 32u);  // of a token of 16 bytes alone
  EXPECT_EQ(text_of(folder.path("1")), first);
}

TEST(Supervisor, AllRanksStartAgainAfterAFailure) {
  const TemporaryFolder folder;
  const std::string script = "echo $RANK >> " + folder.path("$WICK_RESTARTS") +
                             "; if [ $WICK_RESTARTS = 2 ]; then exit 0; fi; exit $((7 * RANK))";
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(supervise({.ranks = 2, .max_restarts = 5}, shell(script)), 0);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("rank 1 of 2 failed with exit code 7; starting all again, restart 1 of 5"),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("restart 2 of 5"), std::string::npos) << said;
  EXPECT_EQ(text_of(folder.path("2")).size(), 4u);  // both ranks, and a third time
  EXPECT_FALSE(std::filesystem::exists(folder.path("3")));
}

TEST(Supervisor, WhatARestartCannotMendEndsTheJob) {
  for (const int code : {kUsageExit, kDivergedExit}) {
    const TemporaryFolder folder;
    const std::string script =
        "echo x >> " + folder.path("starts") + "; exit " + std::to_string(code);
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(supervise({.ranks = 1, .max_restarts = 5}, shell(script)), code);
    EXPECT_EQ(::testing::internal::GetCapturedStderr(),
              "wick: the process failed with exit code " + std::to_string(code) + "\n");
    EXPECT_EQ(text_of(folder.path("starts")), "x\n");
  }
}

TEST(Supervisor, RecordsOfAnEarlierStartAreRemoved) {
  const TemporaryFolder folder;
  const std::string flights = folder.path("flights");
  std::filesystem::create_directories(flights + "/restart-1");
  for (const char* name : {"/flight-0.json", "/restart-1/flight-1.json", "/notes.txt"}) {
    std::ofstream(flights + name) << "old";
  }
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(supervise({.ranks = 1, .max_restarts = 1, .flight_folder = flights},
                      shell("echo new > $WICK_FLIGHT_DIR/flight-0.json; exit 9")),
            9);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("see wick doctor --flight " + flights + ";"), std::string::npos) << said;
  EXPECT_EQ(text_of(flights + "/flight-0.json"), "new\n");
  EXPECT_EQ(text_of(flights + "/restart-1/flight-0.json"), "new\n");
  EXPECT_FALSE(std::filesystem::exists(flights + "/restart-1/flight-1.json"));
  EXPECT_EQ(text_of(flights + "/notes.txt"), "old");
}

TEST(Supervisor, RanksAreGivenCoresOfTheirOwn) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  const int cores = CPU_COUNT(&all);
  for (int count = 1; count <= cores; ++count) {
    cpu_set_t taken;
    CPU_ZERO(&taken);
    for (int rank = 0; rank < count; ++rank) {
      cpu_set_t own = cores_of(rank, count), both;
      EXPECT_GE(CPU_COUNT(&own), cores / count);
      EXPECT_LE(CPU_COUNT(&own), (cores + count - 1) / count);
      CPU_AND(&both, &own, &taken);
      EXPECT_EQ(CPU_COUNT(&both), 0);
      CPU_OR(&taken, &taken, &own);
    }
    EXPECT_TRUE(CPU_EQUAL(&taken, &all));
  }
  EXPECT_THROW(cores_of(0, cores + 1), Error);
  if (cores < 2) GTEST_SKIP() << "one core: nothing to share";
  const TemporaryFolder folder;
  const std::string script =
      "grep Cpus_allowed_list /proc/self/status > " + folder.path("") + "/$RANK";
  EXPECT_EQ(supervise({.ranks = 2, .bind_cores = true}, shell(script)), 0);
  EXPECT_NE(text_of(folder.path("0")), text_of(folder.path("1")));
  EXPECT_EQ(supervise({.ranks = 2}, shell(script)), 0);
  EXPECT_EQ(text_of(folder.path("0")), text_of(folder.path("1")));
}

}  // namespace
}  // namespace wick::tool
