#pragma once

#include "wick/dist/launch_env.h"
#include "wick/dist/process_group.h"

namespace wick::dist {

/// Joins the other processes of the job: returns on every rank once all have come. Rank 0 listens
/// where `env` says, and every rank keeps a connection to it, by which all learn within moments
/// when one dies. Tensors go through shared memory if all ranks are on one host, else through TCP
/// by Gloo; those of a GPU through pinned host memory. Data is neither encrypted nor, on Gloo's
/// ports, authenticated: they are open on the interface that leads to rank 0 alone, which is to be
/// of a private network.
/// ProcessGroupError if not all come within options.timeout, naming who is missing; if a port is
/// in use; if this rank is turned away: another version, job token or number of ranks, or a rank
/// that is there already.
std::shared_ptr<ProcessGroup> init_process_group(const LaunchEnv& env,
                                                 const ProcessGroupOptions& options = {});

}  // namespace wick::dist
