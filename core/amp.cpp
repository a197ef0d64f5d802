#include "wick/core/amp.h"

#include <unordered_map>

#include "wick/core/autograd.h"
#include "wick/core/base/detail/per_thread.h"
#include "wick/core/detail/autocast.h"

namespace wick {

std::string_view to_string(Autocast policy) {
  switch (policy) {
    case Autocast::kLower: return "lower";
    case Autocast::kToFloat32: return "float32";
    case Autocast::kFloat32Out: return "float32 out";
    case Autocast::kPromote: return "widest";
    case Autocast::kBanned: return "banned";
    default: return "as is";
  }
}

namespace amp {

namespace {

thread_local constinit AutocastState current;
thread_local constinit bool paused = false;
thread_local constinit int depth = 0;  // Autocast guards alive

// A weight in the lower precision.
struct CachedCast {
  Ref<Node> weight;  // what collects its gradient: its identity, which does not keep its memory
  uint64_t version;  // of the weight, when it was cast
  Stream stream;     // that it was cast on: another's work could run before it
  Tensor cast;
};

std::unordered_map<const Node*, CachedCast>& cache() {
  return per_thread<std::unordered_map<const Node*, CachedCast>>();
}

void check_dtype(Dtype dtype) {
  WICK_CHECK(is_reduced(dtype), "autocast: wrong dtype: got ", to_string(dtype),
             ", expected float16 or bfloat16");
}

bool is_eligible(const Tensor& x) {
  return x.defined() && is_floating(x.dtype()) && x.dtype() != kFloat64;
}

Tensor cast_weight(const Tensor& x, Dtype dtype) {
  Ref<Node> weight = gradient_edge(x).node;
  const Stream stream = current_stream(x.device());
  CachedCast& entry = cache()[weight.get()];
  const bool usable = entry.cast.defined() && entry.version == x.version() &&
                      entry.cast.dtype() == dtype && entry.stream == stream &&
                      (entry.cast.requires_grad() || !grad_enabled());
  // What was cast without recording would lose the gradient of what is recorded.
  if (!usable) entry = {std::move(weight), x.version(), stream, x.to(dtype)};
  return entry.cast;
}

Tensor cast(const Tensor& x, Dtype dtype) {
  if (!is_eligible(x) || x.dtype() == dtype) return x;
  const bool cached = is_reduced(dtype) && current.cache_weights && is_weight(x);
  return cached ? cast_weight(x, dtype) : x.to(dtype);
}

// float32 where any is, or where they are of both 16-bit types; else what they are.
Dtype widest(std::span<const Tensor> inputs, Dtype lower) {
  std::optional<Dtype> dtype;
  for (const Tensor& x : inputs) {
    if (is_eligible(x)) dtype = promote(dtype.value_or(x.dtype()), x.dtype());
  }
  return dtype.value_or(lower);
}

Dtype wanted_dtype(const OpInfo& info, wick::Autocast policy, std::span<const Tensor> inputs,
                   Dtype lower) {
  switch (policy) {
    case wick::Autocast::kLower: return lower;
    case wick::Autocast::kPromote: return widest(inputs, lower);
    case wick::Autocast::kBanned:
      detail::fail(info.name, ": not under autocast, where its inputs have lost too much: use ",
                   info.autocast.alternative,
                   ", or an Autocast with enabled = false around it and float32 inputs");
    default: return kFloat32;
  }
}

}  // namespace

AutocastState autocast_state() { return current; }

void forget_casts() { cache().clear(); }

bool is_weight(const Tensor& x) {
  return x.dtype() == kFloat32 && x.requires_grad() && x.is_leaf() && !x.impl()->is_view;
}

Autocast::Autocast(Device device, std::optional<Dtype> dtype, bool enabled, bool cache_weights)
    : before_(current), paused_before_(paused) {
  const Dtype lower = dtype.value_or(device.is_cpu() ? kBFloat16 : kFloat16);
  check_dtype(lower);
  (device.is_cpu() ? current.cpu : current.cuda) = {enabled, lower};
  current.cache_weights = cache_weights;
  paused = false;
  ++depth;
}

Autocast::Autocast(const AutocastState& state) : before_(current), paused_before_(paused) {
  check_dtype(state.cpu.dtype);
  check_dtype(state.cuda.dtype);
  current = state;
  paused = false;
  ++depth;
}

Autocast::~Autocast() {
  current = before_;
  paused = paused_before_;
  if (--depth == 0) cache().clear();
}

bool is_on(Device device) {
  return !paused && (device.is_cpu() ? current.cpu : current.cuda).enabled;
}

Pause::Pause() : paused_(paused, true) {}

std::span<const Tensor> cast_inputs(const OpInfo& info, std::span<const Tensor> inputs,
                                    std::vector<Tensor>& storage) {
  if (paused || !(current.cpu.enabled || current.cuda.enabled) || info.mutates != 0) return inputs;
  const Tensor* first = nullptr;
  for (const Tensor& x : inputs) {
    if (first == nullptr && x.defined()) first = &x;
  }
  if (first == nullptr) return inputs;
  const bool on_cpu = first->device().is_cpu();
  const DeviceAutocast& mode = on_cpu ? current.cpu : current.cuda;
  const wick::Autocast policy = on_cpu ? info.autocast.cpu : info.autocast.cuda;
  if (!mode.enabled || policy == wick::Autocast::kAsIs) return inputs;
  const Dtype dtype = wanted_dtype(info, policy, inputs, mode.dtype);
  bool all_so = true;
  for (const Tensor& x : inputs) all_so = all_so && (!is_eligible(x) || x.dtype() == dtype);
  if (all_so) return inputs;
  storage.reserve(inputs.size());
  for (const Tensor& x : inputs) storage.push_back(cast(x, dtype));
  return storage;
}

}  // namespace amp
}  // namespace wick
