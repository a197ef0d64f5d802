#include <algorithm>
#include <cstdio>
#include <map>

#include "wick/core/anomaly.h"
#include "wick/core/apply.h"
#include "wick/core/autograd.h"
#include "wick/core/graph/trace.h"
#include "wick/core/profile/span.h"
#include "wick/nn/module.h"

namespace wick::nn {

namespace {

struct Recorder {
  std::map<const Module*, std::string> paths;
  std::vector<LayerSummary> layers;
  int depth = 0;
};
thread_local Recorder* recorder = nullptr;

// "1.23 M"
std::string scaled(double value) {
  constexpr const char* kUnits[] = {"", " k", " M", " G", " T"};
  int unit = 0;
  while (value >= 1000 && unit < 4) {
    value /= 1000;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f%s" : "%.2f%s", value, kUnits[unit]);
  return text;
}

std::string row(const std::string& a, const std::string& b, const std::string& c,
                const std::string& d, size_t width) {
  char text[512];
  std::snprintf(text, sizeof text, "%-*s  %-20s %12s %12s\n", static_cast<int>(width), a.c_str(),
                b.c_str(), c.c_str(), d.c_str());
  return text;
}

// During a search for anomalies, or where a profiler asks: tells the engine in which module it is.
class PathScope final : public ForwardScope::Watch {
 public:
  explicit PathScope(Module& module)
      : parent_(std::exchange(current, &module)),
        before_(anomaly::module_path()),
        span_(profile::EventKind::kModule, "") {
    if (parent_ != nullptr) {
      parent_->apply([&](const std::string& path, Module& part) {
        if (&part == &module) {
          anomaly::module_path() = before_ + (before_.empty() ? "" : ".") + path;
        }
      });
    }
    if (!span_) return;
    const std::string& path = anomaly::module_path();
    span_.rename("nn.Module: " + (path.empty() ? module.description() : path));
  }
  ~PathScope() override {
    current = parent_;
    anomaly::module_path() = before_;
  }
  PathScope(const PathScope&) = delete;
  PathScope& operator=(const PathScope&) = delete;

 private:
  static thread_local Module* current;
  Module* parent_;
  std::string before_;
  profile::Span span_;
};
thread_local Module* PathScope::current = nullptr;

// One layer of the summary under way, whose module runs.
class LayerScope final : public ForwardScope::Watch {
 public:
  explicit LayerScope(const Module& module) : place_(recorder->layers.size()) {
    LayerSummary& layer = recorder->layers.emplace_back();
    layer.path = recorder->paths[&module];
    layer.description = module.description();
    layer.depth = recorder->depth++;
    for (const Tensor& parameter : module.parameters(false)) layer.parameters += parameter.numel();
  }
  ~LayerScope() override { --recorder->depth; }
  LayerScope(const LayerScope&) = delete;
  LayerScope& operator=(const LayerScope&) = delete;

  void made(const Tensor& y) override {
    LayerSummary& layer = recorder->layers[place_];
    layer.flops = counter_.flops();
    layer.output_shape = y.shape();
    layer.output_bytes = y.numel() * size_of(y.dtype());
  }

 private:
  size_t place_;
  FlopCounter counter_;
};

}  // namespace

ForwardScope::ForwardScope(Module& module) {
  if (anomaly::search() != nullptr || graph::is_tracing()) {
    watch_ = std::make_unique<PathScope>(module);
  } else if (recorder != nullptr) {
    watch_ = std::make_unique<LayerScope>(module);
  } else if ((profile::wanted() & (profile::kWantsModules | profile::kEmitsNvtx)) != 0)
      [[unlikely]] {
    watch_ = std::make_unique<PathScope>(module);
  }
}
ForwardScope::~ForwardScope() = default;

Tensor ForwardScope::made(Tensor y) {
  if (watch_) watch_->made(y);
  return y;
}

std::vector<LayerSummary> summarize(Module& module, const Tensor& input) {
  struct Scope {
    explicit Scope(Module& module) {
      module.apply([this](const std::string& path, Module& part) {
        record.paths[&part] = path;
        modes.emplace_back(&part, part.is_training());
      });
      module.eval();
      recorder = &record;
    }
    ~Scope() {
      recorder = nullptr;
      // Parents come first: what they set for all below them is set right after.
      for (const auto& [part, training] : modes) part->train(training);
    }
    Recorder record;
    std::vector<std::pair<Module*, bool>> modes;
  };
  Scope scope(module);
  const NoGrad no_grad;
  module.call(input);
  return std::move(scope.record.layers);
}

std::string summary(Module& module, const Tensor& input) {
  const std::vector<LayerSummary> layers = summarize(module, input);
  std::vector<std::string> labels;
  size_t width = 5;
  for (const LayerSummary& layer : layers) {
    const size_t dot = layer.path.rfind('.');
    const std::string name = dot == std::string::npos ? layer.path : layer.path.substr(dot + 1);
    labels.push_back(std::string(static_cast<size_t>(2 * layer.depth), ' ') +
                     (name.empty() ? "" : name + ": ") + layer.description);
    width = std::max(width, labels.back().size());
  }
  width = std::min<size_t>(width, 72);
  std::string text = row("layer", "output", "parameters", "FLOPs", width);
  text += std::string(width + 48, '-') + "\n";
  int64_t activation_bytes = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerSummary& layer = layers[i];
    const bool leaf = i + 1 == layers.size() || layers[i + 1].depth <= layer.depth;
    if (leaf) activation_bytes += layer.output_bytes;
    text += row(labels[i].substr(0, width), to_string(layer.output_shape),
                layer.parameters > 0 ? std::to_string(layer.parameters) : "",
                layer.flops > 0 ? scaled(layer.flops) : "", width);
  }
  int64_t parameters = 0, bytes = 0;
  for (const Tensor& parameter : module.parameters()) {
    parameters += parameter.numel();
    bytes += parameter.numel() * size_of(parameter.dtype());
  }
  text += std::string(width + 48, '-') + "\n";
  char totals[256];
  std::snprintf(totals, sizeof totals,
                "%lld parameters (%.2f MB), forward %s FLOPs, activations %.2f MB for input %s\n",
                static_cast<long long>(parameters), static_cast<double>(bytes) / 1e6,
                scaled(layers.empty() ? 0 : layers[0].flops).c_str(),
                static_cast<double>(activation_bytes) / 1e6, to_string(input.shape()).c_str());
  return text + totals;
}

}  // namespace wick::nn
