#pragma once

#include "wick/dist/all_reduce.h"
#include "wick/dist/data_parallel.h"
#include "wick/dist/gloo.h"
#include "wick/dist/launch_env.h"
#include "wick/dist/process_group.h"
