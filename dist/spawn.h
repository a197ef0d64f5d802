#pragma once

#include <functional>

#include "wick/dist/launch_env.h"

namespace wick::dist {

/// Runs `body` in `ranks` processes of this machine and returns when all have ended, as PyTorch's
/// torch.multiprocessing.spawn does:
///
///   dist::spawn([&](const dist::LaunchEnv& env) {
///     const auto group = dist::init_process_group(env);
///     ...
///   }, 4);
///
/// `env` says which rank it is and where the ranks meet; launch_env() says the same there. Each
/// rank has its share of the processor's cores, and sees what this process had in memory. Nothing
/// comes back from it: save results to a file. The ranks end when this process is killed.
///
/// The first rank that fails ends the others, and its error is thrown here: "spawn: rank 1 failed:
/// ...". A rank that failed only since another one had left its group is not the first.
///
/// The ranks are forks. Error if this process has several threads, which forks would lack: call it
/// before tensors are computed and before a GPU is used.
void spawn(const std::function<void(const LaunchEnv& env)>& body, int ranks);

}  // namespace wick::dist
