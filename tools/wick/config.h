#pragma once

#include <cstdint>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "wick/data/image_io.h"
#include "wick/tools/common/usage_error.h"

namespace CLI {
class App;
}

namespace wick::tool {

/// What --lr, and every other rate, must be within.
constexpr double kLeastLr = 1e-12, kMostLr = 1e6;

/// What --workers takes: a number, or "auto".
struct WorkerCount {
  std::optional<int64_t> number;  // none: auto
};
std::istream& operator>>(std::istream& in, WorkerCount& count);
std::ostream& operator<<(std::ostream& out, const WorkerCount& count);

/// What `wick train` can be told. Every member is a flag (--batch-size), a key of the configuration
/// file ("batch_size") and an environment variable (WICK_BATCH_SIZE); a flag outweighs a variable,
/// a variable the file. An unset optional is chosen to suit the model.
struct TrainConfig {
  std::string model = "resnet20";
  std::string data = "shapes10";
  std::string data_dir;
  std::string augment = "basic";
  double random_erasing = 0;
  double mixup = 0;
  double cutmix = 0;
  std::string device = "auto";
  std::optional<int64_t> epochs;
  std::optional<int64_t> max_steps;
  int64_t log_every = 1;
  int64_t eval_every = 1;
  std::optional<int64_t> checkpoint_every;
  std::optional<int64_t> batch_size;
  std::string optimizer = "adamw";
  std::optional<double> lr;
  std::string schedule = "onecycle";
  double warmup = 0;
  std::string schedule_epochs;
  std::optional<double> schedule_gamma;
  std::optional<double> schedule_power;
  std::optional<double> weight_decay;
  double label_smoothing = 0;
  std::string checkpoint_activations = "off";
  bool offload_activations = false;
  std::string amp = "off";
  std::optional<double> clip_norm;
  int64_t accumulate = 1;
  std::optional<double> ema;
  std::optional<int64_t> image_size;
  WorkerCount workers;
  double data_timeout = 120;
  std::string on_bad_sample = "fail";
  int64_t max_image_pixels = data::ImageLimits().pixels;
  double max_image_seconds = data::ImageLimits().seconds;
  bool detect_anomaly = false;
  std::optional<int64_t> threads;
  int64_t seed = 0;
  std::string run_dir;
  bool resume = false;
  bool sync_batch_norm = false;
  bool zero = false;
  double rank_timeout = 600;
  std::string backend = "auto";
  bool benchmark = false;
  bool deterministic = false;
  bool tf32 = false;
  bool cuda_graph = false;
  bool memory_history = false;
};

/// Gives `app` a flag for every member of `config`. Call apply_config_file after parsing.
void add_config_flags(CLI::App& app, TrainConfig& config);

/// Sets the members that neither a flag nor the environment has set from a JSON file. An unknown
/// key or a value of the wrong kind is a UsageError.
void apply_config_file(const CLI::App& app, const std::string& path, TrainConfig& config);

/// The bytes that "600MB", "1.5GiB" or "4096" says; a UsageError naming `flag` for anything else.
int64_t parse_bytes(const std::string& flag, const std::string& text);
/// The budget of --checkpoint-activations budget=SIZE in bytes; none for off and on.
std::optional<int64_t> activation_budget(const TrainConfig& config);

/// "--batch-size" for "batch_size".
std::string flag_name(std::string key);
/// UsageError, with a suggestion, unless `value` is one of those allowed.
void check_one_of(const char* key, const std::string& value,
                  const std::vector<std::string>& allowed);
/// UsageError unless all names are known and all texts are UTF-8.
void check_texts(const TrainConfig& config);
/// Checks values that need no data to be judged: names, ranges. Throws UsageError.
void check_config(const TrainConfig& config);

/// Checks what --data and --data-dir say, without a look at the files. Throws UsageError.
void check_data(const std::string& data, const std::string& data_dir);

nlohmann::ordered_json to_json(const TrainConfig& config);
TrainConfig config_from_json(const std::string& path);

}  // namespace wick::tool
