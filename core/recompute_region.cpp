#include "wick/core/recompute_region.h"

#include "wick/core/amp.h"
#include "wick/core/autograd.h"
#include "wick/core/detail/capture.h"
#include "wick/core/detail/op_recorder.h"
#include "wick/core/random.h"

namespace wick {

namespace {

thread_local bool recomputing = false;

// Thrown out of a region's second run when nothing more is needed of it. No std::exception, so that
// the function does not take it for an error.
struct EndOfRecomputation {
  const RecomputeRegion* region;
};

// What is kept where nothing is: by ops of a second run, through which no backward goes.
class Nothing final : public PackedTensor {
 public:
  Tensor unpack() override {
    detail::fail("checkpoint: backward within a checkpointed function is not supported");
  }
};

// A second run's surroundings: those of the first, put back at the end.
class Replay {
 public:
  Replay(const DrawLog* draws, const amp::AutocastState& autocast, SavedTensorHooks* hooks)
      : autocast_(autocast), hooks_(hooks), draws_(draws), recomputing_(recomputing, true) {}

 private:
  EnableGrad enable_grad_;
  amp::Autocast autocast_;
  SavedTensorScope hooks_;
  DrawLog::Replay draws_;
  ScopedValue<bool> recomputing_;
};

}  // namespace

bool is_recomputing() { return recomputing; }

class RecomputeRegion final : public RefCounted, private SavedTensorHooks {
 public:
  RecomputeRegion(RecomputeScope::Function function, std::span<const Tensor> inputs,
                  const RecomputeOptions& options)
      : function_(std::move(function)),
        options_(options),
        around_(saved_tensor_hooks()),
        collector_(*this) {
    for (const Tensor& tensor : inputs) inputs_.emplace_back(tensor);
  }

  SavedTensorHooks* hooks() { return this; }
  // Null: of no interest.
  DrawLog* draws() { return options_.preserve_rng_state ? &draws_ : nullptr; }
  void end_first_run() {
    first_run_ended_ = true;
    if (wanted_ == 0) let_go();
  }

 private:
  // An input of the region, for the second run.
  struct Input {
    explicit Input(const Tensor& given) : tensor(given) {
      if (!given.defined()) return;
      version = given.version();
      requires_grad = given.requires_grad();
      if (saved_tensor_hooks() == nullptr) return;
      packed = saved_tensor_hooks()->pack(given);
      if (packed) tensor = Tensor();
    }
    Tensor again(size_t i) const {
      if (!packed && !tensor.defined()) return {};
      WICK_CHECK(packed || tensor.version() == version, "checkpoint: input ", i,
                 " was changed in place since: got version ", tensor.version(), " of shape ",
                 tensor.shape(), ", expected version ", version);
      Tensor alias = (packed ? packed->unpack() : tensor).detach();
      if (requires_grad) alias.set_requires_grad();
      return alias;
    }
    Tensor tensor;
    uint64_t version = 0;
    Ref<PackedTensor> packed;
    bool requires_grad = false;
  };

  // A tensor that an op of the region keeps, in the order in which they do.
  struct Slot {
    TensorMeta meta;
    const char* op;
    bool wanted = false;  // by a node of the graph, which has nothing but this slot's number
    Tensor tensor;        // between the second run and its use
    uint64_t version = 0;
  };

  class SlotHandle final : public PackedTensor {
   public:
    SlotHandle(RecomputeRegion* region, size_t slot) : region_(region), slot_(slot) {}
    ~SlotHandle() override {
      Slot& slot = region_->slots_[slot_];
      slot.wanted = false;
      slot.tensor = Tensor();
      if (--region_->wanted_ == 0 && region_->first_run_ended_) region_->let_go();
    }
    Tensor unpack() override { return region_->tensor(slot_); }

   private:
    Ref<RecomputeRegion> region_;
    size_t slot_;
  };

  // The hooks of the second run.
  class Collector final : public SavedTensorHooks {
   public:
    explicit Collector(RecomputeRegion& region) : region_(region) {}
    Ref<PackedTensor> pack(const Tensor& tensor) override {
      region_.collect(tensor);
      return make_ref<Nothing>();
    }

   private:
    RecomputeRegion& region_;
  };

