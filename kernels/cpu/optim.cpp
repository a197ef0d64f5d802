#include "wick/kernels/cpu/optim_loop.h"

namespace wick::WICK_ISA {

void sgd_step(const OptimTensor* tensors, int64_t count, const SgdArgs& args) {
  if (args.momentum == 0) return update_all<PlainSgd>(tensors, count, args);
  update_all<MomentumSgd>(tensors, count, args);
}

void adam_step(const OptimTensor* tensors, int64_t count, const AdamArgs& args) {
  if (args.amsgrad) return update_all<Amsgrad>(tensors, count, args);
  update_all<PlainAdam>(tensors, count, args);
}

void adamax_step(const OptimTensor* tensors, int64_t count, const AdamArgs& args) {
  update_all<Adamax>(tensors, count, args);
}

void radam_step(const OptimTensor* tensors, int64_t count, const AdamArgs& args) {
  update_all<Radam>(tensors, count, args);
}

void nadam_step(const OptimTensor* tensors, int64_t count, const NadamArgs& args) {
  advance_momenta(tensors, count, args);
  update_all<Nadam>(tensors, count, args);
}

void rmsprop_step(const OptimTensor* tensors, int64_t count, const RmspropArgs& args) {
  if (args.centered && args.momentum != 0) {
    return update_all<CenteredMomentumRmsprop>(tensors, count, args);
  }
  if (args.centered) return update_all<CenteredRmsprop>(tensors, count, args);
  if (args.momentum != 0) return update_all<MomentumRmsprop>(tensors, count, args);
  update_all<Rmsprop>(tensors, count, args);
}

void adagrad_step(const OptimTensor* tensors, int64_t count, const AdagradArgs& args) {
  update_all<Adagrad>(tensors, count, args);
}

void adadelta_step(const OptimTensor* tensors, int64_t count, const AdadeltaArgs& args) {
  update_all<Adadelta>(tensors, count, args);
}

void asgd_step(const OptimTensor* tensors, int64_t count, const AsgdArgs& args) {
  update_all<Asgd>(tensors, count, args);
  advance_rates(tensors, count, args);
}

}  // namespace wick::WICK_ISA
