#include "wick/kernels/cuda/chain_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "wick/core/base/check.h"
#include "wick/core/base/detail/dynamic_library.h"
#include "wick/kernels/cuda/runtime_headers.h"
#include "wick/kernels/elementwise_ops_activation.h"
#include "wick/kernels/elementwise_ops_arithmetic.h"
#include "wick/kernels/elementwise_ops_compare.h"
#include "wick/kernels/elementwise_ops_math.h"
#include "wick/kernels/elementwise_ops_shrink.h"
#include "wick/kernels/elementwise_ops_special.h"

// NVRTC needs no GPU: where it is installed, it compiles what is generated for GPUs.
namespace wick::testing {
namespace {

// The part of nvrtc.h that is called; a build for the simulated GPU has no such header.
struct RealNvrtc {
  int (*create)(void** program, const char* source, const char* name, int headers,
                const char* const* texts, const char* const* names) = nullptr;
  int (*compile)(void* program, int options, const char* const* words) = nullptr;
  int (*log_size)(void* program, size_t* bytes) = nullptr;
  int (*log)(void* program, char* text) = nullptr;
  int (*code_size)(void* program, size_t* bytes) = nullptr;
  int (*destroy)(void** program) = nullptr;

  explicit RealNvrtc(const char* file) {
    const DynamicLibrary library("NVRTC", file);
    library.find(create, "nvrtcCreateProgram");
    library.find(compile, "nvrtcCompileProgram");
    library.find(log_size, "nvrtcGetProgramLogSize");
    library.find(log, "nvrtcGetProgramLog");
    library.find(code_size, "nvrtcGetCUBINSize");
    library.find(destroy, "nvrtcDestroyProgram");
  }

  // What is wrong with a source; "" if nothing is.
  std::string complaint(const std::string& source, const std::string& architecture) const {
    std::vector<const char*> names, texts;
    for (const auto* headers : {&cuda::runtime_headers(), &cuda::standard_headers()}) {
      for (const cuda::RuntimeHeader& header : *headers) {
        names.push_back(header.name.c_str());
        texts.push_back(header.text.c_str());
      }
    }
    void* program = nullptr;
    if (create(&program, source.c_str(), "chain.cu", static_cast<int>(names.size()), texts.data(),
               names.data()) != 0) {
      return "nvrtcCreateProgram failed";
    }
    const std::string target = "--gpu-architecture=" + architecture;
    const char* const options[] = {"--std=c++20", "--device-as-default-execution-space",
                                   "-DWICK_RUNTIME_COMPILED=1", target.c_str()};
    std::string text;
    size_t bytes = 0;
    if (compile(program, 4, options) != 0) {
      log_size(program, &bytes);
      text.resize(bytes);
      log(program, text.data());
    } else if (code_size(program, &bytes) != 0 || bytes == 0) {
      text = "no machine code";
    }
    destroy(&program);
    return text;
  }
};

// Chains of one functor each, as the elementwise kernels note them.
class Chains {
 public:
  struct Source {
    std::string text;
    Dtype dtype;
  };
  std::vector<Source> sources;
  int functors = 0;

  template <class F>
  void add(const char* type) {
    ++functors;
    if constexpr (F::on_floats) {
      take<F>(type, kFloat32, kFloat32, false);
      take<F>(type, kFloat32, kBFloat16, true);
      take<F>(type, kFloat64, kFloat64, false);
    }
    if constexpr (F::on_integers) take<F>(type, kInt64, kInt32, false);
  }

  // Chains of kSteps steps, all of one dtype.
  void write() {
    for (auto& [name, steps] : pending_) {
      const auto [compute, dtype, is_quick] = name;
      for (size_t first = 0; first < steps.size(); first += kSteps) {
        write(compute, dtype, steps, first);
      }
    }
  }

 private:
  static constexpr size_t kSteps = 12;
  struct Step {
    FunctorSource source;
    int arity;
    std::shared_ptr<void> functor;
  };

  template <class F>
  void take(const char* type, Dtype compute, Dtype dtype, bool is_quick) {
    const FunctorSource source{type, sizeof(F), alignof(F), is_quick};
    pending_[{compute, dtype, is_quick}].push_back({source, F::arity, std::make_shared<F>()});
  }

