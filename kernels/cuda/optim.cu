#include "wick/kernels/cuda/common/tensor_batch.h"
#include "wick/kernels/cuda/common/vector_access.h"
#include "wick/kernels/optim_rules.h"

namespace wick::cuda {

namespace {

constexpr int64_t kChunk = 4096;  // elements of a block

constexpr bool uses(uint32_t states, int k) { return (states >> k & 1) != 0; }
/// How many of the states before the k-th a rule uses.
constexpr int used_before(uint32_t states, int k) {
  return static_cast<int>((k > 0 ? states & 1 : 0) + (k > 1 ? states >> 1 & 1 : 0) +
                          (k > 2 ? states >> 2 & 1 : 0));
}
/// Parameter, gradient and states.
template <class Rule>
constexpr int kPointers = 2 + used_before(Rule::kStates, 3);

template <class Rule>
constexpr bool kHasOwnState = requires {
  Rule::kOwnState;
};

/// `kCount` elements of a tensor and all that goes with them.
template <class Rule, class T, int kCount>
__device__ void update(const Rule& rule, const OptimElement<T>& element, void* const* pointers,
                       int64_t i) {
  constexpr uint32_t kStates = Rule::kStates;
  T* const w = static_cast<T*>(pointers[0]) + i;
  const Pack<T, kCount> g = load_pack<kCount>(static_cast<const T*>(pointers[1]) + i);
  Pack<T, kCount> result = load_pack<kCount>(w);
  Pack<T, kCount> states[3] = {};
  for (int k = 0; k < 3; ++k) {
    if (!uses(kStates, k)) continue;
    states[k] = load_pack<kCount>(static_cast<const T*>(pointers[2 + used_before(kStates, k)]) + i);
  }
  for (int j = 0; j < kCount; ++j) {
    result[j] = element.update(rule, result[j], g[j], states[0][j], states[1][j], states[2][j]);
  }
  store_pack(w, result);
  for (int k = 0; k < 3; ++k) {
    if (!uses(kStates, k)) continue;
    store_pack(static_cast<T*>(pointers[2 + used_before(kStates, k)]) + i, states[k]);
  }
}

template <class Rule, class T>
__global__ void __launch_bounds__(256)
    optim_kernel(const __grid_constant__ TensorBatch<kPointers<Rule>> batch, Rule rule,
                 OptimElement<T> element) {
  constexpr int kSize = kPackSize<T>;
  const Piece piece = find_piece(batch, blockIdx.x, kChunk);
  void* pointers[kPointers<Rule>];
  uintptr_t bits = 0;
  for (int k = 0; k < kPointers<Rule>; ++k) {
    pointers[k] = batch.pointers[piece.tensor][k];
    bits |= reinterpret_cast<uintptr_t>(pointers[k]);
  }
  const int64_t thread = threadIdx.x, threads = blockDim.x;
  int64_t packed = piece.begin;  // where elements begin that are taken one by one
  if (bits % 16 == 0) {
    packed = piece.end - (piece.end - piece.begin) % kSize;
    for (int64_t i = piece.begin + thread * kSize; i < packed; i += threads * kSize) {
      update<Rule, T, kSize>(rule, element, pointers, i);
    }
  }
  for (int64_t i = packed + thread; i < piece.end; i += threads) {
    update<Rule, T, 1>(rule, element, pointers, i);
  }
}

/// Updates all parameters, which are T, by their rules: a kernel for those that share one, as many
/// as a kernel's parameters can name.
template <class Rule, class T, class Args>
void update_typed(const char* name, const OptimTensor* tensors, int64_t count, const Args& args) {
  const OptimElement<T> element(args);
  const auto numel = [&](int64_t i) { return tensors[i].param.numel(); };
  const auto fill = [&](int64_t i, void** pointers) {
    pointers[0] = tensors[i].param.data;
    pointers[1] = tensors[i].grad.data;
    for (int k = 0; k < 3; ++k) {
      if (uses(Rule::kStates, k)) {
        pointers[2 + used_before(Rule::kStates, k)] = tensors[i].state[k].data;
      }
    }
  };
  const auto share_a_rule = [&](int64_t i) {
    if (tensors[i].step != tensors[i - 1].step) return false;
    if constexpr (kHasOwnState<Rule>) {
      return Rule(args, tensors[i]) == Rule(args, tensors[i - 1]);
    }
    return true;
  };
  for_each_batch<kPointers<Rule>>(
      count, kChunk, numel, fill, share_a_rule,
      [&](const TensorBatch<kPointers<Rule>>& batch, int64_t chunks, int64_t first) {
        launch(name, tensors[first].param.device, grid_of_pieces(chunks), optim_kernel<Rule, T>,
               batch, Rule(args, tensors[first]), element);
      });
}

template <template <class> class Rule, class Args>
void update_all(const char* name, const OptimTensor* tensors, int64_t count, const Args& args) {
  if (count > 0 && tensors[0].param.dtype == Dtype::kFloat64) {
    return update_typed<Rule<double>, double>(name, tensors, count, args);
  }
  update_typed<Rule<float>, float>(name, tensors, count, args);
}

}  // namespace

void sgd_step(const OptimTensor* tensors, int64_t count, const SgdArgs& args) {
  if (args.momentum == 0) return update_all<PlainSgd>("sgd_step", tensors, count, args);
  update_all<MomentumSgd>("sgd_step", tensors, count, args);
}

void adam_step(const OptimTensor* tensors, int64_t count, const AdamArgs& args) {
  if (args.amsgrad) return update_all<Amsgrad>("adam_step", tensors, count, args);
  update_all<PlainAdam>("adam_step", tensors, count, args);
}

void adamax_step(const OptimTensor* tensors, int64_t count, const AdamArgs& args) {
  update_all<Adamax>("adamax_step", tensors, count, args);
}

void radam_step(const OptimTensor* tensors, int64_t count, const AdamArgs& args) {
  update_all<Radam>("radam_step", tensors, count, args);
}

void nadam_step(const OptimTensor* tensors, int64_t count, const NadamArgs& args) {
  advance_momenta(tensors, count, args);
  update_all<Nadam>("nadam_step", tensors, count, args);
}

void rmsprop_step(const OptimTensor* tensors, int64_t count, const RmspropArgs& args) {
  const char* const name = "rmsprop_step";
  if (args.centered && args.momentum != 0) {
    return update_all<CenteredMomentumRmsprop>(name, tensors, count, args);
  }
  if (args.centered) return update_all<CenteredRmsprop>(name, tensors, count, args);
  if (args.momentum != 0) return update_all<MomentumRmsprop>(name, tensors, count, args);
  update_all<Rmsprop>(name, tensors, count, args);
}

void adagrad_step(const OptimTensor* tensors, int64_t count, const AdagradArgs& args) {
  update_all<Adagrad>("adagrad_step", tensors, count, args);
}

void adadelta_step(const OptimTensor* tensors, int64_t count, const AdadeltaArgs& args) {
  update_all<Adadelta>("adadelta_step", tensors, count, args);
}

void asgd_step(const OptimTensor* tensors, int64_t count, const AsgdArgs& args) {
  update_all<Asgd>("asgd_step", tensors, count, args);
  advance_rates(tensors, count, args);
}

}  // namespace wick::cuda
