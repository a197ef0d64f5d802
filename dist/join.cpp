#include "wick/dist/join.h"

#include <utility>

#include "wick/core/autograd.h"
#include "wick/core/graph/trace.h"
#include "wick/dist/detail/reducer.h"
#include "wick/nn/norm.h"

namespace wick::dist {

void Reducer::announce(bool has_input) {
  WICK_CHECK(!graph::is_tracing(), "join: a pass within a trace: expected an eager step, as ranks ",
             "agree in each pass on who has inputs");
  const Device device = parameters_[0].tensor.device();
  const Tensor flags = empty({group_->size(), 1}, kInt32, device);
  group_->all_gather(tensor<int32_t>({has_input ? 1 : 0}).to(device), flags).wait();
  const std::vector<int32_t> all = flags.to_vector<int32_t>();
  active_ = 0;
  for (size_t r = all.size(); r-- > 0;) {
    if (all[r] == 0) continue;
    ++active_;
    root_ = static_cast<int>(r);
  }
  WICK_CHECK(!join_->throw_on_early_termination || active_ == 0 || active_ == group_->size(),
             "join: a rank has run out of inputs: ", active_, " of ", group_->size(),
             " ranks have more");
}

void Reducer::begin_join(const JoinOptions& options) {
  WICK_CHECK(!join_, "join: within another one of the same model");
  join_ = options;
  root_ = 0;
}

void Reducer::shadow(const std::function<void()>& step) {
  if (alone() || parameters_.empty()) return;
  check_finished();
  for (announce(false); active_ > 0; announce(false)) {
    if (options_.broadcast_buffers) broadcast_all(buffers_, root_);
    pass_with_zeros();
    step();
  }
  if (options_.broadcast_buffers) broadcast_all(buffers_, root_);
}

void Reducer::pass_with_zeros() {
  const NoGrad no_grad;
  std::vector<size_t> all(parameters_.size());
  for (size_t p = 0; p < all.size(); ++p) all[p] = p;
  const std::vector<size_t> unused = std::exchange(unused_, all);
  begin_pass();
  for (Parameter& p : parameters_) {
    p.place.zero_();
    p.tensor.set_grad({});  // of an earlier pass, which nobody has forgotten
    if (may_be_unused()) continue;
    p.tensor.set_grad(p.place.dtype() == p.tensor.dtype() ? p.place : p.place.to(p.tensor.dtype()));
  }
  for (const size_t p : all) mark_ready(p);
  finish();
  unused_ = unused;
  // As if its gradients had become ready in some order: all ranks lay buckets out anew together.
  if (!rebuilt_ && order_.empty()) order_.assign(all.rbegin(), all.rend());
}

void join(DistributedDataParallel& model, const std::function<void()>& train,
          const std::function<void()>& step, const JoinOptions& options) {
  if (!options.throw_on_early_termination) {
    model.apply([](const std::string& name, nn::Module& part) {
      const auto* norm = dynamic_cast<const nn::BatchNorm*>(&part);
      WICK_CHECK(norm == nullptr || !norm->sum_over_ranks, "join: batch norm ", name,
                 " is synchronised over the ranks, of which some would have no batch: set "
                 "throw_on_early_termination");
    });
  }
  const std::shared_ptr<Reducer> reducer = model.reducer();
  struct Joined {
    Reducer& reducer;
    ~Joined() { reducer.end_join(); }
  };
  reducer->begin_join(options);
  const Joined joined{*reducer};
  train();
  reducer->shadow(step);
}

}  // namespace wick::dist
