// Recurrent layers by the vendor's library: where it is used, and that it gives what steps give.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "wick/core/amp.h"
#include "wick/core/autograd.h"
#include "wick/core/base/detail/dynamic_library.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/rnn.h"
#include "wick/tests/harness/deterministic.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/graph_ops.h"
#include "wick/tests/harness/host_array.h"

namespace wick::testing {
namespace {

constexpr int64_t kFeatures = 5;

// A layer on the GPU with inputs that require gradients; undefined, where there are none.
struct GpuLayer {
  RnnKind kind;
  std::vector<int64_t> batch_sizes;
  bool is_bidirectional = false, has_bias = true, has_states = true;
  int64_t projected = 0;
  Dtype dtype = kFloat32;

  Tensors inputs() const {
    constexpr int64_t kUnits = 4;
    const int64_t rows = std::accumulate(batch_sizes.begin(), batch_sizes.end(), int64_t{0});
    const int64_t width = projected > 0 ? projected : kUnits, gates = gates_of(kind) * kUnits;
    const auto make = [&](bool is_there, const Shape& shape) {
      if (!is_there) return Tensor();
      return randn(shape).to(dtype).to(kGpu).set_requires_grad();
    };
    const auto state = [&](int64_t columns) {
      return is_bidirectional ? Shape{2, batch_sizes[0], columns} : Shape{batch_sizes[0], columns};
    };
    Tensors all{make(true, {rows, kFeatures}), make(has_states, state(width)),
                make(has_states && kind == RnnKind::kLstm, state(kUnits))};
    for (int d = 0; d < (is_bidirectional ? 2 : 1); ++d) {
      for (const auto& [is_there, shape] :
           {std::pair{true, Shape{gates, kFeatures}}, std::pair{true, Shape{gates, width}},
            std::pair{has_bias, Shape{gates}}, std::pair{has_bias, Shape{gates}},
            std::pair{projected > 0, Shape{projected, kUnits}}}) {
        all.push_back(make(is_there, shape));
      }
    }
    return all;
  }

  Tensors call(const Tensors& x, bool reverse = false) const {
    const RnnWeights w{x[3], x[4], x[5], x[6], x[7]};
    const RnnResult all = is_bidirectional
                              ? bidirectional_rnn_layer(kind, x[0], batch_sizes, x[1], x[2], w,
                                                        {x[8], x[9], x[10], x[11], x[12]})
                              : rnn_layer(kind, x[0], batch_sizes, reverse, x[1], x[2], w);
    return all.c_n.defined() ? Tensors{all.y, all.h_n, all.c_n} : Tensors{all.y, all.h_n};
  }

  bool uses_library(bool reverse = false) const {
    const auto ops = graph_ops(call(inputs(), reverse));
    const bool uses = std::count(ops.begin(), ops.end(), "library_rnn_layer") > 0;
    EXPECT_NE(uses, std::count(ops.begin(), ops.end(), "rnn_layer") > 0);
    return uses;
  }

  // Results, and gradients of a sum of them with many weights.
  Tensors results(const Tensors& in) const {
    Tensors given, wanted;
    for (const Tensor& x : in) {
      given.push_back(x.defined() ? x.detach().clone().set_requires_grad() : x);
      if (x.defined()) wanted.push_back(given.back());
    }
    Tensors all = call(given), incoming;
    for (const Tensor& x : all)
      incoming.push_back(cos(arange(x.numel())).view(x.shape()).to(dtype).to(kGpu));
    const Tensors gradients = grad(all, wanted, incoming);
    all.insert(all.end(), gradients.begin(), gradients.end());
    return all;
  }
};

class RnnLibrary : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
    if (!device_properties(kGpu).simulated && find_library("libcudnn.so.9").empty()) {
      GTEST_SKIP() << "cuDNN 9 is not installed";
    }
  }
  void TearDown() override { set_library_rnn(true); }
};

