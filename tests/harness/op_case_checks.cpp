#include "wick/tests/harness/op_case_checks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>

#include "wick/core/apply.h"
#include "wick/core/base/parallel.h"
#include "wick/core/base/sha256.h"
#include "wick/core/graph/executor.h"
#include "wick/core/graph/passes.h"
#include "wick/core/graph/trace.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/random.h"
#include "wick/core/stream.h"
#include "wick/tests/harness/deterministic.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/half_exceptions.h"
#include "wick/tests/harness/op_case.h"
#include "wick/tests/harness/temporary_folder.h"
#ifdef WICK_SIM
#include "wick/kernels/sim/simulator.h"
#endif

namespace wick::testing {
namespace {

// One sample of a case in one dtype: its inputs, outputs and gradients.
class Run {
 public:
  Run(const OpCase& op_case, const Arrays& arrays, const Sample& sample, Dtype dtype)
      : op_case_(op_case), arrays_(arrays), sample_(sample), dtype_(dtype) {}

  Dtype input_dtype(size_t i) const { return sample_[i].dtype.value_or(dtype_); }

  /// The inputs in `layouts` (one per input, repeated), each with guard bytes.
  std::vector<GuardedTensor> guarded(const std::vector<Layout>& layouts = {Layout::kContiguous},
                                     Device device = kCpu) const {
    std::vector<GuardedTensor> inputs;
    for (size_t i = 0; i < sample_.size(); ++i) {
      inputs.emplace_back(arrays_[i], input_dtype(i), layouts[i % layouts.size()], device);
    }
    return inputs;
  }

  static Tensors tensors(const std::vector<GuardedTensor>& guarded) {
    Tensors result;
    for (const GuardedTensor& input : guarded) result.push_back(input.tensor());
    return result;
  }

  Tensors inputs() const { return tensors(guarded()); }

  /// Outputs, then the gradients of the inputs that have them, weighted by fixed numbers.
  Tensors forward_backward(const TensorFunction& call, Tensors in,
                           bool create_graph = false) const {
    Tensors wanted;
    for (size_t i = 0; i < in.size(); ++i) {
      if (!sample_[i].grad || !is_floating(in[i].dtype())) continue;
      in[i] = in[i].detach().set_requires_grad();
      wanted.push_back(in[i]);
    }
    Tensors results = call(in);
    Tensors outputs, incoming;
    for (const Tensor& output : results) {
      if (!output.requires_grad()) continue;
      const Arrays weight =
          make_inputs(concat(op_case_.name, ".gradient", outputs.size()), {normal(output.shape())});
      outputs.push_back(output);
      // Rounded as the smallest type would, so that all dtypes get the same.
      incoming.push_back(make_tensor(rounded(rounded(weight[0], kBFloat16), kFloat16),
                                     output.dtype(), Layout::kContiguous, output.device()));
    }
    Tensors gradients(wanted.size());
    if (!outputs.empty()) gradients = grad(outputs, wanted, incoming, false, create_graph, true);
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].defined()) gradients[i] = zeros_like(wanted[i].detach());
    }
    results.insert(results.end(), gradients.begin(), gradients.end());
    return results;
  }

  /// The case's outputs, and its gradients if it has any.
  Tensors compute(const Tensors& in) const {
    return op_case_.differentiable ? forward_backward(op_case_.call, in) : op_case_.call(in);
  }

 private:
  const OpCase& op_case_;
  const Arrays& arrays_;
  const Sample& sample_;
  Dtype dtype_;
};

// Compares a result with the reference, from which float32 or float64 may lie `slack` times as far
// as the case says. One of 16 bits may be off by half_units beside that: of the element's own last
// place where `slack` is 1, else of the largest element's.
void expect_close(const Tensor& got, HostArray want, const OpCase& op_case, double slack,
                  const std::string& what, double units = 0) {
  const Tolerance& t = op_case.tolerance;
  const Dtype dtype = got.dtype();
  const double eps = dtype == kFloat64 ? 0x1p-52 : 0x1p-23;
  double largest = 0;
  for (const double value : want.values) {
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  }
  if (dtype != kFloat64) want = rounded(want, dtype);
  if (!is_reduced(dtype) || t.is_exact()) {
    units = 0;
  } else if (units == 0) {
    units = half_units(op_case.name);
  }
  const auto allowed = [&](double size) {
    const double noise = slack * eps * (t.factor * size + t.floor * std::max(1.0, largest));
    return noise + units * unit_in_last_place(dtype, slack > 1 ? largest : size);
  };
  const std::string wrong = difference(read(got), want, allowed);
  EXPECT_TRUE(wrong.empty()) << what << ": " << wrong;
}

