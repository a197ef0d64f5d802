#include "wick/tests/core/functions/traits.h"

#include <algorithm>
#include <array>
#include <set>

#include "wick/core/autograd.h"
#include "wick/core/base/scoped_value.h"
#include "wick/core/detail/autocast.h"
#include "wick/core/detail/op_recorder.h"
#include "wick/tests/harness/devices.h"

namespace wick::testing {
namespace {

using Tensors = std::vector<Tensor>;

constexpr std::array kFloating = {kFloat64, kFloat32, kFloat16, kBFloat16};
constexpr std::array kIntegers = {kInt64, kInt32, kUint8};

bool takes(const Function& function, const Tensors& inputs) {
  try {
    const Tensor y = function.call(inputs);
    if (y.defined() && y.device().is_cuda()) y.cpu();  // after which its errors are known
    return true;
  } catch (const Error&) {
    return false;
  }
}

// The inputs whose dtype the others follow: the floating ones, or those like the first.
Dtype varied_dtype(const Function& function) {
  for (const Tensor& x : function.inputs) {
    if (is_floating(x.dtype())) return x.dtype();
  }
  return function.inputs[0].dtype();
}

Tensors with_dtype(const Function& function, Dtype dtype, Device device = kCpu) {
  const Dtype varied = varied_dtype(function);
  Tensors inputs;
  for (const Tensor& x : function.inputs) {
    inputs.push_back((x.dtype() == varied ? x.to(dtype) : x).to(device));
  }
  return inputs;
}

void add(std::string& text, std::string_view word) {
  text += (text.empty() ? "" : ", ") + std::string(word);
}

// "floating" if all of `group` are among the dtypes, else those that are.
template <size_t kSize>
void add_group(std::string& text, const std::set<Dtype>& dtypes, const char* name,
               const std::array<Dtype, kSize>& group) {
  std::string some;
  size_t count = 0;
  for (const Dtype dtype : group) {
    if (dtypes.count(dtype) == 0) continue;
    ++count;
    add(some, to_string(dtype));
  }
  if (count > 0) add(text, count == kSize ? name : some);
}

std::string in_words(const std::set<Dtype>& dtypes) {
  std::string text;
  add_group(text, dtypes, "floating", kFloating);
  add_group(text, dtypes, "integers", kIntegers);
  add_group(text, dtypes, "bool", std::array{kBool});
  if (text.empty()) return "none";
  return text == "floating, integers, bool" ? "all" : text;
}

void add_dtypes(std::set<Dtype>& dtypes, const Function& function, Device device) {
  const auto try_it = [&](Dtype dtype) {
    if (takes(function, with_dtype(function, dtype, device))) dtypes.insert(dtype);
  };
  for (const Dtype dtype : kFloating) try_it(dtype);
  for (const Dtype dtype : kIntegers) try_it(dtype);
  try_it(kBool);
}

// Gradients of `outputs` with respect to what of `inputs` requires one, and to the weights of the
// outputs, as tensors that can be differentiated again.
Tensors gradients_of(const Tensors& outputs, const Tensors& inputs) {
  Tensors used, wanted, weights;
  for (const Tensor& y : outputs) {
    if (!y.defined() || !y.requires_grad()) continue;
    used.push_back(y);
    weights.push_back(ones_like(y.detach()).set_requires_grad());
  }
  for (const Tensor& x : inputs) {
    if (x.requires_grad()) wanted.push_back(x);
  }
  if (used.empty()) return {};
  Tensors all = grad(used, wanted, weights, false, true, true);
  all.insert(all.end(), weights.begin(), weights.end());
  return all;
}

void add_gradients(Traits& traits, const Function& function) {
  Tensors inputs;
  for (const Tensor& x : function.inputs) {
    inputs.push_back(is_floating(x.dtype()) ? x.clone().set_requires_grad() : x);
  }
  Tensors first;
  try {
    first = gradients_of({function.call(inputs)}, inputs);
  } catch (const Error&) {
    return;
  }
  if (first.empty()) return;
  traits.gradient = true;
  try {
    // Also with respect to the weights, which are among `first`: linear functions have that alone.
    gradients_of(first, inputs);
    traits.second = true;
  } catch (const Error&) {
  }
}

// The ops that pass the door outside of others.
class Seen final : public OpRecorder {
 public:
  void begin(const OpType& type, std::span<const Tensor>) override { ops.insert(&type); }
  void record(const OpType&, const void*, std::span<const Tensor>, std::span<const Tensor>,
              const KeptForBackward*) override {}
  void host_read(const char*, const Tensor&) override {}
  void gradient_use(const AccumulateGrad&, const Tensor&, const Tensor&, bool) override {}
  void requires_grad_use(const Tensor&) override {}
  bool holds(const Tensor&) const override { return false; }

