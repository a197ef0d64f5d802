#include "wick/dist/replicas.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "wick/core/autograd.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/join.h"

namespace wick::dist {

// A module on a further device, and what of the original each of its tensors is a copy of.
struct DataParallel::Replica {
  struct Copy {
    Tensor original, tensor;
    uint64_t version = 0;  // of the original when it was copied
    bool is_copied = false;
    std::optional<bool> wants_gradient = {};  // as the original last did
  };
  std::shared_ptr<nn::Module> module;
  std::vector<Copy> parameters, buffers;
};

namespace {

// The tensors of `copies`, each with its like in `originals`; error if they are unlike.
template <class Copy>
std::vector<Copy> pair_up(const nn::NamedTensors& originals, const nn::NamedTensors& copies) {
  WICK_CHECK(originals.size() == copies.size(), "DataParallel: make gives different modules: got ",
             originals.size(), " and ", copies.size(), " tensors");
  std::vector<Copy> pairs;
  for (size_t i = 0; i < copies.size(); ++i) {
    const auto& [name, original] = originals[i];
    const auto& [other_name, copy] = copies[i];
    WICK_CHECK(name == other_name && original.shape() == copy.shape(),
               "DataParallel: make gives different modules: got ", name, " ", original.shape(),
               " and ", other_name, " ", copy.shape());
    pairs.push_back({.original = original, .tensor = copy});
  }
  return pairs;
}

// Whether each part trains or is evaluated, as in the original.
void copy_modes(nn::Module& from, nn::Module& to) {
  to.train(from.is_training());
  for (size_t i = 0; i < from.children().size(); ++i) {
    copy_modes(*from.children()[i].second, *to.children()[i].second);
  }
}

}  // namespace

DataParallel::DataParallel(const std::function<std::shared_ptr<nn::Module>()>& make,
                           std::vector<Device> devices)
    : module_(add("module", nn::Handle<nn::Module>(make()))), devices_(std::move(devices)) {
  WICK_CHECK(!devices_.empty(), "DataParallel: there is no device: expected at least one");
  module_->to(devices_[0]);
  for (size_t d = 1; d < devices_.size(); ++d) {
    auto replica = std::make_shared<Replica>();
    replica->module = make();
    replica->module->to(devices_[d]);
    replica->parameters =
        pair_up<Replica::Copy>(module_->named_parameters(), replica->module->named_parameters());
    replica->buffers =
        pair_up<Replica::Copy>(module_->named_buffers(), replica->module->named_buffers());
    replicas_.push_back(std::move(replica));
  }
}

// What has not changed since is not copied again: also what an earlier forward keeps for backward.
void DataParallel::bring_up_to_date(const std::shared_ptr<Replica>& replica) const {
  copy_modes(*module_, *replica->module);
  for (auto* const list : {&replica->parameters, &replica->buffers}) {
    for (Replica::Copy& copy : *list) {
      if (copy.is_copied && copy.version == copy.original.version()) continue;
      const NoGrad no_grad;
      copy.tensor.copy_(copy.original, true);
      copy.version = copy.original.version();
      copy.is_copied = true;
    }
  }
  for (size_t i = 0; i < replica->parameters.size(); ++i) {
    Replica::Copy& copy = replica->parameters[i];
    const bool wants_gradient = copy.original.requires_grad();
    if (std::optional(wants_gradient) == std::exchange(copy.wants_gradient, wants_gradient))
      continue;
    copy.tensor.set_requires_grad(false);  // without the hook, if there was one
    if (!wants_gradient) continue;
    copy.tensor.set_requires_grad();
    copy.tensor.register_post_accumulate_grad_hook(
        [weak = std::weak_ptr<Replica>(replica), i](const Tensor& grad) {
          const std::shared_ptr<Replica> owner = weak.lock();
          if (owner == nullptr) return;
          const NoGrad no_grad;
          const Replica::Copy& from = owner->parameters[i];
          WICK_CHECK(!grad.is_sparse(), "DataParallel: a gradient is sparse: got one of shape ",
                     grad.shape(), ", expected a dense one: make the embedding without sparse");
          const Tensor here = grad.to(from.original.device()), sum = from.original.grad();
          from.original.set_grad(sum.defined() ? sum + here : here);
          from.tensor.set_grad({});
        });
  }
}

Tensor DataParallel::forward(const Tensor& x) {
  WICK_CHECK(x.rank() >= 1, "DataParallel: the batch has no axis to be split along: got ",
             x.shape());
  const int64_t size = x.shape()[0];
  const auto devices = static_cast<int64_t>(devices_.size());
  const int64_t each = std::max<int64_t>(1, (size + devices - 1) / devices);
  if (each >= size) return module_(x.to(devices_[0]));
  std::vector<Tensor> parts, results;
  for (int64_t begin = 0; begin < size; begin += each) {
    const auto d = static_cast<size_t>(begin / each);
    parts.push_back(x.narrow(0, begin, std::min(each, size - begin)).to(devices_[d], true));
    if (d > 0) bring_up_to_date(replicas_[d - 1]);
  }
  for (size_t d = 0; d < parts.size(); ++d) {
    const Tensor y = d == 0 ? module_(parts[d]) : (*replicas_[d - 1]->module)(parts[d]);
    results.push_back((y.rank() == 0 ? y.view({1}) : y).to(devices_[0], true));
  }
  return cat(results);
}

}  // namespace wick::dist
