#include "wick/core/anomaly.h"

#include <atomic>
#include <cstdint>
#include <typeinfo>
#include <utility>

#include "wick/core/autograd.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/sparse_rows.h"

namespace wick {

namespace {

thread_local const DetectAnomaly* search_in_force = nullptr;
thread_local bool paused = false;

// What may be set for all threads: constants, which a thread may read while another sets.
constexpr AnomalyOptions kProcessOptions[] = {
    {false, false}, {false, true}, {true, false}, {true, true}};
std::atomic<const AnomalyOptions*> search_of_process = nullptr;

int64_t count_of(const Tensor& flags) { return sum(flags).item<int64_t>(); }

bool can_be_anomalous(const Tensor& x) {
  return x.defined() && is_floating(x.dtype()) && x.numel() > 0;
}

// What to look for, and how to say it.
struct Kind {
  const char* name;
  Tensor (*flags)(const Tensor& x);
};
constexpr Kind kNan{"NaN", &isnan};
constexpr Kind kInfinity{"an infinity", &isinf};

// The first of `given`, but for what was changed in place, that has elements of this kind; -1 if
// there is none.
int64_t source(const Kind& kind, std::span<const Tensor> given, uint32_t mutated) {
  for (size_t i = 0; i < given.size(); ++i) {
    if (i < 32 && (mutated >> i & 1) != 0) continue;
    if (!can_be_anomalous(given[i])) continue;
    if (count_of(kind.flags(gradient_elements(given[i]))) > 0) return static_cast<int64_t>(i);
  }
  return -1;
}

std::string place(const std::string& path) { return path.empty() ? "" : " (in " + path + ")"; }

struct Look {
  const std::string& op;    // with its attributes
  const std::string& path;  // of its module
  const char* prefix;       // "" or "backward of "
  const char* result;       // "result", "the gradient of input"
  const char* given;        // "input", "incoming gradient"
};

void look_for(const Kind& kind, const Look& look, std::span<const Tensor> given, uint32_t mutated,
              std::span<const Tensor> results) {
  for (size_t i = 0; i < results.size(); ++i) {
    if (!can_be_anomalous(results[i])) continue;
    const int64_t count = count_of(kind.flags(gradient_elements(results[i])));
    if (count == 0) continue;
    const int64_t from = source(kind, given, mutated);
    // An infinity that comes in may go out: as a mask, for one.
    if (from >= 0 && kind.flags == kInfinity.flags) continue;
    const std::string origin = from < 0 ? concat("though no ", look.given, " has any")
                                        : concat("as has ", look.given, " ", from, ", ",
                                                 given[static_cast<size_t>(from)].dtype(), " ",
                                                 given[static_cast<size_t>(from)].shape());
    throw AnomalyError(concat(look.prefix, look.op, place(look.path), ": ", kind.name, " in ",
                              look.result, " ", i, ": got ", count, " in the ", results[i].numel(),
                              " elements of ", results[i].dtype(), " ", results[i].shape(), ", ",
                              origin, "; expected none"));
  }
}

}  // namespace

DetectAnomaly::DetectAnomaly(const AnomalyOptions& options)
    : options_(options), in_force_(search_in_force, this) {}

void set_detect_anomaly(bool on, const AnomalyOptions& options) {
  const AnomalyOptions* all = &kProcessOptions[2 * options.check_nan + options.infinities];
  search_of_process.store(on ? all : nullptr, std::memory_order_relaxed);
}

namespace anomaly {

const AnomalyOptions* search() {
  if (paused) return nullptr;
  if (search_in_force != nullptr) return &search_in_force->options();
  return search_of_process.load(std::memory_order_relaxed);
}

Pause::Pause() : paused_(paused, true) {}

std::string& module_path() {
  thread_local std::string path;
  return path;
}

void check_results(const std::string& op, std::span<const Tensor> inputs, uint32_t mutated,
                   std::span<const Tensor> results) {
  for (const char* value : {"=nan", "=-nan", "=inf", "=-inf"}) {
    if (op.find(value) != op.npos) return;
  }
  const AnomalyOptions wanted = *search();
  const Pause pause;
  const NoGrad no_grad;
  const Look look{op, module_path(), "", "result", "input"};
  if (wanted.check_nan) look_for(kNan, look, inputs, mutated, results);
  if (wanted.infinities) look_for(kInfinity, look, inputs, mutated, results);
}

void check_gradients(const std::string& op, const std::string& path,
                     std::span<const Tensor> incoming, std::span<const Tensor> gradients) {
  const AnomalyOptions wanted = *search();
  const Pause pause;
  const NoGrad no_grad;
  const Look look{op, path, "backward of ", "the gradient of input", "incoming gradient"};
  if (wanted.check_nan) look_for(kNan, look, incoming, 0, gradients);
  if (wanted.infinities) look_for(kInfinity, look, incoming, 0, gradients);
}

void rethrow(const Error& error, const std::string& op, const std::string& path) {
  if (typeid(error) != typeid(Error)) throw;  // others carry more than a text
  throw Error(concat(error.what(), ": in backward of ", op, place(path)));
}

}  // namespace anomaly

}  // namespace wick
