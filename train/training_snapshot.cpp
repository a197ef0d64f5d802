#include "wick/train/training_snapshot.h"

#include <cstring>

#include "wick/core/autograd.h"
#include "wick/core/random.h"

namespace wick::train {

TrainingSnapshot::TrainingSnapshot(nn::Module& model, optim::Optimizer& optimizer,
                                   TrainingParts parts)
    : model_(model), optimizer_(optimizer), parts_(std::move(parts)), random_(random_states()) {
  WICK_CHECK(optimizer.sharding() == nullptr,
             "training snapshot: the optimizer's state is shared out among ranks");
  if (parts_.counted != nullptr) {
    parts_.counted->settle();
    parts_.schedule = &parts_.counted->schedule();
  }
  model.apply([&](const std::string&, nn::Module& part) {
    training_.emplace_back(&part, part.is_training());
  });
  weights_ = copy(model.state_dict());
  state_ = copy(optimizer.state_dict());
  if (parts_.scaler != nullptr) scaler_ = copy(parts_.scaler->state_dict());
  if (parts_.ema != nullptr) ema_ = copy(parts_.ema->state_dict());
  if (parts_.schedule != nullptr) schedule_ = copy(parts_.schedule->state_dict());
}

std::vector<TrainingSnapshot::HostCopy> TrainingSnapshot::copy(const optim::StateDict& state) {
  std::vector<HostCopy> copies;
  for (const auto& [name, tensor] : state) {
    const Tensor host = tensor.detach().cpu().contiguous();
    HostCopy& copy = copies.emplace_back(HostCopy{name, host.shape(), host.dtype(), {}});
    copy.bytes.resize(static_cast<size_t>(host.numel() * size_of(host.dtype())));
    if (!copy.bytes.empty()) std::memcpy(copy.bytes.data(), host.raw_data(), copy.bytes.size());
  }
  return copies;
}

optim::StateDict TrainingSnapshot::view(const std::vector<HostCopy>& copies) {
  optim::StateDict state;
  for (const HostCopy& copy : copies) {
    state[copy.name] = from_blob(const_cast<char*>(copy.bytes.data()), copy.shape, copy.dtype);
  }
  return state;
}

void TrainingSnapshot::restore() const {
  model_.zero_grad();
  model_.load_state_dict(view(weights_));
  if (parts_.schedule != nullptr) parts_.schedule->load_state_dict(view(schedule_));
  if (parts_.counted != nullptr) parts_.counted->count_from_schedule();
  // The options first, which lets go of the state there is before the other is made (but not of
  // what a captured step works on).
  const optim::StateDict state = view(state_);
  optim::StateDict options;
  for (const auto& [name, tensor] : state) {
    if (name.starts_with("group.")) options[name] = tensor;
  }
  optimizer_.load_state_dict(options);
  optimizer_.load_state_dict(state);
  if (parts_.scaler != nullptr) parts_.scaler->load_state_dict(view(scaler_));
  if (parts_.ema != nullptr) parts_.ema->load_state_dict(view(ema_));
  set_random_states(random_);
  // From the model to its parts, each of which sets its own.
  for (const auto& [part, is_training] : training_) part->train(is_training);
  if (parts_.rest) parts_.rest();
}

void TrainingSnapshot::try_restore() const noexcept {
  try {
    restore();
  } catch (const std::exception&) {
  }
}

}  // namespace wick::train
