#include "wick/dist/launch_env.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "wick/tests/harness/expect_error.h"

namespace wick::dist {
namespace {

using wick::testing::error_of;
using Variables = std::map<std::string, std::string>;

std::optional<LaunchEnv> read(const Variables& variables) {
  return launch_env([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

// `base` with `changes`; an empty value takes a variable away.
Variables changed(Variables base, const Variables& changes) {
  for (const auto& [name, value] : changes) base[name] = value;
  return base;
}

const Variables kTorchrun = {{"RANK", "5"},
                             {"WORLD_SIZE", "8"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "4"},
                             {"MASTER_ADDR", "10.0.0.7"},
                             {"MASTER_PORT", "29500"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "3"},
                            {"OMPI_COMM_WORLD_SIZE", "4"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                            {"PMIX_NAMESPACE", "77.1"}};
const Variables kPmi = {
    {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
const Variables kSlurm = {{"SLURM_PROCID", "6"},    {"SLURM_NTASKS", "8"},
                          {"SLURM_LOCALID", "2"},   {"SLURM_STEP_ID", "0"},
                          {"MASTER_ADDR", "node1"}, {"MASTER_PORT", "12345"}};

TEST(LaunchEnv, IsNoneWithoutALauncher) {
  EXPECT_FALSE(read({}).has_value());
  EXPECT_FALSE(read({{"MASTER_ADDR", "h"}, {"MASTER_PORT", "1"}, {"SLURM_NTASKS", "4"}}));
  EXPECT_FALSE(read({{"RANK", ""}, {"WORLD_SIZE", ""}}));
  // A script of sbatch.
  EXPECT_FALSE(read({{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}, {"SLURM_NTASKS", "4"}}));
}

TEST(LaunchEnv, ReadsEachLaunchersVariables) {
  const struct {
    Variables variables;
    std::string launcher;
    int rank, world_size, local_rank, local_world_size;
    std::string address;
    int port;
  } cases[] = {
      {kTorchrun, "torchrun", 5, 8, 1, 4, "10.0.0.7", 29500},
      {kOpenMpi, "Open MPI", 3, 4, 3, 4, "127.0.0.1", 0},
      {kPmi, "PMI", 1, 2, 1, 2, "127.0.0.1", 0},
      {kSlurm, "Slurm", 6, 8, 2, 8, "node1", 12345},
      {changed(kTorchrun, {{"LOCAL_WORLD_SIZE", ""}}), "torchrun", 5, 8, 1, 8, "10.0.0.7", 29500},
      {changed(kPmi, {{"MPI_LOCALRANKID", ""},
                      {"MPI_LOCALNRANKS", ""},
                      {"MASTER_ADDR", "a"},
                      {"MASTER_PORT", "9"}}),
       "PMI", 1, 2, 1, 2, "a", 9},
      // torchrun keeps the port for itself.
      {changed(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}}), "torchrun", 5, 8, 1, 4,
       "10.0.0.7", 29501},
  };
  for (const auto& c : cases) {
    const std::optional<LaunchEnv> env = read(c.variables);
    ASSERT_TRUE(env.has_value());
    EXPECT_EQ(env->launcher, c.launcher);
    EXPECT_EQ(env->rank, c.rank);
    EXPECT_EQ(env->world_size, c.world_size);
    EXPECT_EQ(env->local_rank, c.local_rank);
    EXPECT_EQ(env->local_world_size, c.local_world_size);
    EXPECT_EQ(env->master_addr, c.address);
    EXPECT_EQ(env->master_port, c.port);
  }
}

TEST(LaunchEnv, PrefersTheNearestLauncher) {
  Variables all = kSlurm;
  const auto add = [&all](const Variables& more) { all.insert(more.begin(), more.end()); };
  EXPECT_EQ(read(all)->launcher, "Slurm");
  add(kPmi);
  EXPECT_EQ(read(all)->launcher, "PMI");
  add(kOpenMpi);
  EXPECT_EQ(read(all)->launcher, "Open MPI");
  add(kTorchrun);
  EXPECT_EQ(read(all)->launcher, "torchrun");
}

TEST(LaunchEnv, MeetsByAFile) {
  const Variables file = {{"WICK_RENDEZVOUS_FILE", "/shared/here"},
                          {"WICK_JOB_TOKEN", "secret"},
                          {"LOCAL_WORLD_SIZE", "8"}};
  const auto env =
      read(changed(changed(kTorchrun, {{"MASTER_ADDR", ""}, {"MASTER_PORT", ""}}), file));
  EXPECT_EQ(env->rendezvous_file, "/shared/here");
  EXPECT_EQ(env->job_token, "secret");
  // On one host, one that is named after the job.
  const std::string path =
      read(changed(kOpenMpi, {{"XDG_RUNTIME_DIR", "/run/u"}}))->rendezvous_file;
  EXPECT_EQ(path.substr(0, 12), "/run/u/wick-");
  EXPECT_EQ(path.substr(path.size() - 5), "-77_1");
  EXPECT_NE(path, read(changed(kOpenMpi, {{"PMIX_NAMESPACE", "78"}}))->rendezvous_file);
  EXPECT_EQ(read(kTorchrun)->rendezvous_file, "");
}

TEST(LaunchEnv, NamesWhatIsMissingOrWrong) {
  const struct {
    Variables variables;
    std::string message;
  } cases[] = {
      {{{"RANK", "0"}},
       "launch: torchrun's variables are incomplete: missing WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, "
       "MASTER_PORT; there are RANK (in place of an address, WICK_RENDEZVOUS_FILE may name a file "
       "that all ranks see)"},
      {{{"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}, {"WICK_RENDEZVOUS_FILE", "f"}},
       "launch: torchrun's variables are incomplete: missing RANK; there are WORLD_SIZE, "
       "LOCAL_RANK"},
      {changed(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_RANK", ""}}),
       "launch: Open MPI's variables are incomplete: missing OMPI_COMM_WORLD_LOCAL_RANK; there are "
       "OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE"},
      {changed(kPmi, {{"PMI_RANK", ""}}),
       "launch: PMI's variables are incomplete: missing PMI_RANK; there are PMI_SIZE"},
      {changed(kSlurm, {{"MASTER_PORT", ""}}),
       "launch: Slurm's variables are incomplete: missing MASTER_PORT; there are SLURM_PROCID, "
       "SLURM_NTASKS, SLURM_LOCALID, MASTER_ADDR (in place of an address, WICK_RENDEZVOUS_FILE may "
       "name a file that all ranks see)"},
      {changed(kSlurm, {{"MASTER_ADDR", ""}, {"MASTER_PORT", ""}}),
       "launch: Slurm does not say where the 8 ranks meet, and they may be on several hosts: "
       "missing MASTER_ADDR, MASTER_PORT: set them to the first host's address and a free port"},
      {changed(kTorchrun,
               {{"MASTER_ADDR", ""}, {"MASTER_PORT", ""}, {"WICK_RENDEZVOUS_FILE", "f"}}),
       "launch: the 8 ranks are on several hosts, and rank 0 has to be reached from all: missing "
       "MASTER_ADDR, the address of its host"},
      {changed(kTorchrun, {{"RANK", "8"}}),
       "launch: RANK is wrong: got \"8\", expected a whole number from 0 to 7"},
      {changed(kTorchrun, {{"RANK", "1x"}}),
       "launch: RANK is wrong: got \"1x\", expected a whole number from 0 to 7"},
      {changed(kTorchrun, {{"WORLD_SIZE", "99999999999999"}}),
       "launch: WORLD_SIZE is wrong: got \"99999999999999\", expected a whole number from 1 to "
       "1048576"},
      {changed(kTorchrun, {{"LOCAL_RANK", "4"}}),
       "launch: LOCAL_RANK is wrong: got \"4\", expected a whole number from 0 to 3"},
      {changed(kTorchrun, {{"LOCAL_WORLD_SIZE", "9"}}),
       "launch: LOCAL_WORLD_SIZE is wrong: got \"9\", expected a whole number from 1 to 8"},
      {changed(kTorchrun, {{"MASTER_PORT", "0"}}),
       "launch: MASTER_PORT is wrong: got \"0\", expected a whole number from 1 to 65535"},
      {changed(kTorchrun, {{"WICK_JOB_TOKEN", std::string(257, 'x')}}),
       "launch: WICK_JOB_TOKEN is too long: got 257 bytes, expected at most 256"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(error_of([&] { read(c.variables); }), c.message);
  }
}

}  // namespace
}  // namespace wick::dist
