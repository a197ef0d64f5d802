#include "wick/optim/ema.h"

#include "wick/core/autograd.h"
#include "wick/core/graph/host_call.h"
#include "wick/core/graph/trace.h"
#include "wick/kernels/lerp.h"

namespace wick::optim {

namespace {

void check_tensors(const char* name, const std::vector<Tensor>& tensors) {
  for (const Tensor& tensor : tensors) {
    WICK_CHECK(is_dense(tensor.shape(), tensor.strides()) || tensor.numel() == 0, name,
               ": tensors must be dense: got strides ", tensor.strides(), " for shape ",
               tensor.shape());
    WICK_CHECK(tensor.device() == tensors[0].device(), name,
               ": tensors must be on one device: got ", tensor.device(), " and ",
               tensors[0].device());
  }
}

// Elements that are only copied (keep = 0) may be of any type of 4 or 8 bytes.
View view_of(const Tensor& tensor) {
  View view = tensor.view_for_kernel();
  if (!is_floating(view.dtype)) {
    view.dtype = size_of(view.dtype) == 8 ? kFloat64 : kFloat32;
  }
  return view;
}

// `wanted`: whether the flag, if there is one, must be other than 0.
void lerp_all(const char* name, const std::vector<Tensor>& to, const std::vector<Tensor>& from,
              double keep, const Tensor& flag, bool wanted) {
  if (to.empty()) return;
  const Device device = to[0].device();
  LerpCondition condition;
  if (flag.defined()) {
    WICK_CHECK(flag.rank() == 0 && flag.dtype() == kFloat32 && flag.device() == device, name,
               ": found_inf: got ", to_string(flag.dtype()), " of shape ", flag.shape(), " on ",
               flag.device(), ", expected float32 of shape [] on ", device);
    condition = {flag.data<float>(), wanted};
  }
  std::vector<View> targets, sources;
  for (size_t i = 0; i < to.size(); ++i) {
    WICK_CHECK(from[i].device() == device && from[i].strides() == to[i].strides(), name,
               ": a tensor of shape ", to[i].shape(), " has moved since this was made");
    targets.push_back(view_of(to[i]));
    sources.push_back(view_of(from[i]));
    to[i].impl()->storage->bump_version();
  }
  WICK_DISPATCH(device, lerp(targets.data(), sources.data(), static_cast<int64_t>(to.size()), keep,
                             condition));
}

}  // namespace

Ema::Ema(std::vector<Tensor> tensors, double decay) : tensors_(std::move(tensors)), decay_(decay) {
  WICK_CHECK(decay >= 0 && decay < 1, "ema: decay: got ", decay, ", expected a value in [0, 1)");
  WICK_CHECK(!tensors_.empty(), "ema: no tensors");
  check_tensors("ema", tensors_);
  const NoGrad no_grad;
  for (const Tensor& tensor : tensors_) {
    WICK_CHECK(is_floating(tensor.dtype()), "ema: tensors must be floating: got ",
               to_string(tensor.dtype()));
    averages_.push_back(empty_like(tensor, tensor.dtype() == kFloat64 ? kFloat64 : kFloat32));
    averages_.back().copy_(tensor);
  }
}

void Ema::update(const Tensor& found_inf) {
  if (graph::is_tracing()) {
    std::vector<Tensor> read = {found_inf};
    read.insert(read.end(), tensors_.begin(), tensors_.end());
    const auto again = [this](const std::vector<Tensor>& given) {
      update(given[0]);
      return Tensor();
    };
    graph::host_call("ema.update", again, {}, read);
    return;
  }
  const NoGrad no_grad;
  lerp_all("ema", averages_, tensors_, decay_, found_inf, /*wanted=*/false);
}

StateDict Ema::state_dict() const {
  StateDict state;
  for (size_t i = 0; i < averages_.size(); ++i) state[concat("average.", i)] = averages_[i];
  return state;
}

void Ema::load_state_dict(const StateDict& state) {
  WICK_CHECK(state.size() == averages_.size(), "ema: load_state_dict: got ", state.size(),
             " averages, expected ", averages_.size());
  for (size_t i = 0; i < averages_.size(); ++i) {
    const auto found = state.find(concat("average.", i));
    WICK_CHECK(found != state.end(), "ema: load_state_dict: missing average.", i);
    WICK_CHECK(found->second.shape() == averages_[i].shape(), "ema: load_state_dict: average.", i,
               ": got shape ", found->second.shape(), ", expected ", averages_[i].shape());
  }
  const NoGrad no_grad;
  for (size_t i = 0; i < averages_.size(); ++i) {
    averages_[i].copy_(state.at(concat("average.", i)));
  }
}

Ema::Swap::Swap(Ema& ema) : ema_(ema) {
  const NoGrad no_grad;
  for (const Tensor& tensor : ema_.tensors_) weights_.push_back(tensor.detach().clone());
  for (size_t i = 0; i < weights_.size(); ++i) ema_.tensors_[i].copy_(ema_.averages_[i]);
}

Ema::Swap::~Swap() {
  const NoGrad no_grad;
  try {
    for (size_t i = 0; i < weights_.size(); ++i) ema_.tensors_[i].copy_(weights_[i]);
  } catch (const Error&) {  // of a broken device, as its next use will tell
  }
}

Rollback::Rollback(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {
  check_tensors("rollback", tensors_);
  const NoGrad no_grad;
  for (const Tensor& tensor : tensors_) {
    const bool words = size_of(tensor.dtype()) >= 4;
    WICK_CHECK(words, "rollback: tensors must have elements of 4 or 8 bytes: got ",
               to_string(tensor.dtype()));
    copies_.push_back(empty_like(tensor));
  }
  remember();
}

void Rollback::remember() {
  if (graph::is_tracing()) {
    const auto again = [this](const std::vector<Tensor>&) {
      remember();
      return Tensor();
    };
    graph::host_call("rollback.remember", again, {}, tensors_);
    return;
  }
  const NoGrad no_grad;
  lerp_all("rollback", copies_, tensors_, 0, {}, true);
}

void Rollback::restore(const Tensor& found_inf) {
  if (graph::is_tracing()) {
    std::vector<Tensor> changed = {found_inf};
    changed.insert(changed.end(), tensors_.begin(), tensors_.end());
    const auto again = [this](const std::vector<Tensor>& given) {
      restore(given[0]);
      return Tensor();
    };
    graph::host_call("rollback.restore", again, {}, changed);
    return;
  }
  const NoGrad no_grad;
  lerp_all("rollback", tensors_, copies_, 0, found_inf, /*wanted=*/true);
}

}  // namespace wick::optim
