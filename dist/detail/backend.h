#pragma once

#include "wick/dist/detail/control.h"
#include "wick/dist/launch_env.h"
#include "wick/dist/process_group.h"

namespace wick::dist {

/// What the ranks agreed on.
struct BackendChoice {
  bool nccl = false;
  bool shared_memory = false;  // whether all want it for what goes through the host
  Device gpu;                  // this rank's, with nccl
  std::string why_no_nccl;     // where tensors are on GPUs; empty with nccl, or if none was wanted
};

/// Every rank tells what it wants and has, and all come to the same end. ProcessGroupError, on all,
/// if what is wanted cannot be.
BackendChoice agree_on_backend(Control& control, const LaunchEnv& env,
                               const ProcessGroupOptions& options);

}  // namespace wick::dist
