#pragma once

#include <functional>
#include <optional>
#include <string>

namespace wick::dist {

/// Which of a job's processes this is, and where they meet.
struct LaunchEnv {
  int rank = 0, world_size = 1;
  /// Among the ranks of this host. The launcher may not tell: then as if all were on this one.
  int local_rank = 0, local_world_size = 1;
  /// Rank 0 listens here: a host's name or IP address, and a TCP port, 0 for any with a
  /// rendezvous_file.
  std::string master_addr = "127.0.0.1";
  int master_port = 0;
  /// Where rank 0 writes its address and port, and the others look for it: a path that all ranks
  /// see. Empty: there is none, and the port is fixed. Rank 0 deletes the file when all have come.
  std::string rendezvous_file;
  /// A process with another token is turned away. At most 256 bytes.
  std::string job_token;
  std::string launcher;  // whose variables these are, for messages
};

/// The value of an environment variable, or null.
using VariableGetter = std::function<const char*(const char* name)>;

/// What the launcher of this process says by environment variables, the first that is there of
///   torchrun and `wick launch`: RANK WORLD_SIZE LOCAL_RANK, perhaps LOCAL_WORLD_SIZE
///   Open MPI: OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE
///   PMI (MPICH, Intel MPI): PMI_RANK PMI_SIZE, perhaps MPI_LOCALRANKID MPI_LOCALNRANKS
///   Slurm: SLURM_PROCID SLURM_NTASKS SLURM_LOCALID
/// with MASTER_ADDR and MASTER_PORT, or WICK_RENDEZVOUS_FILE; where neither is there and all ranks
/// are on one host, a file named after the launcher's job. WICK_JOB_TOKEN is the token. None if no
/// launcher says anything. Error if a set is incomplete, naming what is missing, or says what
/// cannot be.
std::optional<LaunchEnv> launch_env(const VariableGetter& get);
/// The same of this process's environment.
std::optional<LaunchEnv> launch_env();

}  // namespace wick::dist
