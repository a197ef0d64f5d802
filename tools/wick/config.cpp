#include "wick/tools/wick/config.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <tuple>
#include <vector>

#include "wick/core/base/check.h"
#include "wick/core/file.h"
#include "wick/data/catalog.h"
#include "wick/nn/models/registry.h"
#include "wick/tools/common/number_flag.h"
#include "wick/tools/common/suggest.h"
#include "wick/train/optimizers.h"
#include "wick/train/run_schedule.h"

namespace wick::tool {

namespace {

using nlohmann::json;
constexpr uint64_t kMaxConfigBytes = 1 << 20;
constexpr int kMaxConfigDepth = 16;
constexpr const char* kEmaDecay = "0.999";

template <class T>
struct ConfigField {
  const char* key;
  T TrainConfig::*member;
  const char* help;
  std::vector<std::string> (*names)();  // that the value may be; null: it is no name
};
template <class T>
constexpr ConfigField<T> config_field(const char* key, T TrainConfig::*member, const char* help,
                                      std::vector<std::string> (*names)() = nullptr) {
  return {key, member, help, names};
}

// "a, b or c"
std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    text += concat(i == 0 ? "" : i + 1 == names.size() ? " or " : ", ", names[i]);
  }
  return text;
}

template <class T>
std::string help_of(const ConfigField<T>& field) {
  if (field.names == nullptr) return field.help;
  return concat(field.help, *field.help == 0 ? "" : ": ", listed(field.names()));
}

