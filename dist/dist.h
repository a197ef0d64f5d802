#pragma once

// Not here: scaling.h, which is for plans alone.
#include "wick/dist/all_reduce.h"
#include "wick/dist/data_parallel.h"
#include "wick/dist/flight_log.h"
#include "wick/dist/join.h"
#include "wick/dist/launch_env.h"
#include "wick/dist/process_group.h"
#include "wick/dist/processes.h"
#include "wick/dist/replicas.h"
#include "wick/dist/spawn.h"
#include "wick/dist/tensors_in.h"
#include "wick/dist/zero.h"
