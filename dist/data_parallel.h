#pragma once

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "wick/core/base/scoped_value.h"
#include "wick/dist/process_group.h"
#include "wick/dist/tensors_in.h"
#include "wick/nn/module.h"

namespace wick::dist {

/// Options of DistributedDataParallel. Error for a bucket of 0 bytes or less, or a
/// `communication_dtype` other than float16 and bfloat16.
struct DataParallelOptions {
  int64_t bucket_bytes = 25 << 20;       // of gradients that are reduced together
  int64_t first_bucket_bytes = 1 << 20;  // of the bucket that is ready first
  /// Every forward pass of training begins with rank 0's buffers (running statistics).
  bool broadcast_buffers = true;
  /// Parameters that the loss does not depend on are looked for in each forward pass. Without it
  /// one that gets no gradient is an error of the next pass.
  bool find_unused_parameters = false;
  /// The same parameters are unused in every pass: they are looked for in the first alone.
  bool static_graph = false;
  /// Gradients travel as float16 or bfloat16.
  std::optional<Dtype> communication_dtype = {};
};

class Reducer;

/// A module of which each rank has a copy and trains it on its own part of each batch (Li et al.
/// 2020, arXiv 2006.15704). At the start rank 0's parameters and buffers go to all ranks. Each
/// rank's loss must be the mean of its own part.
///
/// Backward replaces each gradient by its average over the ranks. Gradients are kept in buckets, in
/// the order in which they become ready. A bucket is reduced as soon as it is full, while backward
/// goes on. After backward, grad() of a parameter is a part of its bucket.
///
///   dist::DistributedDataParallel model(std::move(net), group);
///   cross_entropy(model(x), y).backward();
///   optimizer.step();
class DistributedDataParallel final : public nn::Module {
 public:
  using Options = DataParallelOptions;

  /// Error, on all ranks, if their modules differ in the number, names, shapes or dtypes of
  /// parameters.
  template <class M>
  requires std::is_base_of_v<nn::Module, M> DistributedDataParallel(
      M module, std::shared_ptr<ProcessGroup> group, const Options& options = {})
      : module_(add("module", std::move(module))), reducer_(make(std::move(group), options)) {}
  DistributedDataParallel(std::shared_ptr<nn::Module> module, std::shared_ptr<ProcessGroup> group,
                          const Options& options = {})
      : module_(add("module", nn::Handle<nn::Module>(std::move(module)))),
        reducer_(make(std::move(group), options)) {}
  ~DistributedDataParallel() override;

  Tensor forward(const Tensor& x) override;
  /// The forward of the module, an M, with any arguments: `model.forward_as<Net>(ids, mask)`. What
  /// it returns holds tensors as visit_tensors (tensors_in.h) finds them: one or several, or a
  /// struct of them. Error if the module is not an M.
  template <class M, class... Args>
  auto forward_as(Args&&... args) {
    auto* const module = dynamic_cast<M*>(&*module_);
    WICK_CHECK(module != nullptr,
               "DistributedDataParallel: forward_as: the module is of another class: got ",
               module_->description());
    begin_pass();
    return finish(module->forward(std::forward<Args>(args)...));
  }
  /// One forward pass made of whatever `compute` calls of the module: all of it comes before
  /// backward. Returns what `compute` does, of the same kinds.
  template <class Compute>
  auto pass(const Compute& compute) {
    begin_pass();
    return finish(compute());
  }
  std::string description() const override { return "DistributedDataParallel"; }
  nn::Module& module() { return *module_; }  // this rank's copy
  /// For the library's own use.
  const std::shared_ptr<Reducer>& reducer() const { return reducer_; }

  /// While it lives, backward adds to each rank's own gradients and nothing is exchanged; the first
  /// backward whose forward was outside it reduces what has gathered. In a compiled step it belongs
  /// within the step: error if it is around a step that was traced without it.
  class NoSync {
   public:
    explicit NoSync(DistributedDataParallel& model);

   private:
    ScopedValue<bool> sync_, around_;
  };

 private:
  struct Collect {
    std::vector<Tensor>& all;
    void operator()(const Tensor& x) const { all.push_back(x); }
  };
  template <class Result>
  Result finish(Result result) {
    std::vector<Tensor> outputs;
    visit_tensors(result, Collect{outputs});
    end_pass(outputs);
    return result;
  }
  void begin_pass();
  void end_pass(const std::vector<Tensor>& outputs);
  std::shared_ptr<Reducer> make(std::shared_ptr<ProcessGroup> group, const Options& options);

  nn::Handle<nn::Module> module_;
  std::shared_ptr<Reducer> reducer_;
};

/// Makes every batch normalisation below `module` use, in training, the mean and the variance of
/// all ranks' batches together. Ranks may have batches of different sizes.
void synchronize_batch_norms(nn::Module& module, const std::shared_ptr<ProcessGroup>& group);

}  // namespace wick::dist
