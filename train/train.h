#pragma once

// Training runs: steps, epochs, evaluations, schedules, metrics, checkpoints, ranks; and what is
// tried before a run.
#include "wick/train/arithmetic.h"
#include "wick/train/batch_finder.h"
#include "wick/train/checkpoint_writer.h"
#include "wick/train/classifier.h"
#include "wick/train/device.h"
#include "wick/train/evaluation.h"
#include "wick/train/hardware.h"
#include "wick/train/inspection.h"
#include "wick/train/jump_monitor.h"
#include "wick/train/loader_finder.h"
#include "wick/train/lr_finder.h"
#include "wick/train/optimizers.h"
#include "wick/train/ranks.h"
#include "wick/train/recipe.h"
#include "wick/train/run_folder.h"
#include "wick/train/run_schedule.h"
#include "wick/train/step.h"
#include "wick/train/trainer.h"
#include "wick/train/training_snapshot.h"
#include "wick/train/trial.h"
