// What a trainer writes beside metrics: checkpoints, plans, the final weights.
#include <set>

#include "wick/core/file.h"
#include "wick/core/plans.h"
#include "wick/core/serialize.h"
#include "wick/train/detail/checkpoint_writer.h"
#include "wick/train/trainer.h"

namespace wick::train {

// What is computed after a checkpoint goes by the plans that are there with it: of all ranks, or
// there is no checkpoint.
bool Trainer::save_plans() {
  if (!benchmark()) return true;
  std::string problem;
  try {
    plans_save(RunFolder::of_other(options_.folder).plan_file(options_.ranks.rank()));
  } catch (const Error& error) {
    problem = error.what();
  }
  if (options_.ranks.sum({problem.empty() ? 0.0 : 1.0})[0] == 0) return true;
  unsaved_ = problem.empty() ? "plans: another rank could not write its own" : problem;
  return false;
}

// Rank 0's is whole.
Checkpoint Trainer::state() {
  Checkpoint checkpoint;
  checkpoint.step = steps_;
  // All ranks have a part of a shared one.
  if (folder_ || options_.zero) checkpoint.parts["optimizer"] = optimizer_->state_dict();
  if (!folder_) return checkpoint;
  checkpoint.parts["weights"] = model_->state_dict();
  if (schedule_.has_state()) checkpoint.parts["schedule"] = schedule_.state_dict();
  const amp::GradScaler& scaler = step_.scaler();
  if (scaler.enabled()) checkpoint.parts["scaler"] = scaler.state_dict();
  if (const optim::Ema* ema = step_.ema()) checkpoint.parts["ema"] = ema->state_dict();
  checkpoint.parts["position"] = position();
  return checkpoint;
}

void Trainer::save_checkpoint(bool is_last) {
  schedule_.settle();
  if (options_.folder.empty()) return;
  if (folder_) {
    folder_->follow();
    options_.folder = folder_->path();
  }
  wait_for_save();
  is_last_save_ = is_last;
  if (!save_plans()) return could_not_save();
  try {
    const Checkpoint checkpoint = state();
    if (!folder_) return;
    std::set<int64_t> spared;
    if (best_) spared.insert(best_->first);
    writer_->start(folder_->checkpoints(), checkpoint, spared);
    unsaved_.clear();
    retry_at_.reset();
  } catch (const OutOfMemory& error) {
    if (options_.zero) throw;  // the other ranks wait for this one's part
    unsaved_ = concat("checkpoint: no memory for a copy: ", error.what());
    could_not_save();
  }
  last_save_ = Clock::now();
}

bool Trainer::wants_to_save() const {
  if (!folder_) return false;
  const auto now = Clock::now();
  const std::chrono::duration<double> since = now - last_save_;
  return (options_.checkpoint_seconds && since.count() >= *options_.checkpoint_seconds) ||
         (retry_at_ && now >= *retry_at_);
}

void Trainer::tell_of_saves() {
  if (!writer_) return;
  for (const CheckpointWriter::Written& written : writer_->take_written()) {
    if (written.broken) std::rethrow_exception(written.broken);
    unsaved_ = written.error;
    if (!unsaved_.empty()) {
      if (best_ && best_->first == written.step) best_.reset();
      could_not_save();
    } else if (options_.on_checkpoint) {
      options_.on_checkpoint(written.step, written.path);
    }
  }
}

void Trainer::could_not_save() {
  const std::chrono::duration<double> pause(options_.retry_seconds);
  retry_at_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(pause);
  tell_of_failure(unsaved_);
}

void Trainer::tell_of_failure(const std::string& problem) {
  if (options_.stop_on_failed_save || is_last_save_) throw FileError(problem);
  if (options_.on_failed_save && folder_) options_.on_failed_save(problem);
}

void Trainer::wait_for_save() {
  if (writer_) writer_->wait();
  tell_of_saves();
}

void Trainer::save_last_checkpoint() {
  save_checkpoint(/*is_last=*/true);
  wait_for_save();
  if (folder_) folder_->flush_metrics();
  is_last_save_ = false;
}

void Trainer::save_weights() {
  if (!folder_) return;
  folder_->follow();
  std::optional<optim::Ema::Swap> averages;
  if (step_.ema() != nullptr) averages.emplace(*step_.ema());
  save_safetensors(folder_->weights_file(), model_->state_dict());
}

}  // namespace wick::train
