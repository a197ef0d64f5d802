#include "wick/train/trial.h"

#include "wick/core/ops/random.h"
#include "wick/core/random.h"

namespace wick::train {

data::Batch next_batch(data::Prefetcher& loader) {
  std::optional<data::Batch> batch = loader.next();
  if (!batch) batch = loader.next();  // of the next epoch
  if (!batch) throw Error(no_samples(loader));
  return std::move(*batch);
}

Trial::Trial(const Recipe& recipe)
    : classifier_(recipe),
      data_((classifier_.checkpoint_activations(), classifier_.train_data())),
      loader_(data::load_ahead(data_.train, data_.loading, device())),
      step_(classifier_.model(), optimizer(), classifier_.loss(), classifier_.step_options()) {}

data::Batch Trial::next_batch() { return train::next_batch(loader_); }

data::Batch Trial::prepared(const data::Batch& batch) {
  if (!data_.prepare) return batch;
  return data_.prepare(batch, loader_.epoch(), loader_.batch() - 1);
}

Tensor Trial::step_on(const data::Batch& batch) { return step_.take(prepared(batch)).loss; }

void Trial::step_on_noise(int64_t batch) {
  if (!noise_.defined() || noise_.size(0) != batch) {
    noise_ = noise_target_ = Tensor();
    noise_ = classifier_.noise(batch);
    noise_target_ = zeros({batch}, kInt64, device());
  }
  step_on({{noise_, noise_target_}});
}

void Trial::backward() {
  const data::Batch batch = prepared(next_batch());
  amp::GradScaler& scaler = step_.scaler();
  for (bool is_finite = false; !is_finite;) {  // the scale backs off until it is
    optimizer().zero_grad();
    step_.backpropagate(batch);
    if (!scaler.enabled()) return;
    scaler.unscale_(optimizer());
    is_finite = scaler.found_inf(optimizer()).item() == 0;
    scaler.update();
  }
}

Checkpoint Trial::state(int64_t step) {
  Checkpoint state;
  state.step = step;
  state.parts["weights"] = model().state_dict();
  state.parts["optimizer"] = optimizer().state_dict();
  if (step_.scaler().enabled()) state.parts["scaler"] = step_.scaler().state_dict();
  if (const optim::Ema* ema = step_.ema()) state.parts["ema"] = ema->state_dict();
  std::vector<int64_t> random;
  for (const RandomKey& key : random_states()) {
    random.push_back(static_cast<int64_t>(key.seed));
    random.push_back(static_cast<int64_t>(key.offset));
  }
  state.parts["position"] = {{"random", tensor<int64_t>(random)},
                             {"loader", tensor<int64_t>({loader_.epoch(), loader_.batch()})}};
  return state;
}

void Trial::load(const Checkpoint& state) {
  const auto part = [&](const char* name) -> const TensorMap& {
    const auto found = state.parts.find(name);
    WICK_CHECK(found != state.parts.end(), "trial: no ", name, " among the parts of its state");
    return found->second;
  };
  const auto numbers = [&](const char* name, size_t count) {
    const auto found = part("position").find(name);
    WICK_CHECK(found != part("position").end() && found->second.dtype() == kInt64 &&
                   found->second.numel() == static_cast<int64_t>(count),
               "trial: no ", name, " of ", count, " numbers in its state");
    return found->second.to_vector<int64_t>();
  };
  std::vector<RandomKey> random = random_states();
  const auto keys = numbers("random", 2 * random.size()), position = numbers("loader", 2);
  std::vector<double> rates;
  for (int g = 0; g < optimizer().num_groups(); ++g) rates.push_back(optimizer().lr(g));
  model().load_state_dict(part("weights"));
  optimizer().load_state_dict(part("optimizer"));
  for (int g = 0; g < optimizer().num_groups(); ++g) {
    optimizer().set_hyperparameter(g, "lr", rates[static_cast<size_t>(g)]);
  }
  if (step_.scaler().enabled()) step_.scaler().load_state_dict(part("scaler"));
  if (optim::Ema* ema = step_.ema()) ema->load_state_dict(part("ema"));
  for (size_t i = 0; i < random.size(); ++i) {
    random[i] = {static_cast<uint64_t>(keys[2 * i]), static_cast<uint64_t>(keys[2 * i + 1])};
  }
  set_random_states(random);
  loader_.seek(position[0], position[1]);
}

TrainingParts Trial::parts() {
  TrainingParts parts;
  parts.scaler = &step_.scaler();
  parts.ema = step_.ema();
  parts.rest = [this, epoch = loader_.epoch(), batch = loader_.batch()] {
    loader_.seek(epoch, batch);
  };
  return parts;
}

}  // namespace wick::train
