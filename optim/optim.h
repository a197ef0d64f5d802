#pragma once

#include "wick/optim/adam.h"
#include "wick/optim/adam_variants.h"
#include "wick/optim/adaptive.h"
#include "wick/optim/asgd.h"
#include "wick/optim/clip.h"
#include "wick/optim/optimizer.h"
#include "wick/optim/schedule.h"
#include "wick/optim/schedule_compose.h"
#include "wick/optim/schedule_cycle.h"
#include "wick/optim/sgd.h"
