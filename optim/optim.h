#pragma once

#include "wick/optim/adam.h"
#include "wick/optim/optimizer.h"
#include "wick/optim/schedule.h"
#include "wick/optim/sgd.h"