Dtype usual_dtype(const OpCase& op_case) {
  const auto& all = op_case.dtypes;
  return std::count(all.begin(), all.end(), kFloat32) > 0 ? kFloat32 : all.front();
}

// Calls `check(arrays, sample, text)` for samples of up to kLargeSample elements, or those above.
template <class Check>
void for_samples(const OpCase& op_case, bool large, const Check& check) {
  for (size_t i = 0; i < op_case.samples.size(); ++i) {
    const Sample& sample = op_case.samples[i];
    if ((largest_input(sample) > kLargeSample) != large) continue;
    std::string text = "sample";
    for (const Input& input : sample) text += concat(" ", input.shape);
    SCOPED_TRACE(text);
    check(make_inputs(op_case, i), sample);
  }
}

// A line for each result, if WICK_CASE_DIGESTS names a file: same_bits_test.py compares processes.
void note_bits(const OpCase& op_case, const std::string& what, const Tensor& t) {
  const char* const path = std::getenv("WICK_CASE_DIGESTS");
  if (path == nullptr || !t.defined() || t.device() != kCpu) return;
  const Tensor dense = t.detach().contiguous();
  Sha256 sha;
  sha.update(dense.raw_data(), static_cast<size_t>(dense.numel() * size_of(dense.dtype())));
  std::ofstream(path, std::ios::app) << concat(op_case.name, " ", what, " of ", t.dtype(),
                                               t.shape(), " ", to_hex(sha.digest()), "\n");
}

void check_values(const OpCase& op_case, Dtype dtype, bool large) {
  for_samples(op_case, large, [&](const Arrays& arrays, const Sample& sample) {
    const Run run(op_case, arrays, sample, dtype);
    const std::vector<GuardedTensor> inputs = run.guarded();
    const Tensors first = op_case.call(Run::tensors(inputs));
    dirty_memory(first);
    const Tensors second = op_case.call(Run::tensors(inputs));
    Arrays exact;
    for (size_t i = 0; i < arrays.size(); ++i) {
      EXPECT_TRUE(inputs[i].unchanged()) << "input " << i << " or memory around it was changed";
      exact.push_back(rounded(arrays[i], run.input_dtype(i)));
    }
    Arrays want;
    if (op_case.reference) {
      want = op_case.reference(exact);
    } else {
      const Run wide(op_case, exact, sample, kFloat64);
      const Tensors in = wide.inputs();
      for (const Tensor& t :
           (op_case.composed && dtype == kFloat64 ? op_case.composed : op_case.call)(in)) {
        want.push_back(read(t));
      }
    }
    ASSERT_EQ(first.size(), want.size());
    for (size_t i = 0; i < first.size(); ++i) {
      note_bits(op_case, concat("output ", i), first[i]);
      EXPECT_TRUE(bit_equal(first[i], second[i])) << "two runs differ in output " << i;
      expect_close(first[i], want[i], op_case, 1, concat("output ", i));
      if (is_floating(first[i].dtype())) {
        EXPECT_EQ(first[i].dtype(), op_case.output_dtype.value_or(dtype));
      }
    }
  });
}

void check_gradients(const OpCase& op_case, Dtype dtype) {
  for_samples(op_case, false, [&](const Arrays& arrays, const Sample& sample) {
    const Run run(op_case, arrays, sample, dtype);
    Arrays exact;
    for (size_t i = 0; i < arrays.size(); ++i) {
      exact.push_back(rounded(arrays[i], run.input_dtype(i)));
    }
    const Run wide(op_case, exact, sample, kFloat64);
    const bool composed = op_case.composed && dtype == kFloat64;
    const Tensors want =
        wide.forward_backward(composed ? op_case.composed : op_case.call, wide.inputs());
    const size_t outputs = op_case.call(run.inputs()).size();
    for (const bool create_graph : {false, true}) {
      if (create_graph && !(op_case.second_order && is_reduced(dtype))) continue;
      const Tensors got = run.forward_backward(op_case.call, run.inputs(), create_graph);
      for (size_t i = outputs; i < got.size(); ++i) {
        note_bits(op_case, concat("gradient ", i - outputs), got[i]);
        expect_close(got[i], read(want[i]), op_case, 4,
                     concat("gradient ", i - outputs, create_graph ? " with a graph" : ""));
      }
    }
  });
}

