#pragma once

#include "wick/kernels/cuda/common/block_reduce.h"
#include "wick/kernels/cuda/common/convert.h"
#include "wick/kernels/cuda/common/numbers_batch.h"
#include "wick/kernels/cuda/common/vector_access.h"
#include "wick/kernels/optim_record.h"

namespace wick::cuda {

constexpr bool uses_state(uint32_t states, int k) { return (states >> k & 1) != 0; }
/// How many of the states before the k-th a rule uses.
constexpr int used_before(uint32_t states, int k) {
  return static_cast<int>((k > 0 ? states & 1 : 0) + (k > 1 ? states >> 1 & 1 : 0) +
                          (k > 2 ? states >> 2 & 1 : 0));
}
/// What a tensor's pointers in a batch are: parameter, gradient, record, states, master.
constexpr int kParam = 0, kGrad = 1, kRecord = 2, kFirstState = 3;
template <class Rule>
constexpr int kMaster = kFirstState + used_before(Rule::kStates, 3);
template <class Rule, class S, class T>
constexpr int kPointers = kMaster<Rule> + (__is_same(S, T) ? 0 : 1);

template <class Rule, class T, class Args, class Batch>
__global__ void optim_record_kernel(const __grid_constant__ Batch batch, Args args,
                                    OptimStep step) {
  const int i = static_cast<int>(global_thread());
  if (i >= batch.count) return;
  if (i == 0 && batch.first == 0) begin_step(step);
  using Record = OptimRecord<Rule, T>;
  make_record(batch.template record<Record>(step.scratch, i), batch.numbers[i], args, step);
}

/// One warp per tensor takes the sums of its chunks into its record.
template <class Rule, class T, class Batch>
__global__ void optim_settle_kernel(const __grid_constant__ Batch batch, const double* sums,
                                    void* scratch) {
  const int i = static_cast<int>(blockIdx.x);
  auto& record = batch.template record<OptimRecord<Rule, T>>(scratch, i);
  if (record.skip) return;
  double first = 0, second = 0;
  for (uint32_t c = batch.first_chunk[i] + threadIdx.x; c < batch.first_chunk[i + 1]; c += kWarp) {
    first += sums[2 * int64_t{c}];
    second += sums[2 * int64_t{c} + 1];
  }
  first = warp_reduce(first, Add{});
  second = warp_reduce(second, Add{});
  if (threadIdx.x == 0) record.rule.settle(first, second, batch.numbers[i][1]);
}

/// `kCount` elements of a tensor, stored as S and updated as T, and all that goes with them.
template <class Rule, class S, class T, int kCount>
class Elements {
 public:
  Pack<T, kCount> weights, states[3];

  __device__ Elements(void* const* pointers, int64_t i) : pointers_(pointers), i_(i) {
    grads_ = load_pack<kCount>(at<S>(kGrad));
    const Pack<S, kCount> params = load_pack<kCount>(at<S>(kParam));
    for (int j = 0; j < kCount; ++j) weights[j] = convert<T>(params[j]);
    if constexpr (!__is_same(S, T)) {
      const Pack<T, kCount> masters = load_pack<kCount>(at<T>(kMaster<Rule>));
      for (int j = 0; j < kCount; ++j) {
        if (convert<S>(masters[j]).bits == params[j].bits) weights[j] = masters[j];
      }
    }
    for (int k = 0; k < 3; ++k) {
      states[k] =
          uses_state(Rule::kStates, k) ? load_pack<kCount>(at<T>(state(k))) : Pack<T, kCount>{};
    }
  }
  __device__ T grad(int j) const { return convert<T>(grads_[j]); }
  /// Whether a weight is finite as it is stored.
  __device__ bool is_weight_finite(int j) const {
    return is_finite(convert<T>(convert<S>(weights[j])));
  }
  __device__ void store_weights() const {
    Pack<S, kCount> params;
    for (int j = 0; j < kCount; ++j) params[j] = convert<S>(weights[j]);
    store_pack(at<S>(kParam), params);
    if constexpr (!__is_same(S, T)) store_pack(at<T>(kMaster<Rule>), weights);
  }
  template <uint32_t kStates>
  __device__ void store_states() const {
    for (int k = 0; k < 3; ++k) {
      if (uses_state(kStates, k)) store_pack(at<T>(state(k)), states[k]);
    }
  }

