#include "wick/optim/training_snapshot.h"

#include <cstring>

#include "wick/core/autograd.h"
#include "wick/core/random.h"

namespace wick::optim {

TrainingSnapshot::TrainingSnapshot(nn::Module& model, Optimizer& optimizer)
    : model_(model), optimizer_(optimizer), random_(random_states()) {
  WICK_CHECK(optimizer.sharding() == nullptr,
             "training snapshot: the optimizer's state is shared out among ranks");
  model.apply([&](const std::string&, nn::Module& part) {
    training_.emplace_back(&part, part.is_training());
  });
  for (const auto& [name, tensor] : model.state_dict()) weights_.push_back(copy(name, tensor));
  for (const auto& [name, tensor] : optimizer.state_dict()) state_.push_back(copy(name, tensor));
}

TrainingSnapshot::HostCopy TrainingSnapshot::copy(const std::string& name, const Tensor& tensor) {
  const Tensor host = tensor.detach().cpu().contiguous();
  HostCopy copy{name, host.shape(), host.dtype(), {}};
  copy.bytes.resize(static_cast<size_t>(host.numel() * size_of(host.dtype())));
  if (!copy.bytes.empty()) std::memcpy(copy.bytes.data(), host.raw_data(), copy.bytes.size());
  return copy;
}

Tensor TrainingSnapshot::view(const HostCopy& copy) {
  return from_blob(const_cast<char*>(copy.bytes.data()), copy.shape, copy.dtype);
}

void TrainingSnapshot::restore() const {
  model_.zero_grad();
  TensorMap weights;
  for (const HostCopy& saved : weights_) weights[saved.name] = view(saved);
  model_.load_state_dict(weights);
  StateDict options, state;
  for (const HostCopy& saved : state_) {
    state[saved.name] = view(saved);
    if (saved.name.starts_with("group.")) options[saved.name] = view(saved);
  }
  optimizer_.load_state_dict(options);  // lets go of the state there is, before the other is made
  optimizer_.load_state_dict(state);
  set_random_states(random_);
  // From the model to its parts, each of which sets its own.
  for (const auto& [part, is_training] : training_) part->train(is_training);
}

void TrainingSnapshot::try_restore() const noexcept {
  try {
    restore();
  } catch (const std::exception&) {
  }
}

}  // namespace wick::optim
