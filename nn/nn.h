#pragma once

// Not here, being these modules' own: child_observer.h, trial_state.h.
#include "wick/nn/activation.h"
#include "wick/nn/activation_checkpoint.h"
#include "wick/nn/activation_offload.h"
#include "wick/nn/activation_plan.h"
#include "wick/nn/attention.h"
#include "wick/nn/conv.h"
#include "wick/nn/init.h"
#include "wick/nn/linear.h"
#include "wick/nn/lint.h"
#include "wick/nn/loss.h"
#include "wick/nn/memory_advice.h"
#include "wick/nn/models/registry.h"
#include "wick/nn/models/resnet.h"
#include "wick/nn/models/simple.h"
#include "wick/nn/module.h"
#include "wick/nn/norm.h"
