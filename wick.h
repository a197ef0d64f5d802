#pragma once

// All of Wick.
#include "wick/core/core.h"
#include "wick/data/data.h"
#include "wick/dist/dist.h"
#include "wick/nn/nn.h"
#include "wick/optim/optim.h"
#include "wick/train/train.h"