// Samples with an input of more elements are checked along random directions.
constexpr int64_t kLargestJacobian = 300;

void check_numeric_gradients(const OpCase& op_case, bool second_order) {
  for_samples(op_case, false, [&](const Arrays& arrays, const Sample& sample) {
    const Run run(op_case, arrays, sample, kFloat64);
    Tensors inputs = run.inputs();
    bool any = false;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!sample[i].grad || !is_floating(inputs[i].dtype())) continue;
      inputs[i] = inputs[i].detach().set_requires_grad();
      any = true;
    }
    if (!any) return;
    const GradcheckOptions options{.fast_mode = largest_input(sample) > kLargestJacobian};
    EXPECT_NO_THROW(second_order ? gradgradcheck(op_case.call, inputs, {}, options)
                                 : gradcheck(op_case.call, inputs, options));
  });
}

// `layouts` of the inputs against contiguous ones of the same values.
void check_layout(const OpCase& op_case, const Run& run, const std::vector<Layout>& layouts) {
  std::string text = "layouts";
  for (const Layout layout : layouts) text += concat(" ", to_string(layout));
  SCOPED_TRACE(text);
  const std::vector<GuardedTensor> inputs = run.guarded(layouts);
  Tensors packed;
  for (const GuardedTensor& input : inputs) {
    packed.push_back(make_tensor(read(input.tensor()), input.tensor().dtype()));
  }
  const Tensors got = run.forward_backward(op_case.call, Run::tensors(inputs));
  const Tensors want = run.forward_backward(op_case.call, packed);
  for (size_t i = 0; i < got.size(); ++i) {
    // Either may be off by what one may.
    expect_close(got[i], read(want[i]), op_case, 4, concat("output or gradient ", i),
                 2 * half_units(op_case.name));
  }
  for (const GuardedTensor& input : inputs) {
    EXPECT_TRUE(input.unchanged()) << "an input or memory around it was changed";
  }
}

void check_layouts(const OpCase& op_case, Dtype dtype) {
  for_samples(op_case, false, [&](const Arrays& arrays, const Sample& sample) {
    const Run run(op_case, arrays, sample, dtype);
    for (const Layout layout : kAllLayouts) check_layout(op_case, run, {layout});
    if (sample.size() < 2) return;
    for (size_t k = 0; k < std::size(kAllLayouts); ++k) {
      const Layout other = kAllLayouts[(k + 1) % std::size(kAllLayouts)];
      check_layout(op_case, run, {kAllLayouts[k], other});
    }
  });
}

void check_threads(const OpCase& op_case) {
  const int before = num_threads();
  for_samples(op_case, true, [&](const Arrays& arrays, const Sample& sample) {
    const Run run(op_case, arrays, sample, usual_dtype(op_case));
    Tensors results[2];
    for (const int threads : {1, 2}) {
      set_num_threads(threads);
      results[threads - 1] = run.compute(run.inputs());
    }
    set_num_threads(before);
    for (size_t i = 0; i < results[0].size(); ++i) {
      EXPECT_TRUE(bit_equal(results[0][i], results[1][i]))
          << "1 and 2 threads differ in output or gradient " << i;
    }
  });
}

graph::Graph stored_and_loaded(const OpCase& op_case, const graph::Graph& made) {
  const TemporaryFolder folder;
  const std::string path = folder.path("case.json");
  if (!op_case.storable) {
    expect_error([&] { graph::save(made, path); }, {"has no written form"});
    return made;
  }
  graph::save(made, path);
  return graph::load(path);
}

// With what is computed from them, so that elementwise ops have others to be fused with.
Tensors and_more(Tensors results) {
  for (size_t i = results.size(); i-- > 0;) {
    const Tensor& y = results[i];
    if (y.defined() && is_floating(y.dtype())) results.push_back(y.detach() * 1.5 + 1);
  }
  return results;
}