constexpr auto kFields = std::tuple{
    config_field("model", &TrainConfig::model, "", nn::model_names),
    config_field("data", &TrainConfig::data, "", data::data_names),
    config_field(
        "data_dir", &TrainConfig::data_dir,
        "folder that holds the data's files, or its parent (of packed: the file); not needed after "
        "wick data fetch"),
    config_field("augment", &TrainConfig::augment,
                 "random changes of training images (basic: crop and flip; color and randaugment "
                 "come beside basic)",
                 data::augmentation_names),
    config_field("random_erasing", &TrainConfig::random_erasing,
                 "chance that a rectangle of a training image is erased"),
    config_field("mixup", &TrainConfig::mixup,
                 "mix training images and labels with shares of Beta(A, A), such as 0.2 (0: off)"),
    config_field(
        "cutmix", &TrainConfig::cutmix,
        "paste rectangles of other training images, of shares of Beta(A, A), such as 1 (0: "
        "off)"),
    config_field("device", &TrainConfig::device, "auto, cpu, cuda or cuda:N"),
    config_field("epochs", &TrainConfig::epochs, "passes over the training data"),
    config_field("max_steps", &TrainConfig::max_steps,
                 "end after this many steps of the whole run, then evaluate"),
    config_field("log_every", &TrainConfig::log_every, "steps between lines of metrics.jsonl"),
    config_field("eval_every", &TrainConfig::eval_every,
                 "epochs between evaluations, of which one is at the end (0: none at all)"),
    config_field("checkpoint_every", &TrainConfig::checkpoint_every,
                 "steps between checkpoints within an epoch (each epoch's end has one anyway)"),
    config_field("batch_size", &TrainConfig::batch_size, "images per step, of all ranks together"),
    config_field("optimizer", &TrainConfig::optimizer, "", train::optimizer_names),
    config_field("lr", &TrainConfig::lr, "peak learning rate"),
    config_field("schedule", &TrainConfig::schedule, "course of the learning rate",
                 train::schedule_names),
    config_field("warmup", &TrainConfig::warmup,
                 "epochs (0.5 is fine) in which the rate first rises to its peak: in a straight "
                 "line, of onecycle its own rise"),
    config_field("schedule_epochs", &TrainConfig::schedule_epochs,
                 "epochs of step from cut to cut, of a cycle of cyclic (a third of the run), at "
                 "which multistep cuts, as 30,60 (after 1/2 and 3/4), without a better test loss "
                 "that plateau bears (2)"),
    config_field("schedule_gamma", &TrainConfig::schedule_gamma,
                 "factor of a cut of step, multistep and plateau (0.1), of each epoch of "
                 "exponential (such that 1 % is left at the end)"),
    config_field("schedule_power", &TrainConfig::schedule_power, "power of polynomial (2)"),
    config_field(
        "weight_decay", &TrainConfig::weight_decay,
        "weight decay: times the rate off the weights, as in AdamW; of adam, sgd, lars and "
        "novograd part of the gradient"),
    config_field("label_smoothing", &TrainConfig::label_smoothing,
                 "share of the target spread over all classes"),
    config_field("checkpoint_activations", &TrainConfig::checkpoint_activations,
                 "make activations again in backward: off, on or budget=SIZE, what a step may hold "
                 "beside weights and gradients (600MB)"),
    config_field("offload_activations", &TrainConfig::offload_activations,
                 "keep activations of a GPU in pinned host memory until backward"),
    config_field("amp", &TrainConfig::amp, "mixed precision: off, bf16 or fp16"),
    config_field("clip_norm", &TrainConfig::clip_norm, "norm that gradients are clipped to"),
    config_field("accumulate", &TrainConfig::accumulate,
                 "pieces that a step's images are taken in, to need as much less memory"),
    config_field("ema", &TrainConfig::ema,
                 "decay of averaged weights, which are evaluated and saved"),
    config_field("image_size", &TrainConfig::image_size,
                 "pixels of a crop of photographs (imagefolder, and what was packed from "
                 "one): 224 unless told"),
    config_field("workers", &TrainConfig::workers,
                 "threads that load data (0: none beside the main one), or auto: as many as are "
                 "measured to be needed"),
    config_field("data_timeout", &TrainConfig::data_timeout,
                 "seconds to wait for a batch before giving up (0: for ever)"),
    config_field("on_bad_sample", &TrainConfig::on_bad_sample,
                 "what becomes of images that cannot be read: fail, or skip and count them"),
    config_field("max_image_pixels", &TrainConfig::max_image_pixels,
                 "images of more pixels cannot be read"),
    config_field("max_image_seconds", &TrainConfig::max_image_seconds,
                 "nor those that take more processor time to decode (0: any)"),
    config_field("detect_anomaly", &TrainConfig::detect_anomaly,
                 "end with the name of the op and module where NaN first appears (slow)"),
    config_field("threads", &TrainConfig::threads, "threads that compute, on each rank"),
    config_field("seed", &TrainConfig::seed, "what all random numbers follow from"),
    config_field("run_dir", &TrainConfig::run_dir, "folder for all that the run writes"),
    config_field("resume", &TrainConfig::resume, "go on from the run folder's newest checkpoint"),
    config_field("sync_batch_norm", &TrainConfig::sync_batch_norm,
                 "batch normalisation by the batches of all ranks together"),
    config_field("zero", &TrainConfig::zero,
                 "share the optimizer's state out among the ranks (ZeRO stage 1)"),
    config_field("rank_timeout", &TrainConfig::rank_timeout,
                 "seconds that ranks wait for one of them before all give up"),
    config_field("backend", &TrainConfig::backend,
                 "what carries tensors between the GPUs of ranks: nccl, gloo (through the host), "
                 "or auto: nccl where each rank has a real GPU of its own"),
    config_field("benchmark", &TrainConfig::benchmark,
                 "measure which algorithms are fastest for convolutions, on a GPU also for matrix "
                 "products and attention"),
    config_field("deterministic", &TrainConfig::deterministic,
                 "take only engines of cuDNN that give the same bits in every run"),
    config_field("tf32", &TrainConfig::tf32,
                 "let a GPU round what float32 products and convolutions multiply to TF32's 10 "
                 "bits"),
    config_field("cuda_graph", &TrainConfig::cuda_graph,
                 "capture a step on a GPU once and replay it, so that the host queues it by one "
                 "call"),
    config_field("memory_history", &TrainConfig::memory_history,
                 "write what memory was asked for to memory.pickle, for pytorch.org/memory_viz"),
};

template <class Visit>
void for_each_config_field(const Visit& visit) {
  std::apply([&](const auto&... f) { (visit(f), ...); }, kFields);
}

}  // namespace

std::string flag_name(std::string key) {
  for (char& c : key) c = c == '_' ? '-' : c;
  return "--" + key;
}

