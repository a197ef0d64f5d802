#pragma once

// Training runs: steps, epochs, evaluations, schedules, metrics, checkpoints, ranks.
#include "wick/train/evaluation.h"
#include "wick/train/hardware.h"
#include "wick/train/invalid_option.h"
#include "wick/train/optimizers.h"
#include "wick/train/ranks.h"
#include "wick/train/run_folder.h"
#include "wick/train/run_schedule.h"
#include "wick/train/step.h"
#include "wick/train/trainer.h"
