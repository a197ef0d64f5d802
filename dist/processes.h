#pragma once

#include "wick/dist/launch_env.h"
#include "wick/dist/process_group.h"

namespace wick::dist {

/// Joins the other processes of the job: returns on every rank once all have come. Rank 0 listens
/// where `env` says, and every rank keeps a connection to it, by which all learn within moments
/// when one dies.
///
/// Tensors of the CPU go through shared memory if all ranks are on one host, else through
/// TCP. Those of GPUs go through NCCL or the same way (options.backend). Ranks know each other by a
/// key, but data is not encrypted, and NCCL's ports ask for no key: the network is to be a private
/// one. TCP's ports are open on the interface that leads to rank 0 alone.
///
/// Error if rank 0 cannot listen: a port is in use. ProcessGroupError:
/// - if not all come within options.timeout, naming the missing ranks;
/// - if this rank is turned away: another version, job token or number of ranks, or a rank that is
///   there already;
/// - if the backend asked for cannot be used, on all ranks with the reason.
std::shared_ptr<ProcessGroup> init_process_group(const LaunchEnv& env,
                                                 const ProcessGroupOptions& options = {});

}  // namespace wick::dist
