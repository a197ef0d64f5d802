#pragma once

#include "wick/kernels/cpu/chain_link.h"
#include "wick/kernels/elementwise_chain.h"

// A chain that is computed in float32, as links.
namespace wick::WICK_ISA {

/// Which input of each step is in registers, and what is read from memory. One for a walk.
class LinkPlan {
 public:
  explicit LinkPlan(const ElementwiseChain& chain);

  /// Whether all steps are computed in float32 and have floating or bool results.
  bool is_possible() const { return is_possible_; }

 private:
  friend class LinkedChain;
  bool is_possible_ = true;
  bool reads_[ElementwiseChain::kMaxViews] = {};
  bool is_kept_[ElementwiseChain::kMaxSteps] = {};  // a later step reads the result from memory
  int passed_[ElementwiseChain::kMaxSteps] = {};    // which input the step before made; or -1
};

/// Where the memory of a chain is. One for a thread.
struct ChainMemory {
  LinkMemory views[ElementwiseChain::kMaxViews];   // inputs are float32
  bool streams[ElementwiseChain::kMaxViews] = {};  // results that go past the caches
  float* slots[ElementwiseChain::kMaxSlots] = {};  // of a tile
  float* lanes = nullptr;  // what view 0 gets is put here too, for a whole range; or null
};

/// The links of a chain, ready to run.
class LinkedChain {
 public:
  LinkedChain(const ElementwiseChain& chain, const LinkPlan& plan, const ChainMemory& memory);

  /// Computes the blocks of a tile of `n` elements, a multiple of kLinkBlock. `position`: where the
  /// tile begins in the views. `done`: how many elements of the range came before.
  void run(int64_t position, int64_t n, int64_t done);

 private:
  using Chain = ElementwiseChain;
  // Of a step: load, compute, round, keep, put into lanes, store.
  static constexpr int kMaxLinks = 6 * Chain::kMaxSteps + 1;

  void add_step(int s, const ChainMemory& memory);
  void add(LinkFunction function, LinkMemory memory = {});
  LinkMemory memory_of(const Chain::Source& from, const ChainMemory& memory) const;

  const Chain& chain_;
  const LinkPlan& plan_;
  int count_ = 0;
  int lanes_ = -1;  // the link whose memory a tile moves
  float* first_lanes_;
  int num_read_ = 0;
  LinkMemory read_[Chain::kMaxViews];  // where inputs are read in place
  ChainLink links_[kMaxLinks];
};

}  // namespace wick::WICK_ISA
