// For tools/check_cudnn_graphs.sh: prints the engines that cuDNN has for graphs that kernels/cuda
// describes, and ends with 1 if it has none for one of them.
#include <cstdio>
#include <cstdlib>

#include "wick/core/base/check.h"
#include "wick/core/base/deterministic.h"
#include "wick/core/base/profiling.h"
#include "wick/kernels/attention.h"
#include "wick/kernels/copy.h"
#include "wick/kernels/cuda/common/enter_device.h"
#include "wick/kernels/cuda/common/library_error.h"
#include "wick/kernels/cuda/convolution.h"
#include "wick/kernels/elementwise.h"
#include "wick/kernels/elementwise_ops_arithmetic.h"

// Nothing is computed, so neither streams nor kernels are needed.
namespace wick::profile::detail {

void begin_kernel(const char*, Device, void*) {}
void end_kernel(Device, void*) noexcept {}

}  // namespace wick::profile::detail

namespace wick::cuda {

cudaStream_t enter_device(Device) { return nullptr; }
int64_t compute_capability(Device) {
  const char* const capability = std::getenv("WICK_CAPABILITY");
  return capability == nullptr ? 9 : std::atoi(capability) / 10;
}
void check(cudaError_t, const char*) {}
void check_device(const char*, const std::string&) {}
void fail_library(const char* call, const std::string& what, bool) {
  detail::fail(call, " failed: ", what);
}
void copy(const View&, const View&) {}
template <class F>
void elementwise(const F&, Dtype, const View&, const View*) {}
template void elementwise<fn::Add>(const fn::Add&, Dtype, const View&, const View*);

}  // namespace wick::cuda

namespace wick {
namespace {

int missing = 0;

void print(const std::string& what, bool has, const std::vector<std::string>& engines) {
  std::printf("%s %s:", has ? "yes" : "NO ", what.c_str());
  for (const std::string& engine : engines) std::printf(" %s", engine.c_str());
  std::printf("\n");
  std::fflush(stdout);
  missing += !has;
}

View view_of(const Shape& shape, const Shape& strides, Dtype dtype) {
  static char data;
  return {&data, dtype, cuda_device(0), shape, strides};
}

struct Sizes {
  int64_t batch, heads, queries, keys, features, values;
};

// As a projection leaves the heads.
View heads_of(const Sizes& n, int64_t length, int64_t features, Dtype dtype) {
  return view_of({n.batch, n.heads, length, features},
                 {n.heads * length * features, features, n.heads * features, 1}, dtype);
}

void check_attention(const Sizes& n, Dtype dtype, bool is_causal, const Shape& bias = {}) {
  Attention a;
  a.q = heads_of(n, n.queries, n.features, dtype);
  a.k = heads_of(n, n.keys, n.features, dtype);
  a.v = heads_of(n, n.keys, n.values, dtype);
  const Shape o{n.batch, n.heads, n.queries, n.values};
  a.o = view_of(o, contiguous_strides(o), dtype);
  if (!bias.empty()) a.bias = view_of(bias, contiguous_strides(bias), dtype);
  a.is_causal = is_causal;
  const bool has = cuda::has_attention(a);
  for (const auto direction : {AttentionDirection::kForward, AttentionDirection::kBackward}) {
    const bool is_forward = direction == AttentionDirection::kForward;
    print(concat("attention_", is_forward ? "forward " : "backward ", to_string(dtype),
                 " q=", a.q.shape, " k=", a.k.shape, " v=", a.v.shape,
                 bias.empty() ? "" : concat(" bias=", bias), is_causal ? " causal" : "",
                 deterministic() ? " deterministic" : ""),
          has, cuda::attention_engines(a, direction));
  }
}

void check_convolution(ConvDirection direction, Dtype dtype) {
  const Conv2dProblem problem{
      direction, dtype, {32, 64, 56, 56}, {64, 64, 3, 3}, {32, 64, 56, 56}, {.padding = {1, 1}}};
  const Device device = cuda_device(0);
  print(concat("convolution ", static_cast<int64_t>(direction), " ", to_string(dtype), " x=",
               problem.x, " weight=", problem.weight, deterministic() ? " deterministic" : ""),
        cuda::has_convolution(device, problem), cuda::convolution_engines(device, problem));
}

void check_all() {
  const Sizes odd{2, 3, 5, 7, 8, 16}, gpt{8, 12, 1024, 1024, 64, 64};
  for (const bool is_deterministic : {false, true}) {
    set_deterministic(is_deterministic);
    check_attention(odd, kFloat16, false);
    check_attention(odd, kFloat16, true);
    check_attention(odd, kFloat16, false, {1, 1, 5, 7});
    check_attention(odd, kBFloat16, false, {2, 3, 5, 7});
    check_attention(gpt, kBFloat16, true);
    check_attention({64, 12, 197, 197, 64, 64}, kFloat16, false);
    for (const auto direction :
         {ConvDirection::kForward, ConvDirection::kBackwardData, ConvDirection::kBackwardWeights}) {
      for (const Dtype dtype : {kFloat32, kBFloat16}) check_convolution(direction, dtype);
    }
  }
}

}  // namespace
}  // namespace wick

int main() {
  try {
    wick::check_all();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cudnn_graphs: %s\n", error.what());
    return 1;
  }
  std::printf("%d without an engine\n", wick::missing);
  return wick::missing > 0 ? 1 : 0;
}
