#pragma once

// Not here, since only files of this folder use them: backend.h, control.h, coordinator.h,
// gloo_link.h, link.h, nccl.h, nccl_api.h, peer_collectives.h, reducer.h, reduction.h,
// shared_memory_link.h, socket.h. Nor scaling.h, which is for plans alone.

#include "wick/dist/all_reduce.h"
#include "wick/dist/data_parallel.h"
#include "wick/dist/gloo.h"
#include "wick/dist/join.h"
#include "wick/dist/launch_env.h"
#include "wick/dist/process_group.h"
#include "wick/dist/replicas.h"
#include "wick/dist/spawn.h"
#include "wick/dist/tensors_in.h"
#include "wick/dist/zero.h"
