#include "wick/train/recipe.h"

#include <charconv>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "wick/core/base/parallel.h"
#include "wick/train/device.h"

namespace wick::train {

namespace {

constexpr double kMostCount = 1e15;

OptionFields loss_fields(Recipe& recipe) {
  return {OptionField("label_smoothing", &recipe.label_smoothing,
                      "share of the target spread over all classes")
              .between(0, 1)
              .lasting()};
}

template <class Part>
void check_part(const Part& part) {
  Part checked = part;
  check(fields(checked));
}

}  // namespace

OptionFields fields(LoadingOptions& options) {
  return {
      OptionField("batch_size", &options.batch_size, "images per step, of all ranks together")
          .basic()
          .between(1, 1e6)
          .lasting(),
      OptionField("workers", &options.workers,
                  "threads that load data (0: none beside the main one), or auto: as many as are "
                  "measured to be needed")
          .between(0, 256)
          .or_word("auto")
          .per_rank(),
      OptionField("prefetch_factor", &options.prefetch_factor,
                  "batches that each worker loads ahead (default: 2)")
          .between(1, 1024),
      OptionField("data_timeout", &options.timeout,
                  "seconds to wait for a batch before giving up (0: for ever)")
          .between(0, 1e9),
      OptionField("on_bad_sample", &options.on_bad_sample,
                  "what becomes of images that cannot be read (skip: they are counted)")
          .one_of({"fail", "skip"}),
  };
}

data::DataLoaderOptions loader_options(const LoadingOptions& options, Device device, int64_t seed) {
  data::DataLoaderOptions loading;
  loading.seed = static_cast<uint64_t>(seed);  // so that nothing is drawn for it
  loading.batch_size = *options.batch_size;
  loading.num_workers = static_cast<int>(options.workers.value_or(data::kAuto));
  if (loading.num_workers != 0) loading.timeout = options.timeout;
  if (options.prefetch_factor) {
    require(loading.num_workers != 0, "prefetch_factor",
            "not with workers 0, which load nothing "
            "ahead");
    loading.prefetch_factor = static_cast<int>(*options.prefetch_factor);
  }
  loading.pin_memory = device.is_cuda();
  if (options.on_bad_sample == "skip") loading.on_error = data::OnError::kSkip;
  return loading;
}

OptionFields fields(MemoryOptions& options) {
  return {
      OptionField("checkpoint_activations", &options.checkpoint_activations,
                  "recompute activations in backward: off, on or budget=SIZE, what a step may hold "
                  "beside weights and gradients (600MB)"),
      OptionField("memory_history", &options.history,
                  "write what memory was asked for to memory.pickle, for pytorch.org/memory_viz"),
  };
}

std::optional<int64_t> activation_budget(const MemoryOptions& options) {
  constexpr const char* kOption = "checkpoint_activations";
  constexpr std::string_view kPrefix = "budget=";
  const std::string& word = options.checkpoint_activations;
  if (word.starts_with(kPrefix)) return parse_bytes(kOption, word.substr(kPrefix.size()));
  require(word == "off" || word == "on", kOption, "unknown value: got \"", word.substr(0, 80),
          "\", expected off, on or budget=SIZE");
  return {};
}

OptionFields fields(RunOptions& options) {
  return {
      OptionField("device", &options.device, "auto, cpu, cuda or cuda:N").basic().per_rank(),
      OptionField("epochs", &options.epochs, "passes over the training data")
          .basic()
          .between(1, 1e9),
      OptionField("max_steps", &options.max_steps,
                  "end after this many steps of the whole run, then evaluate")
          .between(1, kMostCount),
      OptionField("log_every", &options.log_every, "steps between lines of metrics.jsonl")
          .between(1, kMostCount),
      OptionField("eval_every", &options.eval_every,
                  "epochs between evaluations, of which one is at the end (0: none at all)")
          .between(0, kMostCount),
      OptionField("eval_every_steps", &options.eval_every_steps,
                  "steps between evaluations within an epoch, beside those of eval_every")
          .between(1, kMostCount),
      OptionField("checkpoint_every", &options.checkpoint_every,
                  "steps between checkpoints within an epoch, or minutes as in 15min (each epoch's "
                  "end has one anyway)"),
      OptionField("keep_best", &options.keep_best,
                  "keep the checkpoint of the epoch with the lowest test loss, beside the newest "
                  "two"),
      OptionField(
          "on_failed_save", &options.on_failed_save,
          "what becomes of a run that cannot write a checkpoint (go-on: it tries again, and "
          "fails at its end)")
          .one_of({"go-on", "fail"}),
      OptionField("detect_anomaly", &options.detect_anomaly,
                  "end with the name of the op and module where NaN first appears (slow)"),
      OptionField("nvtx", &options.nvtx,
                  "mark modules and operations as NVTX ranges, which Nsight Systems shows"),
      OptionField("threads", &options.threads, "threads that compute, on each rank")
          .between(1, 1024)
          .per_rank(),
      OptionField("seed", &options.seed, "what all random numbers follow from")
          .between(0, 9e18)
          .lasting(),
      OptionField("run_dir", &options.dir, "folder for all that the run writes").basic().per_rank(),
      OptionField("resume", &options.resume, "go on from the run folder's newest checkpoint")
          .basic(),
  };
}

OptionFields fields(RunRecord& record) {
  return {
      OptionField("world_size", &record.world_size, "ranks that train together")
          .between(1, kMostCount),
      OptionField("data_fingerprint", &record.data, "hash of the data's size and some samples"),
  };
}

SaveInterval parse_interval(const std::string& text) {
  if (text.empty()) return {};
  constexpr std::string_view kMinutes = "min";
  const bool is_time = text.ends_with(kMinutes);
  const std::string digits = text.substr(0, text.size() - (is_time ? kMinutes.size() : 0));
  double number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool is_good = error == std::errc() && end == digits.data() + digits.size() && number > 0 &&
                       number <= kMostCount && (is_time || number == std::floor(number));
  require(is_good, "checkpoint_every", "got \"", text.substr(0, 80),
          "\", expected steps, as in 500, or minutes, as in 15min");
  if (is_time) return {.seconds = 60 * number};
  return {.steps = static_cast<int64_t>(number)};
}

std::vector<OptionGroup> groups(Recipe& recipe) {
  OptionFields data = fields(recipe.data);
  for (OptionField& field : fields(recipe.mix)) data.push_back(std::move(field));
  OptionFields step = loss_fields(recipe);
  for (OptionField& field : fields(recipe.step)) step.push_back(std::move(field));
  return {{"Model", fields(recipe.model)},
          {"Data", std::move(data)},
          {"Loading", fields(recipe.loading)},
          {"Optimizer", fields(recipe.optimizer)},
          {"Learning rate", fields(recipe.schedule)},
          {"Step", std::move(step)},
          {"Arithmetic", fields(recipe.arithmetic)},
          {"Memory", fields(recipe.memory)},
          {"Run", fields(recipe.run)},
          {"Ranks", fields(recipe.ranks)}};
}

OptionFields fields(Recipe& recipe) {
  OptionFields all;
  for (OptionGroup& group : groups(recipe)) {
    for (OptionField& field : group.fields) all.push_back(std::move(field));
  }
  for (OptionField& field : fields(recipe.record)) all.push_back(std::move(field));
  return all;
}

void check(const Recipe& recipe) {
  check_part(recipe);  // names and ranges
  check(recipe.schedule);
  check(recipe.step);
  check_device_name(recipe.run.device);
  activation_budget(recipe.memory);
  parse_interval(recipe.run.checkpoint_every);
  require(!recipe.run.keep_best || recipe.run.eval_every > 0, "keep_best",
          "not with eval_every 0, by which nothing is evaluated");
  require(recipe.schedule.name != "plateau" || recipe.run.eval_every > 0, "eval_every",
          "got 0, expected 1 or more with schedule plateau");
  require(!recipe.ranks.zero || is_elementwise(recipe.optimizer.name), "zero",
          "not with optimizer ", recipe.optimizer.name, ", which needs norms of whole parameters");
  require(!recipe.run.eval_every_steps || recipe.run.eval_every > 0, "eval_every_steps",
          "not with eval_every 0, by which nothing is evaluated");
  require(!recipe.step.clip_value || !recipe.ranks.zero, "clip_value",
          "not with zero, whose ranks have parts of gradients");
  require(!recipe.step.cuda_graph || !recipe.run.detect_anomaly, "cuda_graph",
          "not with detect_anomaly");
  require(recipe.step.compile == "off" || !recipe.run.detect_anomaly, "compile",
          "not with detect_anomaly");
  require(!recipe.run.resume || !recipe.run.dir.empty(), "resume",
          "needs run_dir, the folder of the run to go on with");
  check(recipe.data);
}

Recipe resolve(Recipe recipe) {
  const nn::ModelEntry& model = nn::find_model(recipe.model.name);
  if (!recipe.loading.batch_size) recipe.loading.batch_size = model.batch_size;
  const bool is_quick = recipe.data.name == "shapes10" || recipe.data.name == "mnist";
  if (!recipe.run.epochs) recipe.run.epochs = is_quick ? 5 : 10;
  const double warmup = recipe.schedule.warmup;
  require(warmup == 0 || warmup < static_cast<double>(*recipe.run.epochs), "warmup",
          "longer than the run: got ", warmup, " epochs, expected less than epochs, ",
          *recipe.run.epochs);
  const optim::OptimizerEntry& entry = optim::find_optimizer(recipe.optimizer.name);
  std::optional<double>& lr = recipe.optimizer.lr;
  std::optional<double>& weight_decay = recipe.optimizer.weight_decay;
  if (!lr) lr = entry.lr > 0 ? entry.lr : model.lr;
  if (!weight_decay) {
    weight_decay = entry.weight_decay > 0 ? entry.weight_decay : model.weight_decay;
  }
  if (!recipe.run.threads) recipe.run.threads = num_threads();
  return recipe;
}

std::string to_json(const Recipe& recipe) {
  Recipe written = recipe;
  return to_json(fields(written));
}

Recipe recipe_from_json(const std::string& path) {
  Recipe recipe;
  read_options(fields(recipe), path);
  return recipe;
}

std::vector<std::string> changes_since(const Recipe& now, const Recipe& before) {
  // Of no effect on what is computed.
  static const std::set<std::string> kIdle = {
      "data_dir",
      "max_image_pixels",
      "max_image_seconds",
      "workers",
      "data_timeout",
      "prefetch_factor",
      "checkpoint_activations",
      "memory_history",
      "keep_best",
      "on_failed_save",
      "log_every",
      "checkpoint_every",
      "eval_every_steps",
      "detect_anomaly",
      "run_dir",
      "resume",
      "offload_activations",
      "rank_timeout",
      "on_bad_sample",
      "nvtx",
  };
  Recipe a = now, b = before;
  const OptionFields fields_now = fields(a), fields_before = fields(b);
  std::vector<std::string> changes;
  for (size_t i = 0; i < fields_now.size(); ++i) {
    const OptionField& field = fields_now[i];
    const std::string value = field.as_json(), was = fields_before[i].as_json();
    if (value == was || kIdle.count(field.key()) != 0) continue;
    const bool is_of_rank = field.key() == "threads" || field.key() == "world_size";
    if (field.key() == "data_fingerprint") {
      if (!before.record.data.empty()) changes.emplace_back("the data is not what it was");
    } else if (!is_of_rank || was != "null") {
      const auto shown = [](const std::string& text) { return text == "null" ? "none" : text; };
      changes.push_back(concat(field.key() == "world_size" ? "ranks" : field.key(), ": was ",
                               shown(was), ", is ", shown(value)));
    }
  }
  return changes;
}

void check_resumes(const Recipe& now, const Recipe& before) {
  Recipe a = now, b = before;
  const OptionFields fields_now = fields(a), fields_before = fields(b);
  for (size_t i = 0; i < fields_now.size(); ++i) {
    if (!fields_now[i].is_lasting()) continue;
    const std::string value = fields_now[i].as_json(), was = fields_before[i].as_json();
    require(value == was, "resume", fields_now[i].key(), " cannot change: got ", value,
            ", the run has ", was);
  }
}

}  // namespace wick::train
