#include "wick/kernels/cpu/linked_chain.h"

#include "wick/kernels/cpu/convert.h"

namespace wick::WICK_ISA {

namespace {

using Chain = ElementwiseChain;

WICK_INLINE void load(const ChainLink& link, int64_t position, int64_t at, VecF* x) {
  const float* from = link.memory[0].block<const float>(position, at);
#pragma GCC unroll 8
  for (int i = 0; i < kLinkVectors; ++i) x[i] = VecF::load(from + i * VecF::size);
}

template <class S>
WICK_INLINE void store(const ChainLink& link, int64_t position, int64_t at, VecF* x) {
  S* to = link.memory[0].block<S>(position, at);
#pragma GCC unroll 8
  for (int i = 0; i < kLinkVectors; ++i) x[i].store(to + i * VecF::size);
}

// Past the caches.
template <class S>
WICK_INLINE void stream(const ChainLink& link, int64_t position, int64_t at, VecF* x) {
  S* to = link.memory[0].block<S>(position, at);
  if (std::is_same_v<S, float> && reinterpret_cast<uintptr_t>(to) % sizeof(VecF) == 0) {
#pragma GCC unroll 8
    for (int i = 0; i < kLinkVectors; ++i) {
      x[i].stream(reinterpret_cast<float*>(to) + i * VecF::size);
    }
    return;
  }
  alignas(64) S block[kLinkBlock];
#pragma GCC unroll 8  // so that x stays in registers
  for (int i = 0; i < kLinkVectors; ++i) x[i].store(block + i * VecF::size);
  stream_bytes(to, block, sizeof block);
}

template <class S>
WICK_INLINE void round(const ChainLink&, int64_t, int64_t, VecF* x) {
#pragma GCC unroll 8
  for (int i = 0; i < kLinkVectors; ++i) x[i] = rounded<S>(x[i]);
}

// Computes by the functor's loop.
WICK_INLINE void call_loop(const ChainLink& link, int64_t position, int64_t at, VecF* x) {
  alignas(64) float passed[kLinkBlock], result[kLinkBlock];
  for (int i = 0; i < kLinkVectors; ++i) x[i].store(passed + i * VecF::size);
  const void* inputs[ElementwiseCall::kMaxInputs] = {};
  for (int k = 0, other = 0; k < link.arity; ++k) {
    inputs[k] = k == link.passed ? passed : link.memory[other++].block<const float>(position, at);
  }
  link.loop(link.functor, result, inputs, kLinkBlock);
  for (int i = 0; i < kLinkVectors; ++i) x[i] = VecF::load(result + i * VecF::size);
}

void end(const ChainLink*, int64_t, int64_t, VecF, VecF, VecF, VecF, VecF, VecF, VecF, VecF) {}

// The functions of a dtype that a step may have as a result.
struct OfDtype {
  LinkFunction round, store, stream;
};
template <class S>
constexpr OfDtype kOf = {&link_function<round<S>>, &link_function<store<S>>,
                         &link_function<stream<S>>};
const OfDtype& of(Dtype dtype) {
  if (dtype == Dtype::kFloat16) return kOf<Half>;
  if (dtype == Dtype::kBFloat16) return kOf<BFloat16>;
  return dtype == Dtype::kBool ? kOf<bool> : kOf<float>;
}

}  // namespace

LinkPlan::LinkPlan(const Chain& chain) {
  for (int s = 0; s < chain.num_steps; ++s) {
    const Chain::Step& step = chain.steps[s];
    const bool is_result_known =
        step.dtype == Dtype::kBool || (is_floating(step.dtype) && step.dtype != Dtype::kFloat64);
    if (step.compute != Dtype::kFloat32 || !is_result_known || step.arity == 0) {
      is_possible_ = false;
      return;
    }
    passed_[s] = -1;
    for (int k = 0; k < step.arity; ++k) {
      const Chain::Source& from = step.x[k];
      if (from.view >= 0) {
        reads_[from.view] = true;
      } else if (passed_[s] < 0 && from.step == s - 1) {
        passed_[s] = k;
      } else {
        is_kept_[from.step] = true;
      }
    }
  }
}

LinkedChain::LinkedChain(const Chain& chain, const LinkPlan& plan, const ChainMemory& memory)
    : chain_(chain), plan_(plan), first_lanes_(memory.lanes) {
  for (int s = 0; s < chain.num_steps; ++s) add_step(s, memory);
  add(&end);
  for (int v = chain.num_results; v < chain.num_views; ++v) {
    if (plan.reads_[v] && memory.views[v].is_view) read_[num_read_++] = memory.views[v];
  }
}

namespace {

// Asks for the block that comes some blocks later. Inline: else g++ 12 drops the call as one
// without effect.
WICK_INLINE void prefetch(const float* block) {
  constexpr uintptr_t kAhead = 2048, kLine = 64;  // bytes
  const uintptr_t begin = reinterpret_cast<uintptr_t>(block) + kAhead;
  for (uintptr_t line = 0; line < kLinkBlock * sizeof(float); line += kLine) {
    __builtin_prefetch(reinterpret_cast<const char*>(begin + line));
  }
}

}  // namespace

void LinkedChain::add(LinkFunction function, LinkMemory memory) {
  links_[count_++] = {function, {memory, {}}, nullptr, 0, 0, nullptr};
}

LinkMemory LinkedChain::memory_of(const Chain::Source& from, const ChainMemory& memory) const {
  if (from.view >= 0) return memory.views[from.view];
  return {memory.slots[chain_.steps[from.step].slot], false};
}

void LinkedChain::add_step(int s, const ChainMemory& memory) {
  const Chain::Step& step = chain_.steps[s];
  int passed = plan_.passed_[s];
  if (passed < 0) add(&link_function<load>, memory_of(step.x[passed = 0], memory));

  ChainLink& link = links_[count_];
  const auto* own = static_cast<const FunctorLinks*>(step.links);
  add(own != nullptr ? own->by_passed[passed] : &link_function<call_loop>);
  link.functor = step.functor;
  link.loop = step.loop;
  link.arity = step.arity;
  link.passed = passed;
  for (int k = 0, other = 0; k < step.arity; ++k) {
    if (k != passed) link.memory[other++] = memory_of(step.x[k], memory);
  }

  const OfDtype& functions = of(step.dtype);
  if (step.dtype != Dtype::kFloat32) add(functions.round);
  if (plan_.is_kept_[s]) add(kOf<float>.store, {memory.slots[step.slot], false});
  if (step.view == 0 && memory.lanes != nullptr) {
    lanes_ = count_;
    add(kOf<float>.store, {memory.lanes, false});
  }
  if (step.view < 0 || memory.views[step.view].data == nullptr) return;
  add(memory.streams[step.view] ? functions.stream : functions.store, memory.views[step.view]);
}

void LinkedChain::run(int64_t position, int64_t n, int64_t done) {
  if (lanes_ >= 0) links_[lanes_].memory[0].data = first_lanes_ + done;
  const VecF none(0.0f);
  for (int64_t at = 0; at < n; at += kLinkBlock) {
    for (int i = 0; i < num_read_; ++i) prefetch(read_[i].block<const float>(position, at));
    links_[0].function(links_, position, at, none, none, none, none, none, none, none, none);
  }
}

}  // namespace wick::WICK_ISA