 private:
  static constexpr int state(int k) { return kFirstState + used_before(Rule::kStates, k); }
  template <class U>
  __device__ U* at(int pointer) const {
    return static_cast<U*>(pointers_[pointer]) + i_;
  }

  void* const* pointers_;
  int64_t i_;
  Pack<S, kCount> grads_;
};

/// Calls body(elements) with all elements of this block's piece of a tensor, some at a time.
template <class Rule, class S, class T, class Body>
__device__ void for_elements(void* const* pointers, const Piece& piece, const Body& body) {
  constexpr int kSize = kPackSize<T>;  // so that what goes with 16-bit elements fits registers
  uintptr_t bits = 0;
  for (int k = 0; k < kPointers<Rule, S, T>; ++k) bits |= reinterpret_cast<uintptr_t>(pointers[k]);
  const int64_t thread = threadIdx.x, threads = blockDim.x;
  int64_t rest = piece.begin;  // where elements begin that are taken one by one
  if (bits % 16 == 0) {
    rest = piece.end - (piece.end - piece.begin) % kSize;
    for (int64_t i = piece.begin + thread * kSize; i < rest; i += threads * kSize) {
      Elements<Rule, S, T, kSize> elements(pointers, i);
      body(elements);
    }
  }
  for (int64_t i = rest + thread; i < piece.end; i += threads) {
    Elements<Rule, S, T, 1> elements(pointers, i);
    body(elements);
  }
}

/// Blocks that share the registers of a multiprocessor: as many as leave each thread enough of
/// them.
template <class T>
[[maybe_unused]] inline constexpr int kBlocksAtOnce = sizeof(T) == 8 ? 2 : 4;

template <class Rule, class S, class T, class Batch>
__global__ void __launch_bounds__(256, kBlocksAtOnce<T>)
    optim_measure_kernel(const __grid_constant__ Batch batch, double* sums) {
  const Piece piece = find_piece(batch, blockIdx.x, kOptimChunk);
  void* const* const pointers = batch.pointers[piece.tensor];
  const auto record = *static_cast<const OptimRecord<Rule, T>*>(pointers[kRecord]);
  if (record.skip) return;
  double first = 0, second = 0;
  for_elements<Rule, S, T>(pointers, piece, [&]<int kCount>(Elements<Rule, S, T, kCount>& x) {
    for (int j = 0; j < kCount; ++j) {
      double one = 0, two = 0;
      record.rule.measure(x.weights[j], record.element.factor * x.grad(j), x.states[0][j],
                          x.states[1][j], x.states[2][j], one, two);
      first += one;
      second += two;
    }
    x.template store_states<measured_states<Rule>()>();
  });
  first = block_sum(first);
  second = block_sum(second);
  if (threadIdx.x != 0) return;
  sums[2 * int64_t{blockIdx.x}] = first;
  sums[2 * int64_t{blockIdx.x} + 1] = second;
}

template <class Rule, class S, class T, class Batch>
__global__ void __launch_bounds__(256, kBlocksAtOnce<T>)
    optim_kernel(const __grid_constant__ Batch batch, int32_t* non_finite) {
  const Piece piece = find_piece(batch, blockIdx.x, kOptimChunk);
  void* const* const pointers = batch.pointers[piece.tensor];
  const auto record = *static_cast<const OptimRecord<Rule, T>*>(pointers[kRecord]);
  if (record.skip && non_finite == nullptr) return;
  bool finite = true;
  for_elements<Rule, S, T>(pointers, piece, [&]<int kCount>(Elements<Rule, S, T, kCount>& x) {
    for (int j = 0; j < kCount; ++j) {
      if (record.skip) break;
      x.weights[j] = record.element.update(record.rule, x.weights[j], x.grad(j), x.states[0][j],
                                           x.states[1][j], x.states[2][j]);
    }
    for (int j = 0; j < kCount; ++j) finite = finite && x.is_weight_finite(j);
    if (record.skip) return;
    x.store_weights();
    x.template store_states<written_states<Rule>()>();
  });
  if (!finite && non_finite != nullptr) atomicMax(non_finite, 1);
}

/// All of a step's tensors.
struct OptimWork {
  const char* name;
  const OptimTensor* tensors;
  int64_t count;