  void write(Dtype compute, Dtype dtype, const std::vector<Step>& steps, size_t first) {
    ElementwiseChain chain;
    chain.num_results = 1;
    chain.num_views = 4;
    chain.num_steps = static_cast<int>(std::min(kSteps, steps.size() - first));
    for (int s = 0; s < chain.num_steps; ++s) {
      const Step& from = steps[first + static_cast<size_t>(s)];
      ElementwiseChain::Step& step = chain.steps[s];
      step.functor = from.functor.get();
      step.source = from.source;
      step.arity = from.arity;
      step.compute = compute;
      step.dtype = dtype;
      for (int k = 0; k < step.arity; ++k) step.x[k].view = 1 + k;
      if (s > 0) step.x[0] = {.step = s - 1};
      if (s + 1 == chain.num_steps) step.view = 0;
    }
    View views[4];
    for (View& view : views) {
      view = {nullptr, dtype, cuda_device(0), Shape({6, 10}), Strides({10, 1})};
    }
    views[2].strides = {0, 1};
    views[3].strides = {1, 6};
    views[3].dtype = kFloat64;  // packs of two elements, which take least to compile
    sources.push_back({cuda::chain_source(chain, views), dtype});
  }

  std::map<std::tuple<Dtype, Dtype, bool>, std::vector<Step>> pending_;
};

Chains all_functors() {
  Chains chains;
#define WICK_ADD(F) chains.add<F>(#F);
#define WICK_ADD_DIFFERENTIABLE(F) WICK_ADD(F) WICK_ADD(fn::Gradient<F>)
  WICK_ARITHMETIC_PLAIN(WICK_ADD)
  WICK_ARITHMETIC_DIFFERENTIABLE(WICK_ADD_DIFFERENTIABLE)
  WICK_COMPARE_PLAIN(WICK_ADD)
  WICK_ACTIVATION_DIFFERENTIABLE(WICK_ADD_DIFFERENTIABLE)
  WICK_MATH_DIFFERENTIABLE(WICK_ADD_DIFFERENTIABLE)
  WICK_SHRINK_DIFFERENTIABLE(WICK_ADD_DIFFERENTIABLE)
  WICK_SPECIAL_DIFFERENTIABLE(WICK_ADD_DIFFERENTIABLE)
  WICK_SPECIAL_PLAIN(WICK_ADD)
#undef WICK_ADD
#undef WICK_ADD_DIFFERENTIABLE
  chains.write();
  return chains;
}

TEST(ChainSource, NvrtcCompilesEveryFunctor) {
  std::string file;
  for (const char* const name : {"libnvrtc.so.13", "libnvrtc.so.12"}) {
    if (file.empty() && !find_library(name).empty()) file = name;
  }
  if (file.empty()) GTEST_SKIP() << "NVRTC is not installed: libnvrtc.so.13 was not found";
  const RealNvrtc nvrtc(file.c_str());
  const Chains chains = all_functors();
  EXPECT_GT(chains.functors, 120);
  for (const Chains::Source& source : chains.sources) {
    for (const char* const architecture : {"sm_80", "sm_90"}) {
      // What the generations differ in are conversions.
      if (source.dtype != kBFloat16 && architecture == std::string("sm_80")) continue;
      const std::string complaint = nvrtc.complaint(source.text, architecture);
      ASSERT_EQ(complaint, "") << architecture << "\n" << source.text;
    }
  }
}

// Attributes and shapes are arguments: the same source serves others.
TEST(ChainSource, DependsOnLayoutsAndDtypesAlone) {
  const auto source = [](double alpha, int64_t columns, Dtype dtype, bool broadcasts) {
    fn::Add add;
    add.alpha = {alpha, 1};
    ElementwiseChain chain;
    chain.num_results = 1;
    chain.num_views = 3;
    chain.num_steps = 1;
    chain.steps[0].functor = &add;
    chain.steps[0].source = {"fn::Add", sizeof(add), alignof(fn::Add), false};
    chain.steps[0].arity = 2;
    chain.steps[0].view = 0;
    chain.steps[0].x[0].view = 1;
    chain.steps[0].x[1].view = 2;
    View views[3];
    for (View& view : views) {
      view = {nullptr, dtype, cuda_device(0), Shape({4, columns}), Strides({columns, 1})};
    }
    if (broadcasts) views[2].strides = {0, 1};
    return cuda::chain_source(chain, views);
  };
  const std::string text = source(1, 8, kFloat32, true);
  EXPECT_EQ(source(2, 12, kFloat32, true), text);
  EXPECT_NE(source(1, 8, kFloat32, false), text);
  EXPECT_NE(source(1, 8, kFloat64, true), text);
}

}  // namespace
}  // namespace wick::testing