// The case and its gradients, traced, written to a file, read back and run on other inputs, as
// traced and after all passes, against the case called with those.
void check_graph(const OpCase& op_case, Dtype dtype) {
  int refused = 0;
  for (size_t i = 0; i < op_case.samples.size(); ++i) {
    const Sample& sample = op_case.samples[i];
    if (largest_input(sample) > kLargeSample) continue;
    SCOPED_TRACE(concat("sample ", i, " in ", dtype));
    const Arrays first = make_inputs(op_case, i),
                 other = make_inputs(concat(op_case.name, ".other/", i), sample);
    const Run traced(op_case, first, sample, dtype), eager(op_case, other, sample, dtype);
    const auto trace = [&] {
      return graph::trace([&](const Tensors& in) { return and_more(traced.compute(in)); },
                          traced.inputs());
    };
    if (!op_case.traceable) {
      refused += error_of(trace).find("trace: ") == 0;
      continue;
    }
    const graph::Graph made = trace();
    const graph::Graph loaded = i == 0 ? stored_and_loaded(op_case, made) : made;
    EXPECT_EQ(to_string(loaded), to_string(made));
    manual_seed(i);
    const Tensors want = and_more(eager.compute(eager.inputs()));
    graph::Graph optimized = loaded;
    graph::freeze_constants(optimized);
    graph::optimize(optimized);
    for (const graph::Graph& each : {loaded, optimized}) {
      manual_seed(i);
      const Tensors got = graph::run(each, eager.inputs());
      ASSERT_EQ(got.size(), want.size());
      for (size_t k = 0; k < got.size(); ++k) {
        EXPECT_TRUE(bit_equal(got[k], want[k])) << "output or gradient " << k << "\n" << each;
      }
    }
  }
  EXPECT_EQ(refused > 0, !op_case.traceable);
}

void check_flops(const OpCase& op_case) {
  for_samples(op_case, false, [&](const Arrays& arrays, const Sample& sample) {
    const Run run(op_case, arrays, sample, usual_dtype(op_case));
    const Tensors inputs = run.inputs();
    const FlopCounter counter;
    op_case.call(inputs);
    EXPECT_DOUBLE_EQ(counter.flops(), op_case.flops(inputs));
  });
}

#ifdef WICK_HAS_CUDA
/// How often the device runs a case: on a simulated one, once per order of threads, with streams
/// late or in a random order.
#ifdef WICK_SIM
constexpr int kDeviceRuns = 4;
#else
constexpr int kDeviceRuns = 1;
#endif

struct DeviceOrder {
#ifdef WICK_SIM
  DeviceOrder(Dtype dtype, int run)
      : settings({.threads = static_cast<sim::ThreadOrder>((static_cast<int>(dtype) + run) % 4),
                  .streams = run % 2 == 0 ? sim::StreamOrder::kLazy : sim::StreamOrder::kRandom,
                  .seed = static_cast<uint64_t>(run + 1)}) {}
  sim::ScopedSettings settings;
#else
  DeviceOrder(Dtype, int) {}
#endif
};

void check_other_device(const OpCase& op_case, Dtype dtype, bool large) {
  if (!cuda_is_available()) GTEST_SKIP() << "no second device: " << why_no_cuda();
  const Device device = cuda_device(0);
  const bool usual = dtype == usual_dtype(op_case);
  const int runs = usual || !large ? kDeviceRuns : 1;
  const bool compares_bits = runs > 1;  // the library's part too; one more run is as users have it
  std::vector<std::vector<Layout>> layouts = {{Layout::kContiguous}};
  if (op_case.any_layout && usual && !large) {
    layouts.push_back({Layout::kTransposed, Layout::kStrided});
    layouts.push_back({Layout::kChannelsLast, Layout::kOffset});
  }
  for_samples(op_case, large, [&](const Arrays& arrays, const Sample& sample) {
    const Run run(op_case, arrays, sample, dtype);
    // Results of 16 bits are held against the reference, as the CPU's are.
    Arrays exact = arrays;
    const Dtype reference = is_reduced(dtype) ? kFloat64 : dtype;
    if (reference != dtype) {
      for (size_t i = 0; i < arrays.size(); ++i) {
        exact[i] = rounded(arrays[i], run.input_dtype(i));
      }
    }
    const Run wide(op_case, exact, sample, reference);
    const Tensors want = wide.compute(wide.inputs());
    for (size_t l = 0; l < layouts.size(); ++l) {
      Tensors first;
      for (int r = 0; r < runs + compares_bits; ++r) {
        const Deterministic same_bits(compares_bits && r < runs);
        const DeviceOrder order(dtype, r);
        const std::vector<GuardedTensor> inputs = run.guarded(layouts[l], device);
        const Tensors got = run.compute(Run::tensors(inputs));
        for (const GuardedTensor& input : inputs) {
          EXPECT_TRUE(input.unchanged()) << "an input or memory around it was changed";
        }
        for (size_t i = 0; i < got.size(); ++i) {
          expect_close(got[i], read(want[i]), op_case, 4,
                       concat("output or gradient ", i, ", layout ", l, ", order ", r));
          if (r == 0) {
            first.push_back(got[i]);
          } else if (r < runs) {
            EXPECT_TRUE(bit_equal(got[i], first[i]))
                << "output or gradient " << i << " depends on the order of threads";
          }
        }
      }
    }
  });
}
#endif

