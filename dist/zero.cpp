#include "wick/dist/zero.h"

#include <utility>

#include "wick/core/autograd.h"
#include "wick/core/ops/join.h"
#include "wick/dist/detail/reducer.h"
#include "wick/dist/detail/reduction.h"

namespace wick::dist {

namespace {

class Shares final : public optim::Sharding {
 public:
  /// places: of each group's parameters among the reducer's.
  Shares(std::shared_ptr<Reducer> reducer, std::vector<std::vector<size_t>> places)
      : reducer_(std::move(reducer)), places_(std::move(places)) {}

  void combine(const Tensor& norm, const Tensor& found_inf) override {
    const NoGrad no_grad;
    const Tensor both = stack({norm.square(), found_inf.to(kFloat64)});
    group().all_reduce(both, ReduceOp::kSum).wait();
    norm.copy_(both[0].sqrt());
    found_inf.copy_(both[1].clamp({}, 1));
  }

  void gather_parameters() override { reducer_->gather_parameters(); }

  Tensor gather(int group_number, size_t i, const Tensor& part) override {
    const NoGrad no_grad;
    const Reducer::Parameter& parameter = at(group_number, i);
    if (!is_first_rank()) {
      if (part.numel() > 0) group().send(part.cpu(), 0).wait();
      return {};
    }
    const Tensor whole = empty({parameter.tensor.numel()}, part.dtype());
    for (int r = 0; r < group().size(); ++r) {
      const auto [begin, count] = reducer_->share_of(parameter, r);
      if (count == 0) continue;
      const Tensor place = whole.narrow(0, begin, count);
      if (r == 0) {
        place.copy_(part);
      } else {  // through the host, where it is known to be there when wait() returns
        group().recv(place, r).wait();
      }
    }
    return in_layout_of(whole, parameter.tensor);
  }

  Tensor part_of(int group_number, size_t i, const Tensor& whole) const override {
    const NoGrad no_grad;
    const Reducer::Parameter& parameter = at(group_number, i);
    const auto [begin, count] = reducer_->share_of(parameter, group().rank());
    const Tensor relaid = empty_like(parameter.tensor.detach(), whole.dtype()).copy_(whole);
    return flat(relaid).narrow(0, begin, count);
  }

  const Tensor& parameter(int group_number, size_t i) const override {
    return at(group_number, i).tensor;
  }
  bool is_first_rank() const override { return group().rank() == 0; }

 private:
  ProcessGroup& group() const { return reducer_->group(); }
  const Reducer::Parameter& at(int group_number, size_t i) const {
    return reducer_->parameters()[places_[static_cast<size_t>(group_number)][i]];
  }

  std::shared_ptr<Reducer> reducer_;
  std::vector<std::vector<size_t>> places_;
};

size_t place_of(const Reducer& reducer, const Tensor& parameter) {
  WICK_CHECK(parameter.requires_grad(), "shard_optimizer: a parameter is frozen: got one of shape ",
             parameter.shape(), ", expected an optimizer without what ranks do not exchange");
  const auto& all = reducer.parameters();
  for (size_t p = 0; p < all.size(); ++p) {
    if (all[p].tensor.is_same(parameter)) return p;
  }
  throw Error(concat("shard_optimizer: a parameter of shape ", parameter.shape(),
                     " is none of the model's"));
}

}  // namespace

void shard_optimizer(optim::Optimizer& optimizer, DistributedDataParallel& model) {
  WICK_CHECK(
      optimizer.is_elementwise(),
      "shard_optimizer: the optimizer needs whole parameters, of which each rank would have a "
      "part: got ",
      optimizer.name(), ", expected one that updates each element by itself, such as adamw");
  const std::shared_ptr<Reducer> reducer = model.reducer();
  std::vector<std::vector<size_t>> places;
  for (int g = 0; g < optimizer.num_groups(); ++g) {
    auto& own = places.emplace_back();
    for (const Tensor& parameter : optimizer.params(g)) {
      own.push_back(place_of(*reducer, parameter));
    }
  }
  if (reducer->alone()) return;
  reducer->shard();
  std::vector<std::vector<Tensor>> parts;
  for (const auto& own : places) {
    auto& group = parts.emplace_back();
    for (const size_t p : own) group.push_back(reducer->parameters()[p].shard);
  }
  optimizer.shard(std::move(parts), std::make_shared<Shares>(reducer, std::move(places)));
}

}  // namespace wick::dist
