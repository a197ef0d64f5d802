#pragma once

// Left out: grad_survey.h, which is for the library itself.

#include "wick/optim/accumulate.h"
#include "wick/optim/adam.h"
#include "wick/optim/adam_variants.h"
#include "wick/optim/adaptive.h"
#include "wick/optim/asgd.h"
#include "wick/optim/clip.h"
#include "wick/optim/device_schedule.h"
#include "wick/optim/ema.h"
#include "wick/optim/grad_scaler.h"
#include "wick/optim/layerwise.h"
#include "wick/optim/optimizer.h"
#include "wick/optim/per_group.h"
#include "wick/optim/schedule.h"
#include "wick/optim/schedule_compose.h"
#include "wick/optim/schedule_cycle.h"
#include "wick/optim/schedule_state.h"
#include "wick/optim/sgd.h"
#include "wick/optim/sharding.h"
