#include "wick/train/nan_finder.h"

#include "wick/core/anomaly.h"
#include "wick/core/checkpoint.h"
#include "wick/train/classifier.h"
#include "wick/train/run_folder.h"

namespace wick::train {

NanSearch find_first_nan(const std::string& folder, Recipe recipe) {
  const RunFolder run = RunFolder::of_other(folder);
  const std::optional<Checkpoint> checkpoint = CheckpointStore(run.checkpoints()).load_newest();
  WICK_CHECK(checkpoint, "find_first_nan: no checkpoint to begin from: got the run ", folder);
  recipe.run.detect_anomaly = true;
  recipe.run.resume = true;  // what the run has no use of was told when it began
  recipe.step.cuda_graph = false;
  recipe.step.compile = "off";  // graphs do not look at their results
  run.load_plans();
  Classifier parts(recipe);
  parts.checkpoint_activations();
  TrainerOptions options = parts.trainer_options("");
  options.eval_every = 0;
  options.eval_every_steps.reset();
  Trainer trainer(parts.model(), parts.optimizer(), parts.loss(), parts.train_data(), options);
  trainer.start_from(*checkpoint);
  NanSearch search{.first_step = trainer.step() + 1, .last_step = trainer.step()};
  try {
    trainer.run();
    search.last_step = trainer.step();
  } catch (const AnomalyError& error) {
    const int64_t before = trainer.step(), length = trainer.steps_per_epoch();
    search.last_step = before + 1;
    search.found = {before + 1, before / length + 1, before % length + 1, error.what()};
  } catch (const Diverged& error) {
    const int64_t last = trainer.step(), length = trainer.steps_per_epoch();
    search.last_step = last;
    search.found = {last, (last - 1) / length + 1, (last - 1) % length + 1, error.what()};
  }
  return search;
}

}  // namespace wick::train