TEST_F(RnnLibrary, ComputesLayersWhereItCan) {
  for (const RnnKind kind : {RnnKind::kTanh, RnnKind::kRelu, RnnKind::kLstm, RnnKind::kGru}) {
    EXPECT_TRUE((GpuLayer{kind, {3, 3}}.uses_library())) << to_string(kind);
    EXPECT_TRUE((GpuLayer{kind, {3, 2, 2, 0}, true, false, false}.uses_library()))
        << to_string(kind);
  }
  const GpuLayer layer{RnnKind::kLstm, {3, 2}};
  for (const Dtype dtype : {kFloat64, kFloat32, kFloat16, kBFloat16}) {
    EXPECT_TRUE((GpuLayer{RnnKind::kLstm, {3, 2}, true, true, true, 2, dtype}.uses_library()));
  }
  {
    const amp::Autocast autocast(kGpu, kBFloat16);
    EXPECT_TRUE(layer.uses_library());
  }
  EXPECT_FALSE(layer.uses_library(/*reverse=*/true));
  EXPECT_FALSE((GpuLayer{RnnKind::kLstm, {3, 2}, true, true, true, 4}.uses_library()));
  EXPECT_FALSE((GpuLayer{RnnKind::kLstm, {3}}.uses_library()));
  EXPECT_FALSE((GpuLayer{RnnKind::kLstm, {3, 0}}.uses_library()));
  EXPECT_FALSE((GpuLayer{RnnKind::kLstm, {0, 0}, true}.uses_library()));
  {
    const Deterministic only;
    EXPECT_FALSE(layer.uses_library());
  }
  set_library_rnn(false);
  EXPECT_FALSE(library_rnn_enabled());
  EXPECT_FALSE(layer.uses_library());
}

TEST_F(RnnLibrary, GivesWhatTheStepsGive) {
  std::vector<GpuLayer> layers;
  for (const RnnKind kind : {RnnKind::kTanh, RnnKind::kRelu, RnnKind::kLstm, RnnKind::kGru}) {
    for (const bool is_bidirectional : {false, true}) {
      layers.push_back({kind, {3, 3, 3}, is_bidirectional});
      layers.push_back({kind, {4, 4, 2, 1}, is_bidirectional, false, true, 0, kFloat64});
      layers.push_back({kind, {4, 2, 2, 0}, is_bidirectional, true, false});
    }
  }
  layers.push_back({RnnKind::kLstm, {4, 2, 1}, false, true, true, 2});
  layers.push_back({RnnKind::kLstm, {4, 2, 1}, true, false, false, 3, kFloat64});
  for (const GpuLayer& layer : layers) {
    SCOPED_TRACE(concat(layer.kind, " both ", layer.is_bidirectional, " bias ", layer.has_bias,
                        " states ", layer.has_states, " projected ", layer.projected));
    const Tensors in = layer.inputs();
    set_library_rnn(true);
    const Tensors found = layer.results(in);
    set_library_rnn(false);
    const Tensors expected = layer.results(in);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i].shape(), expected[i].shape()) << i;
      const double scale = 1 + expected[i].abs().max().to(kFloat64).item<double>();
      const double difference = (found[i] - expected[i]).abs().max().to(kFloat64).item<double>();
      EXPECT_LT(difference / scale, layer.dtype == kFloat64 ? 1e-12 : 1e-4) << i;
      EXPECT_GT(scale, 1.001) << i;
    }
  }
}

// What the library kept serves every backward through the same graph.
TEST_F(RnnLibrary, DifferentiatesTwiceThroughOneGraph) {
  const GpuLayer layer{RnnKind::kGru, {3, 2, 2}, true};
  const Tensors in = layer.inputs();
  const Tensor loss = layer.call(in)[0].square().sum();
  const Tensor first = grad({loss}, {in[4]}, {}, /*retain_graph=*/true)[0];
  const Tensor again = grad({loss}, {in[4]})[0];
  EXPECT_TRUE(eq(first, again).all().item<bool>());
  EXPECT_GT(first.abs().max().item<float>(), 1e-3f);
}

TEST_F(RnnLibrary, DifferentiatesWhatIsUsedAlone) {
  const GpuLayer layer{RnnKind::kLstm, {3, 2, 1}, true};
  const Tensors in = layer.inputs();
  for (size_t output = 0; output < 3; ++output) {
    const auto gradient = [&](bool by_library, const Tensor& x) {
      set_library_rnn(by_library);
      return grad({layer.call(in)[output].sum()}, {x})[0];
    };
    for (const size_t input : {0, 1, 9}) {  // without and with the weights
      const Tensor difference = gradient(true, in[input]) - gradient(false, in[input]);
      EXPECT_LT(difference.abs().max().item<float>(), 1e-4f) << output << " by " << input;
    }
  }
}

}  // namespace
}  // namespace wick::testing