namespace {

std::string variable_name(const std::string& key) {
  std::string name = "WICK_";
  for (const char c : key) name += static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  return name;
}

void read_value(const json& value, std::string& out) { out = value.get<std::string>(); }
void read_value(const json& value, bool& out) { out = value.get<bool>(); }
void read_value(const json& value, double& out) {
  if (!value.is_number()) throw UsageError("expected a number");
  out = value.get<double>();
}
void read_value(const json& value, int64_t& out) {
  const bool fits = value.is_number_integer() &&
                    !(value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX);
  if (!fits) throw UsageError("expected a whole number");
  out = value.get<int64_t>();
}
void read_value(const json& value, WorkerCount& out) {
  if (value == "auto") {
    out = {};
  } else {
    out.number.emplace();
    read_value(value, *out.number);
  }
}
template <class T>
void read_value(const json& value, std::optional<T>& out) {
  if (value.is_null()) {
    out.reset();
  } else {
    T inner{};
    read_value(value, inner);
    out = inner;
  }
}

template <class T>
nlohmann::ordered_json write_value(const T& value) {
  return value;
}
nlohmann::ordered_json write_value(const WorkerCount& value) {
  if (!value.number) return "auto";
  return *value.number;
}
template <class T>
nlohmann::ordered_json write_value(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

// A value as an error shows it: what it is, and its text unless that is long or nested.
std::string show(const json& value) {
  if (value.is_structured()) return value.type_name();
  const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return concat(value.type_name(), " ", text.substr(0, kMaxShown),
                text.size() > kMaxShown ? "..." : "");
}

// The JSON object that `text` is. Error for keys that come twice, and for deep nesting.
json parse_object(const std::string& path, const std::string& text) {
  std::set<std::string> seen;
  const auto check = [&](int depth, json::parse_event_t event, json& value) {
    if (depth > kMaxConfigDepth) {
      throw UsageError(concat("config: ", path, ": nested deeper than ", kMaxConfigDepth));
    }
    if (event == json::parse_event_t::key && depth == 1 &&
        !seen.insert(value.get<std::string>()).second) {
      throw UsageError(concat("config: ", path, ": a key comes twice: ", show(value)));
    }
    return true;
  };
  json values = json::parse(text, check, /*allow_exceptions=*/false);
  if (!values.is_object()) throw UsageError(concat("config: ", path, ": not a JSON object"));
  return values;
}

// Sets each member named by a key of the file, unless `is_set(key)`.
void read_config(const std::string& path, TrainConfig& config,
                 const std::function<bool(const char*)>& is_set) {
  std::string text;
  try {
    text = read_file(path, kMaxConfigBytes);
  } catch (const Error& error) {
    throw UsageError(concat("config: ", error.what()));
  }
  const json values = parse_object(path, text);
  std::vector<std::string> keys;
  for_each_config_field([&](const auto& f) { keys.emplace_back(f.key); });
  for (const auto& [key, value] : values.items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      throw UsageError(concat("config: ", path, ": unknown key \"", key.substr(0, kMaxShown), "\".",
                              suggestion(key.substr(0, kMaxShown), keys)));
    }
  }
  for_each_config_field([&](const auto& f) {
    const auto found = values.find(f.key);
    if (found == values.end() || is_set(f.key)) return;
    try {
      read_value(*found, config.*f.member);
    } catch (const std::exception&) {
      throw UsageError(concat("config: ", path, ": \"", f.key,
                              "\" has a value of the wrong kind: got ", show(*found)));
    }
  });
}

// What is wrong with the words of a flag for a T, or "".
template <class T>
std::string check_word(const std::string& word) {
  if (word.empty()) return "the value is empty";
  constexpr bool kCount = std::is_same_v<T, WorkerCount>;
  if constexpr (kCount || std::is_same_v<T, int64_t> || std::is_same_v<T, std::optional<int64_t>>) {
    return check_whole_number(word, kCount);
  }
  return "";
}

bool is_utf8(const std::string& text) {
  const json value = text;
  return value.dump(-1, ' ', false, json::error_handler_t::ignore).size() ==
         value.dump(-1, ' ', false, json::error_handler_t::replace).size();
}

}  // namespace