  // In the first run, within those around it.
  void before_op(std::span<const Tensor> inputs, uint32_t mutates) override {
    if (around_ != nullptr) around_->before_op(inputs, mutates);
  }

  // The first run. Parameters, and other leaves, are kept anyway.
  Ref<PackedTensor> pack(const Tensor& tensor) override {
    slots_.push_back({TensorMeta(tensor), detail::current_op(), false, {}, 0});
    if (tensor.requires_grad() && tensor.is_leaf()) return {};
    slots_.back().wanted = true;
    ++wanted_;
    return make_ref<SlotHandle>(this, slots_.size() - 1);
  }

  Tensor tensor(size_t i) {
    if (!slots_[i].tensor.defined()) recompute();
    const Slot& slot = slots_[i];
    WICK_CHECK(slot.tensor.version() == slot.version, slot.op,
               ": a tensor needed by backward was changed in place: got version ",
               slot.tensor.version(), " of shape ", slot.tensor.shape(), ", expected version ",
               slot.version);
    return slot.tensor;
  }

  void collect(const Tensor& tensor) {
    const size_t i = collected_++;
    if (i >= slots_.size()) return;  // recompute() tells
    Slot& slot = slots_[i];
    if (slot.wanted) {
      if (options_.determinism_check) check(slot, tensor);
      slot.tensor = tensor.detach();
      slot.version = tensor.version();
    }
    // A recorder is told of an op once the op has run, which one that keeps its result must.
    const bool stops = options_.early_stop && thread_recorder() == nullptr;
    if (stops && i == last_wanted_) throw EndOfRecomputation{this};
  }

  static void check(const Slot& slot, const Tensor& tensor) {
    const TensorMeta& first = slot.meta;
    WICK_CHECK(tensor.shape() == first.shape && tensor.dtype() == first.dtype &&
                   tensor.device() == first.device,
               "checkpoint: the function did something else when it was run again: got ",
               tensor.dtype(), " ", tensor.shape(), " on ", tensor.device(), " kept by ",
               detail::current_op(), ", expected ", first.dtype, " ", first.shape, " on ",
               first.device, " kept by ", slot.op);
  }

  void recompute() {
    WICK_CHECK(first_run_ended_,
               "checkpoint: backward within a checkpointed function is not supported");
    // Its random numbers would be others than the first run's.
    WICK_CHECK(captured_ == is_capturing(),
               "checkpoint: forward and backward must both be captured, or neither");
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < inputs_.size(); ++i) inputs.push_back(inputs_[i].again(i));
    collected_ = 0;
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].wanted) last_wanted_ = i;
    }
    try {
      const Replay replay(draws(), autocast_, &collector_);
      function_(inputs);
      WICK_CHECK(collected_ == slots_.size(),
                 "checkpoint: the function did something else when it was run again: got ",
                 collected_, " tensors kept for backward, expected ", slots_.size());
    } catch (const EndOfRecomputation& end) {
      if (end.region != this) throw;
    } catch (...) {
      forget();
      throw;
    }
    // With retain_graph nothing else lets go of them.
    at_end_of_backward([self = Ref<RecomputeRegion>(this)] { self->forget(); });
  }

  // There will be no other run.
  void let_go() {
    inputs_.clear();
    function_ = nullptr;
  }

  void forget() {
    for (Slot& slot : slots_) slot.tensor = Tensor();
  }

  RecomputeScope::Function function_;
  RecomputeOptions options_;
  SavedTensorHooks* const around_;  // in force as the first run began
  Collector collector_;
  std::vector<Input> inputs_;
  DrawLog draws_;  // of the first run
  amp::AutocastState autocast_ = amp::autocast_state();
  std::vector<Slot> slots_;
  size_t wanted_ = 0;  // of them
  size_t collected_ = 0, last_wanted_ = 0;
  bool first_run_ended_ = false;
  const bool captured_ = is_capturing();
};

RecomputeScope::RecomputeScope(Function function, std::span<const Tensor> inputs,
                               const RecomputeOptions& options)
    : region_(make_ref<RecomputeRegion>(std::move(function), inputs, options)),
      scope_(region_->hooks()),
      draws_(region_->draws()) {}

RecomputeScope::~RecomputeScope() { region_->end_first_run(); }

}  // namespace wick
