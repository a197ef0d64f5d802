#pragma once

// Not here, since only files of this folder use them: control.h, coordinator.h, gloo_link.h,
// link.h, peer_collectives.h, reduction.h, shared_memory_link.h, socket.h.

#include "wick/dist/all_reduce.h"
#include "wick/dist/data_parallel.h"
#include "wick/dist/gloo.h"
#include "wick/dist/launch_env.h"
#include "wick/dist/process_group.h"
