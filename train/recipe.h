#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "wick/core/options.h"
#include "wick/data/batch_mix.h"
#include "wick/data/catalog.h"
#include "wick/data/loader.h"
#include "wick/nn/models/registry.h"
#include "wick/train/arithmetic.h"
#include "wick/train/optimizers.h"
#include "wick/train/ranks.h"
#include "wick/train/run_schedule.h"
#include "wick/train/step.h"

namespace wick::train {

/// How samples are loaded.
struct LoadingOptions {
  std::optional<int64_t> batch_size = {};  // samples of a step, on all ranks; none: the model's
  std::optional<int64_t> workers = {};     // none: as many as are measured to be needed
  std::optional<int64_t> prefetch_factor = {};  // batches that each worker loads ahead
  double timeout = 120;                         // seconds to wait for a batch; 0: for ever
  std::string on_bad_sample = "fail";           // or skip
};
OptionFields fields(LoadingOptions& options);
/// `options` (with a batch size) for a loader whose batches go to `device`, drawn from `seed`.
data::DataLoaderOptions loader_options(const LoadingOptions& options, Device device, int64_t seed);

/// What is kept for backward, and what is noted about memory.
struct MemoryOptions {
  std::string checkpoint_activations = "off";  // off, on, or budget=SIZE: what a step may hold
  bool history = false;                        // requests for memory are recorded
};
OptionFields fields(MemoryOptions& options);
/// The SIZE of `checkpoint_activations` in bytes; none for off and on. InvalidOption for any other
/// word.
std::optional<int64_t> activation_budget(const MemoryOptions& options);

/// How often a run saves, by steps or by time.
struct SaveInterval {
  std::optional<int64_t> steps = {};
  std::optional<double> seconds = {};
};

/// How long a run is, where it runs, and what it writes.
struct RunOptions {
  std::string device = "auto";  // as choose_device takes it
  std::optional<int64_t> epochs = {}, max_steps = {};
  int64_t log_every = 1, eval_every = 1;
  std::optional<int64_t> eval_every_steps = {};
  std::string checkpoint_every = {};     // as parse_interval takes it; empty: at the ends of epochs
  bool keep_best = false;                // the checkpoint with the lowest test loss is kept
  std::string on_failed_save = "go-on";  // or fail
  bool detect_anomaly = false;
  bool nvtx = false;
  std::optional<int64_t> threads = {};  // none: all that parallel_for uses by itself
  int64_t seed = 0;
  std::string dir = {};
  bool resume = false;
};
OptionFields fields(RunOptions& options);
/// What "500" (steps) or "15min" says; none of either for an empty text. InvalidOption for any
/// other word.
SaveInterval parse_interval(const std::string& text);

/// What a run notes of itself in its config.json, for those who go on with it: no flags.
struct RunRecord {
  std::optional<int64_t> world_size = {};  // ranks that train together
  std::string data = {};                   // data::fingerprint
};
OptionFields fields(RunRecord& record);

/// A classifier's run, each part of it by name: what `wick train` can be told. An option that is
/// open is chosen to suit the model and the data, by resolve().
struct Recipe {
  nn::ModelOptions model = {};
  data::DataOptions data = {};
  data::BatchMixOptions mix = {};
  LoadingOptions loading = {};
  OptimizerOptions optimizer = {};
  ScheduleOptions schedule = {.name = "onecycle"};
  double label_smoothing = 0;
  StepOptions step = {};
  ArithmeticOptions arithmetic = {};
  MemoryOptions memory = {};
  RunOptions run = {};
  RankOptions ranks = {};
  RunRecord record = {};
};

/// Options that belong together.
struct OptionGroup {
  const char* title;
  OptionFields fields;
};

/// Every option of a recipe, once.
std::vector<OptionGroup> groups(Recipe& recipe);
/// These and what a run notes of itself: all of config.json.
OptionFields fields(Recipe& recipe);

/// InvalidOption unless all values are right and go together, as far as can be said without a look
/// at the data.
void check(const Recipe& recipe);
/// `recipe` with every open option chosen. InvalidOption if the warm-up lasts as long as the run.
Recipe resolve(Recipe recipe);

std::string to_json(const Recipe& recipe);
/// Reads what to_json wrote, or a part of it. OptionError as of read_options.
Recipe recipe_from_json(const std::string& path);

/// InvalidOption if `now` differs from `before` in an option that a resumed run cannot change.
void check_resumes(const Recipe& now, const Recipe& before);
/// What of `now` makes a resumed run compute other bytes than the run `before` would have, a
/// sentence each: "epochs: was 3, is 5". What `before` does not say counts as the same.
std::vector<std::string> changes_since(const Recipe& now, const Recipe& before);

}  // namespace wick::train
