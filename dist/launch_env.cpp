#include "wick/dist/launch_env.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "wick/core/base/check.h"

namespace wick::dist {

namespace {

// The names under which a launcher tells. Without the optional ones all ranks are on one host.
struct LauncherNames {
  const char* launcher;
  const char *rank, *world_size, *local_rank, *local_world_size;
  bool local_rank_is_optional, size_alone_counts;
  // What has to be there as well; null: nothing.
  const char* only_with;
  // What else names this job, as no other job of this host; null: the parent process does.
  std::vector<const char*> job;
};

const std::vector<LauncherNames>& launchers() {
  static const std::vector<LauncherNames> all = {
      {"torchrun",
       "RANK",
       "WORLD_SIZE",
       "LOCAL_RANK",
       "LOCAL_WORLD_SIZE",
       false,
       true,
       nullptr,
       {}},
      {"Open MPI",
       "OMPI_COMM_WORLD_RANK",
       "OMPI_COMM_WORLD_SIZE",
       "OMPI_COMM_WORLD_LOCAL_RANK",
       "OMPI_COMM_WORLD_LOCAL_SIZE",
       false,
       true,
       nullptr,
       {"PMIX_NAMESPACE"}},
      {"PMI",
       "PMI_RANK",
       "PMI_SIZE",
       "MPI_LOCALRANKID",
       "MPI_LOCALNRANKS",
       true,
       true,
       nullptr,
       {}},
      // A shell of salloc and a script of sbatch have some of these, are no step, and no ranks.
      {"Slurm",
       "SLURM_PROCID",
       "SLURM_NTASKS",
       "SLURM_LOCALID",
       nullptr,
       false,
       false,
       "SLURM_STEP_ID",
       {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
  };
  return all;
}

class LaunchVariables {
 public:
  explicit LaunchVariables(const VariableGetter& get) : get_(get) {}

  // Empty counts as unset.
  std::string text(const char* name) const {
    const char* value = name == nullptr ? nullptr : get_(name);
    return value == nullptr ? "" : value;
  }
  bool has(const char* name) const { return !text(name).empty(); }

  int number(const char* name, int least, int most) const {
    const std::string value = text(name);
    int result = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
    WICK_CHECK(error == std::errc() && end == value.data() + value.size() && result >= least &&
                   result <= most,
               "launch: ", name, " is wrong: got \"", value, "\", expected a whole number from ",
               least, " to ", most);
    return result;
  }

 private:
  const VariableGetter& get_;
};

constexpr int kMostRanks = 1 << 20;

const LauncherNames* launcher_of(const LaunchVariables& variables) {
  for (const LauncherNames& names : launchers()) {
    if (names.only_with != nullptr && !variables.has(names.only_with)) continue;
    if (variables.has(names.rank)) return &names;
    if (names.size_alone_counts && variables.has(names.world_size)) return &names;
  }
  return nullptr;
}

void check_complete(const LauncherNames& names, const LaunchVariables& variables,
                    bool is_address_needed) {
  std::vector<const char*> needed = {names.rank, names.world_size};
  if (!names.local_rank_is_optional) needed.push_back(names.local_rank);
  if (is_address_needed) needed.insert(needed.end(), {"MASTER_ADDR", "MASTER_PORT"});
  std::string missing, there;
  for (const char* name : needed) {
    std::string& list = variables.has(name) ? there : missing;
    list += concat(list.empty() ? "" : ", ", name);
  }
  WICK_CHECK(missing.empty(), "launch: ", names.launcher, "'s variables are incomplete: missing ",
             missing, "; there are ", there,
             is_address_needed ? " (in place of an address, WICK_RENDEZVOUS_FILE may name a file "
                                 "that all ranks see)"
                               : "");
}

// A path that the ranks of this job on this host agree on, and those of no other job.
std::string file_of_job(const LauncherNames& names, const LaunchVariables& variables) {
  std::string job;
  for (const char* name : names.job) job += concat("-", variables.text(name));
  if (names.job.empty() || !variables.has(names.job[0])) job = concat("-", getppid());
  for (char& c : job) {
    if (std::string_view("/. ").find(c) != std::string_view::npos) c = '_';
  }
  const std::string folder = variables.text("XDG_RUNTIME_DIR");
  return concat(folder.empty() ? "/tmp" : folder, "/wick-", getuid(), job);
}

}  // namespace

std::optional<LaunchEnv> launch_env(const VariableGetter& get) {
  const LaunchVariables variables(get);
  const LauncherNames* names = launcher_of(variables);
  if (names == nullptr) return {};
  LaunchEnv env;
  env.launcher = names->launcher;
  env.rendezvous_file = variables.text("WICK_RENDEZVOUS_FILE");
  const bool has_file = !env.rendezvous_file.empty();
  const bool has_address = variables.has("MASTER_ADDR") || variables.has("MASTER_PORT");
  const bool is_torchrun = names == launchers().data();
  check_complete(*names, variables, !has_file && (has_address || is_torchrun));

  env.world_size = variables.number(names->world_size, 1, kMostRanks);
  env.rank = variables.number(names->rank, 0, env.world_size - 1);
  env.local_world_size = variables.has(names->local_world_size)
                             ? variables.number(names->local_world_size, 1, env.world_size)
                             : env.world_size;
  env.local_rank = variables.has(names->local_rank)
                       ? variables.number(names->local_rank, 0, env.local_world_size - 1)
                       : env.rank;
  if (variables.has("MASTER_ADDR")) env.master_addr = variables.text("MASTER_ADDR");
  if (variables.has("MASTER_PORT")) env.master_port = variables.number("MASTER_PORT", 1, 65535);
  // torchrun's own store sits on that port; its workers are told so by this.
  if (is_torchrun && variables.text("TORCHELASTIC_USE_AGENT_STORE") == "True") ++env.master_port;
  env.job_token = variables.text("WICK_JOB_TOKEN");
  WICK_CHECK(env.job_token.size() <= 256, "launch: WICK_JOB_TOKEN is too long: got ",
             env.job_token.size(), " bytes, expected at most 256");
  const bool knows_hosts = variables.has(names->local_world_size);
  WICK_CHECK(!has_file || variables.has("MASTER_ADDR") || !knows_hosts ||
                 env.local_world_size == env.world_size,
             "launch: the ", env.world_size,
             " ranks are on several hosts, and rank 0 has to be "
             "reached from all: missing MASTER_ADDR, the address of its host");
  if (!has_file && !has_address) {
    WICK_CHECK(knows_hosts ? env.local_world_size == env.world_size : env.world_size == 1,
               "launch: ", names->launcher, " does not say where the ", env.world_size,
               " ranks meet, and they may be on several hosts: missing MASTER_ADDR, MASTER_PORT: "
               "set them to the first host's address and a free port");
    env.rendezvous_file = file_of_job(*names, variables);
  }
  return env;
}

std::optional<LaunchEnv> launch_env() {
  return launch_env([](const char* name) { return std::getenv(name); });
}

}  // namespace wick::dist
