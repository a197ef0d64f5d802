#include "wick/kernels/cpu/optim_loop.h"

namespace wick::WICK_ISA {

void sgd_step(const OptimTensor* tensors, int64_t count, const SgdArgs& args,
              const OptimStep& step) {
  if (args.momentum == 0) return update_all<PlainSgd>(tensors, count, args, step);
  update_all<MomentumSgd>(tensors, count, args, step);
}

void adam_step(const OptimTensor* tensors, int64_t count, const AdamArgs& args,
               const OptimStep& step) {
  if (args.amsgrad) return update_all<Amsgrad>(tensors, count, args, step);
  update_all<PlainAdam>(tensors, count, args, step);
}

void adamax_step(const OptimTensor* tensors, int64_t count, const AdamArgs& args,
                 const OptimStep& step) {
  update_all<Adamax>(tensors, count, args, step);
}

void radam_step(const OptimTensor* tensors, int64_t count, const AdamArgs& args,
                const OptimStep& step) {
  update_all<Radam>(tensors, count, args, step);
}

void nadam_step(const OptimTensor* tensors, int64_t count, const NadamArgs& args,
                const OptimStep& step) {
  update_all<Nadam>(tensors, count, args, step);
}

void rmsprop_step(const OptimTensor* tensors, int64_t count, const RmspropArgs& args,
                  const OptimStep& step) {
  if (args.centered && args.momentum != 0) {
    return update_all<CenteredMomentumRmsprop>(tensors, count, args, step);
  }
  if (args.centered) return update_all<CenteredRmsprop>(tensors, count, args, step);
  if (args.momentum != 0) return update_all<MomentumRmsprop>(tensors, count, args, step);
  update_all<Rmsprop>(tensors, count, args, step);
}

void adagrad_step(const OptimTensor* tensors, int64_t count, const AdagradArgs& args,
                  const OptimStep& step) {
  update_all<Adagrad>(tensors, count, args, step);
}

void adadelta_step(const OptimTensor* tensors, int64_t count, const AdadeltaArgs& args,
                   const OptimStep& step) {
  update_all<Adadelta>(tensors, count, args, step);
}

void asgd_step(const OptimTensor* tensors, int64_t count, const AsgdArgs& args,
               const OptimStep& step) {
  update_all<Asgd>(tensors, count, args, step);
}

void lars_step(const OptimTensor* tensors, int64_t count, const LarsArgs& args,
               const OptimStep& step) {
  update_all<Lars>(tensors, count, args, step);
}

void lamb_step(const OptimTensor* tensors, int64_t count, const LambArgs& args,
               const OptimStep& step) {
  update_all<Lamb>(tensors, count, args, step);
}

void novograd_step(const OptimTensor* tensors, int64_t count, const NovogradArgs& args,
                   const OptimStep& step) {
  update_all<Novograd>(tensors, count, args, step);
}

}  // namespace wick::WICK_ISA