using Check = std::function<void(const OpCase&)>;

class OpCaseTest : public ::testing::Test {
 public:
  OpCaseTest(size_t index, Check check) : index_(index), check_(std::move(check)) {}
  void TestBody() override { check_(op_cases()[index_]); }

 private:
  size_t index_;
  Check check_;
};

}  // namespace

namespace {

using Add = std::function<void(const std::string& property, const Check& check)>;

void add_small(const OpCase& op_case, const Add& add) {
  const bool independent = op_case.reference || op_case.composed;
  for (const Dtype dtype : op_case.dtypes) {
    const std::string suffix = concat("_", dtype);
    if (dtype != kFloat64 || independent) {
      add("values" + suffix, [dtype](const OpCase& c) { check_values(c, dtype, false); });
    }
    if (op_case.differentiable && (dtype != kFloat64 || op_case.composed)) {
      add("gradients" + suffix, [dtype](const OpCase& c) { check_gradients(c, dtype); });
    }
#ifdef WICK_HAS_CUDA
    add("other_device" + suffix, [dtype](const OpCase& c) { check_other_device(c, dtype, false); });
#endif
  }
  if (op_case.differentiable) {
    add("gradcheck", [](const OpCase& c) { check_numeric_gradients(c, false); });
  }
  if (op_case.second_order) {
    add("gradgradcheck", [](const OpCase& c) { check_numeric_gradients(c, true); });
  }
  if (op_case.any_layout) {
    for (const Dtype dtype : {kFloat32, kBFloat16, kInt64}) {
      if (std::count(op_case.dtypes.begin(), op_case.dtypes.end(), dtype) == 0) continue;
      add(concat("layouts_", dtype), [dtype](const OpCase& c) { check_layouts(c, dtype); });
    }
  }
  if (op_case.flops) add("flops", check_flops);
  const Dtype usual = usual_dtype(op_case);
  for (const Dtype dtype : {usual, kBFloat16}) {
    if (std::count(op_case.dtypes.begin(), op_case.dtypes.end(), dtype) == 0) continue;
    add(concat("graph_", dtype), [dtype](const OpCase& c) { check_graph(c, dtype); });
  }
}

void add_large(const OpCase& op_case, const Add& add) {
#ifdef WICK_HAS_CUDA
  for (const Dtype dtype : op_case.dtypes) {
    add(concat("other_device_large_", dtype),
        [dtype](const OpCase& c) { check_other_device(c, dtype, true); });
  }
#endif
  add("values_large", [](const OpCase& c) { check_values(c, usual_dtype(c), true); });
  if (op_case.same_for_any_threads) add("threads", check_threads);
}

}  // namespace

void register_tests(size_t index, const char* file, int line) {
  const OpCase& op_case = op_cases()[index];
  const Add add = [&](const std::string& property, const Check& check) {
    ::testing::RegisterTest(
        op_case.name.c_str(), property.c_str(), nullptr, nullptr, file, line,
        [index, check]() -> OpCaseTest* { return new OpCaseTest(index, check); });
  };
  // A check without samples would be one that cannot fail.
  if (has_samples(op_case, false)) add_small(op_case, add);
  if (has_samples(op_case, true)) add_large(op_case, add);
}

}  // namespace wick::testing