void check_one_of(const char* key, const std::string& value,
                  const std::vector<std::string>& allowed) {
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
  std::string list;
  for (const std::string& name : allowed) list += (list.empty() ? "" : ", ") + name;
  throw UsageError(concat(flag_name(key), ": unknown value: got \"", value, "\", expected one of ",
                          list, ".", suggestion(value, allowed)));
}

std::istream& operator>>(std::istream& in, WorkerCount& count) {
  std::string word;
  in >> word;
  if (word == "auto") {
    count = {};
  } else {
    std::istringstream(word) >> count.number.emplace();
  }
  return in;
}
std::ostream& operator<<(std::ostream& out, const WorkerCount& count) {
  return count.number ? out << *count.number : out << "auto";
}

void add_config_flags(CLI::App& app, TrainConfig& config) {
  for_each_config_field([&](const auto& f) {
    auto& member = config.*f.member;
    using T = std::decay_t<decltype(member)>;
    CLI::Option* option = nullptr;
    if constexpr (std::is_same_v<T, bool>) {
      option = app.add_flag(flag_name(f.key), member, help_of(f));
    } else {
      if constexpr (requires { member.has_value(); }) {
        // Of a flag that may stand alone no check sees an empty word.
        const auto set = [&member, name = flag_name(f.key)](const T& value) {
          if (!value) throw CLI::ValidationError(name, "the value is empty");
          member = value;
        };
        option = app.add_option_function<T>(flag_name(f.key), set, help_of(f));
      } else {
        option = app.add_option(flag_name(f.key), member, help_of(f));
      }
      option->check([](const std::string& word) { return check_word<T>(word); });
      if constexpr (!requires { member.has_value(); }) option->capture_default_str();
      if constexpr (std::is_same_v<T, WorkerCount>) option->type_name("INT|auto");
      if (flag_name(f.key) == "--ema") {  // its help shows: [FLOAT] alone=0.999
        option->expected(0, 1)->default_str(kEmaDecay)->type_name("[FLOAT] alone");
      }
    }
    option->envname(variable_name(f.key));
  });
}

void apply_config_file(const CLI::App& app, const std::string& path, TrainConfig& config) {
  read_config(path, config,
              [&](const char* key) { return app.get_option(flag_name(key))->count() > 0; });
}

TrainConfig config_from_json(const std::string& path) {
  TrainConfig config;
  read_config(path, config, [](const char*) { return false; });
  return config;
}

nlohmann::ordered_json to_json(const TrainConfig& config) {
  nlohmann::ordered_json values;
  for_each_config_field([&](const auto& f) { values[f.key] = write_value(config.*f.member); });
  return values;
}

int64_t parse_bytes(const std::string& flag, const std::string& text) {
  static const std::map<std::string, double> kUnits{
      {"", 1},         {"B", 1},    {"K", 1e3},      {"KB", 1e3},    {"KIB", 0x1p10},
      {"M", 1e6},      {"MB", 1e6}, {"MIB", 0x1p20}, {"G", 1e9},     {"GB", 1e9},
      {"GIB", 0x1p30}, {"T", 1e12}, {"TB", 1e12},    {"TIB", 0x1p40}};
  const size_t end = std::min(text.size(), text.find_first_not_of("0123456789."));
  std::string unit = text.substr(end);
  for (char& c : unit) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  const auto found = kUnits.find(unit);
  double number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + end, number);
  const double bytes = found == kUnits.end() ? 0 : number * found->second;
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + end || !(bytes >= 1 && bytes <= 1e18))
    throw UsageError(concat(flag, ": not a size: got \"", text.substr(0, kMaxShown),
                            "\", expected one like 600MB or 1.5GiB"));
  return static_cast<int64_t>(bytes);
}

// Names are known, and all texts are UTF-8, as the run folder's JSON must be.
void check_texts(const TrainConfig& config) {
  for_each_config_field([&](const auto& f) {
    if constexpr (std::is_same_v<decltype(f.member), std::string TrainConfig::*>) {
      const std::string& value = config.*f.member;
      if (!is_utf8(value)) {
        throw UsageError(
            concat(flag_name(f.key), ": the value is not UTF-8: rename it, or link to it"));
      }
      if (f.names != nullptr) check_one_of(f.key, value, f.names());
    }
  });
}

}  // namespace wick::tool
