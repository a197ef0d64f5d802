#include "wick/train/trial.h"

#include "wick/core/ops/random.h"

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
