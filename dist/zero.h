#pragma once

#include "wick/dist/data_parallel.h"
#include "wick/optim/optimizer.h"

namespace wick::dist {

/// Shares the optimizer's state out among the ranks. This is ZeRO stage 1 (Rajbhandari et al. 2020,
/// arXiv 1910.02054), PyTorch's ZeroRedundancyOptimizer.
///
/// From now on backward of `model` reduces each bucket of gradients by reduce_scatter, so that each
/// rank gets the average of its part. step() updates that part, for which alone this rank keeps
/// state. It gathers the parameters by all_gather. All ranks call it, and everything of the
/// optimizer below that they share:
///
///   dist::DistributedDataParallel model(std::move(net), group);
///   optim::AdamW optimizer(model.parameters(), {.lr = 1e-3});
///   dist::shard_optimizer(optimizer, model);
///
/// The weights have the same bits as without it (where a backend reduces in one order, as all here
/// but NCCL do). Clipping is the exception: the norm is then summed in another order.
///
/// StepControl::max_norm, GradScaler (one rank's infinity skips the step of all), schedules, NoSync
/// and Ema work as without it. The state dicts are those of whole parameters, for any number of
/// ranks.
///
/// But optimizer.params() and their gradients are this rank's parts, so optim::clip_grad_norm_ of
/// them is not the norm of all. And grad() of the model's parameters is this rank's own, before the
/// average.
///
/// With one rank it does nothing. Error for LARS, LAMB, NovoGrad and Muon, which need whole
/// parameters, and for a parameter that is not the model's.
void shard_optimizer(optim::Optimizer& optimizer, DistributedDataParallel& model);

}  // namespace wick::dist