  Device device() const { return tensors[0].param.device; }
  int64_t numel(int64_t i) const { return tensors[i].param.numel(); }

  /// Calls run(batch) with batches of all tensors' numbers.
  template <class Run>
  void for_numbers(const Run& run) const {
    uint32_t chunks = 0;
    take_batches<NumbersBatch>(count, [&](auto& batch, int64_t i) {
      batch.first = i;
      for (batch.count = 0; i < count && batch.count < batch.kMost; ++i, ++batch.count) {
        batch.numbers[batch.count] = tensors[i].numbers;
        batch.first_chunk[batch.count] = chunks;
        chunks += static_cast<uint32_t>((numel(i) + kOptimChunk - 1) / kOptimChunk);
      }
      batch.first_chunk[batch.count] = chunks;
      run(batch);
      return i;
    });
  }
  /// Calls run(batch, chunks) with batches of all tensors.
  template <class Rule, class S, class T, class Run>
  void for_tensors(void* scratch, const Run& run) const {
    const auto fill = [&](int64_t i, void** pointers) {
      pointers[kParam] = tensors[i].param.data;
      pointers[kGrad] = tensors[i].grad.data;
      pointers[kRecord] = static_cast<char*>(scratch) + i * kOptimRecordBytes;
      for (int k = 0; k < 3; ++k) {
        if (uses_state(Rule::kStates, k)) {
          pointers[kFirstState + used_before(Rule::kStates, k)] = tensors[i].state[k].data;
        }
      }
      if (!__is_same(S, T)) pointers[kPointers<Rule, S, T> - 1] = tensors[i].master.data;
    };
    for_each_batch<kPointers<Rule, S, T>>(
        count, kOptimChunk, [&](int64_t i) { return numel(i); }, fill, [](int64_t) { return true; },
        [&](const auto& batch, int64_t chunks, int64_t) { run(batch, chunks); });
  }
};

/// A few kernels for each of: records of all tensors, for rules that measure their sums, and the
/// updates: as many as their parameters can name tensors.
template <class Rule, class S, class T, class Args>
void update_typed(const OptimWork& work, const Args& args, const OptimStep& step) {
  static_assert(sizeof(OptimRecord<Rule, T>) <= kOptimRecordBytes);
  const Device device = work.device();
  work.for_numbers([&]<class Batch>(const Batch& batch) {
    launch(work.name, device, Grid{dim3(static_cast<unsigned>(batch.count + 63) / 64), dim3(64)},
           optim_record_kernel<Rule, T, Args, Batch>, batch, args, step);
  });
  if constexpr (kMeasures<Rule>) {
    double* const sums = reinterpret_cast<double*>(static_cast<char*>(step.scratch) +
                                                   work.count * kOptimRecordBytes);
    double* next = sums;
    work.for_tensors<Rule, S, T>(step.scratch,
                                 [&]<class Batch>(const Batch& batch, int64_t chunks) {
                                   launch(work.name, device, grid_of_pieces(chunks),
                                          optim_measure_kernel<Rule, S, T, Batch>, batch, next);
                                   next += 2 * chunks;
                                 });
    work.for_numbers([&]<class Batch>(const Batch& batch) {
      launch(work.name, device, Grid{dim3(static_cast<unsigned>(batch.count)), dim3(kWarp)},
             optim_settle_kernel<Rule, T, Batch>, batch, sums, step.scratch);
    });
  }
  work.for_tensors<Rule, S, T>(step.scratch, [&]<class Batch>(const Batch& batch, int64_t chunks) {
    launch(work.name, device, grid_of_pieces(chunks), optim_kernel<Rule, S, T, Batch>, batch,
           step.non_finite);
  });
}

template <class Args>
void optim_step(const OptimTensor* tensors, int64_t count, const Args& args,
                const OptimStep& step) {
  if (count == 0) return;
  const OptimWork work{Args::kName, tensors, count};
  choose(args, [&]<template <class> class Rule>(RuleOf<Rule>) {
    visit_stored(tensors[0].param.dtype, [&]<class S, class T>(StoredAs<S, T>) {
      update_typed<Rule<T>, S, T>(work, args, step);
    });
  });
}

}  // namespace wick::cuda