  std::set<const OpType*> ops;
};

// Functions that are cast as one, before their ops: the policies that their code names.
const std::map<std::string, AutocastPolicy>& cast_as_one() {
  static const AutocastPolicy kVolumes{.cpu = Autocast::kToFloat32};
  static const AutocastPolicy kWidest{.cuda = Autocast::kPromote};
  static const AutocastPolicy kLower{.cuda = Autocast::kLower, .cpu = Autocast::kLower};
  static const AutocastPolicy kFloat32{.cuda = Autocast::kToFloat32};
  static const std::map<std::string, AutocastPolicy> all = {
      {"adaptive_avg_pool3d", kVolumes},
      {"adaptive_max_pool3d", kVolumes},
      {"adaptive_max_pool3d_with_indices", kVolumes},
      {"addcdiv", kWidest},
      {"addcmul", kWidest},
      {"avg_pool3d", kVolumes},
      {"cosine_similarity", kFloat32},
      {"local_response_norm", {.cuda = Autocast::kToFloat32, .cpu = Autocast::kToFloat32}},
      {"lp_pool3d", {.cuda = Autocast::kToFloat32, .cpu = Autocast::kToFloat32}},
      {"max_pool3d", kVolumes},
      {"max_pool3d_with_indices", kVolumes},
      {"scaled_dot_product_attention", kLower}};
  return all;
}

struct Classes {
  std::set<std::string> gpu, cpu;

  void add(const AutocastPolicy& policy) {
    if (policy.cuda != Autocast::kAsIs) gpu.insert(std::string(to_string(policy.cuda)));
    if (policy.cpu != Autocast::kAsIs) cpu.insert(std::string(to_string(policy.cpu)));
  }
};

void add_classes(Classes& classes, const Function& function) {
  const auto as_one = cast_as_one().find(function.name);
  if (as_one != cast_as_one().end()) return classes.add(as_one->second);
  Seen seen;
  try {
    const ScopedValue<OpRecorder*> recorder(op_recorder(), &seen);
    function.call(with_dtype(
        function, is_floating(varied_dtype(function)) ? kFloat32 : varied_dtype(function)));
  } catch (const Error&) {
  }
  for (const OpType* op : seen.ops) classes.add(op->info.autocast);
}

std::string joined(const std::set<std::string>& words) {
  std::string text;
  for (const std::string& word : words) add(text, word);
  return text.empty() ? "-" : text;
}

}  // namespace

std::map<std::string, Traits> traits_of(const std::vector<Function>& functions) {
  std::map<std::string, Traits> all;
  std::map<std::string, std::set<Dtype>> cpu, cuda;
  std::map<std::string, Classes> classes;
  for (const Function& function : functions) {
    add_dtypes(cpu[function.name], function, kCpu);
    if (cuda_is_available()) add_dtypes(cuda[function.name], function, kGpu);
    add_gradients(all[function.name], function);
    add_classes(classes[function.name], function);
  }
  for (auto& [name, traits] : all) {
    traits.cpu = in_words(cpu[name]);
    if (cuda_is_available()) traits.cuda = cuda[name] == cpu[name] ? "same" : in_words(cuda[name]);
    traits.autocast_gpu = joined(classes[name].gpu);
    traits.autocast_cpu = joined(classes[name].cpu);
  }
  return all;
}

}  // namespace wick::testing
