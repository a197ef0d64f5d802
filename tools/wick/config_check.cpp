#include <algorithm>

#include "wick/core/base/device.h"
#include "wick/data/catalog.h"
#include "wick/data/fetch.h"
#include "wick/tools/common/number_flag.h"
#include "wick/tools/wick/classification.h"
#include "wick/tools/wick/config.h"
#include "wick/tools/wick/setup.h"
#include "wick/train/invalid_option.h"

namespace wick::tool {

namespace {

template <class T>
void check_range(const char* key, const T& value, double low, double high) {
  const double v = static_cast<double>(value);
  if (v >= low && v <= high) return;
  throw UsageError(
      concat(flag_name(key), ": out of range: got ", value, ", expected ", low, " to ", high));
}
template <class T>
void check_range(const char* key, const std::optional<T>& value, double low, double high) {
  if (value) check_range(key, *value, low, high);
}

}  // namespace

std::optional<int64_t> activation_budget(const TrainConfig& config) {
  constexpr const char* kFlag = "--checkpoint-activations";
  constexpr std::string_view kPrefix = "budget=";
  const std::string& word = config.checkpoint_activations;
  if (word.starts_with(kPrefix)) return parse_bytes(kFlag, word.substr(kPrefix.size()));
  if (word == "off" || word == "on") return {};
  throw UsageError(concat(kFlag, ": unknown value: got \"", word.substr(0, kMaxShown),
                          "\", expected off, on or budget=SIZE"));
}

void check_config(const TrainConfig& config) {
  check_texts(config);
  check_range("warmup", config.warmup, 0, 1e9);
  check_range("schedule_gamma", config.schedule_gamma, 1e-6, 1 - 1e-6);
  check_range("schedule_power", config.schedule_power, 0.01, 100);
  try {
    train::check(schedule_options(config));
  } catch (const train::InvalidOption& error) {
    throw UsageError(concat(flag_name(error.option()), ": ", error.problem()));
  }
  if (config.schedule == "plateau" && config.eval_every == 0) {
    throw UsageError("--eval-every: got 0, expected 1 or more with --schedule plateau");
  }
  if (config.zero && !is_elementwise(config.optimizer)) {
    throw UsageError(concat("--zero: not with --optimizer ", config.optimizer,
                            ", which needs norms of whole parameters"));
  }
  activation_budget(config);
  const char* const uncaptured = config.detect_anomaly        ? "--detect-anomaly"
                                 : config.offload_activations ? "--offload-activations"
                                                              : nullptr;
  if (config.cuda_graph && uncaptured != nullptr) {
    throw UsageError(concat("--cuda-graph: not with ", uncaptured));
  }
  check_one_of("amp", config.amp, {"off", "bf16", "fp16"});
  if (config.device != "auto") {
    try {
      parse_device(config.device);
    } catch (const Error&) {
      throw UsageError(
          concat("--device: got \"", config.device, "\", expected auto, cpu, cuda or cuda:N"));
    }
  }
  constexpr double kMost = 1e15;
  check_range("epochs", config.epochs, 1, 1e9);
  check_range("max_steps", config.max_steps, 1, kMost);
  check_range("log_every", config.log_every, 1, kMost);
  check_range("eval_every", config.eval_every, 0, kMost);
  check_range("checkpoint_every", config.checkpoint_every, 1, kMost);
  check_range("batch_size", config.batch_size, 1, 1e6);
  check_range("lr", config.lr, kLeastLr, kMostLr);
  check_range("weight_decay", config.weight_decay, 0, 1e6);
  check_range("random_erasing", config.random_erasing, 0, 1);
  if (config.mixup != 0) check_range("mixup", config.mixup, 1e-4, 1e3);
  if (config.cutmix != 0) check_range("cutmix", config.cutmix, 1e-4, 1e3);
  check_range("label_smoothing", config.label_smoothing, 0, 1);
  check_range("clip_norm", config.clip_norm, 0, 1e15);
  check_range("accumulate", config.accumulate, 1, 1e6);
  check_range("ema", config.ema, 0, 0.9999999);
  check_range("image_size", config.image_size, 8, 4096);
  check_range("workers", config.workers.number, 0, 256);
  check_range("data_timeout", config.data_timeout, 0, 1e9);
  check_one_of("on_bad_sample", config.on_bad_sample, {"fail", "skip"});
  check_range("max_image_pixels", config.max_image_pixels, 1, 1e12);
  check_range("max_image_seconds", config.max_image_seconds, 0, 1e9);
  check_range("threads", config.threads, 1, 1024);
  check_range("seed", config.seed, 0, 9e18);
  check_range("rank_timeout", config.rank_timeout, 0.1, 1e6);
  check_one_of("backend", config.backend, {"auto", "nccl", "gloo"});
  if (config.resume && config.run_dir.empty()) {
    throw UsageError("--resume: needs --run-dir, the folder of the run to go on with");
  }
  check_data(config.data, config.data_dir);
}

void check_data(const std::string& data, const std::string& data_dir) {
  check_one_of("data", data, data::data_names());
  if (!data::find_data(data).needs_files || !data_dir.empty() ||
      !data::fetched_folder(data).empty())
    return;
  const std::vector<std::string>& known = data::fetch_names();
  const bool known_place = std::find(known.begin(), known.end(), data) != known.end();
  throw UsageError(concat(
      "--data ", data, ": needs --data-dir, ",
      data == "packed" ? "the file that wick data pack made" : "the folder that holds its files",
      known_place ? concat(", or first: wick data fetch ", data) : ""));
}

}  // namespace wick::tool
