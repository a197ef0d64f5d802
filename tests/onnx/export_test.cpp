#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>

#include "wick/core/core.h"
#include "wick/core/graph/passes.h"
#include "wick/core/graph/trace.h"
#include "wick/core/ops/detail/matmul_fused.h"
#include "wick/nn/nn.h"
#include "wick/onnx/onnx.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/paths.h"
#include "wick/tests/harness/temporary_folder.h"
#include "wick/tests/onnx/cases.h"

// Traced graphs written as ONNX: read again by Wick, and checked and run by check_export.py, where
// the Python that WICK_ONNX_PYTHON names has onnx and onnxruntime.
namespace wick::testing {
namespace {

using Tensors = std::vector<Tensor>;

// In parts of the largest element or 1, as in check_export.py.
void expect_close(const Tensor& x, const Tensor& y, const std::string& name) {
  ASSERT_EQ(x.shape(), y.shape()) << name;
  const double largest = std::max(1.0, y.abs().max().item<double>());
  EXPECT_LE((x - y).abs().max().item<double>(), 1e-5 * largest) << name;
}

// Attention of [B, H, L, E] by keys that `mask` leaves, or of the heads before.
struct Attending : nn::Module {
  Tensor mask;
  bool is_causal = false;
  int64_t heads = 4;  // of key and value
  Tensor forward(const Tensor& x) {
    const Tensor few = x.narrow(1, 0, heads);
    return scaled_dot_product_attention(x, few, few * 2, mask, 0, is_causal, {}, true);
  }
};

// Products and what graphs have them take in.
struct Products : nn::Module {
  Tensor weight = randn({8, 8}), bias;
  Tensor forward(const Tensor& x) {
    return linear_sum(matmul_scaled(x, x.transpose(-2, -1), 0.3).matmul(x), weight, bias, x);
  }
};

// Writes `net` on `x` to the folder, with the input and result for check_export.py, and reads the
// model again.
void write(nn::Module& net, const Tensor& x, const TemporaryFolder& folder,
           const std::string& name) {
  net.eval();
  const NoGrad no_grad;
  const graph::Graph made = graph::trace([&](const Tensors& in) -> Tensors { return {net(in[0])}; },
                                         {x}, net.state_dict());
  graph::Graph optimized = made;
  graph::optimize_for_inference(optimized);
  const Tensor y = net(x);
  for (const auto& [form, graph] : {std::pair(name, made), std::pair(name + "_fast", optimized)}) {
    onnx::save(graph, folder.path(form + ".onnx"));
    save_safetensors(folder.path(form + ".safetensors"), {{"input0", x}, {"output0", y}});
    nn::Handle<onnx::Module> again = onnx::load(folder.path(form + ".onnx"));
    again->eval();
    expect_close(again(x), y, form);
  }
}

void expect_agreement(const TemporaryFolder& folder) {
  const char* given = std::getenv("WICK_ONNX_PYTHON");
  const std::string python = given != nullptr ? given : "/usr/bin/python3";
  const std::string command =
      concat(python, " ", source_folder(), "/tests/onnx/check_export.py '", folder.path(), "'");
  const int status = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) {
    GTEST_SKIP() << python << " has no onnx or onnxruntime: WICK_ONNX_PYTHON names one that has";
  }
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Export, ImportedModelsAreWrittenAgainAndOnnxruntimeAgrees) {
  const TemporaryFolder folder;
  for (const std::string& name : onnx_case_names()) {
    nn::Handle<onnx::Module> net = onnx::load(onnx_case(name) + ".onnx");
    const Tensor x = load_safetensors(onnx_case(name) + ".safetensors").at("x");
    SCOPED_TRACE(name);
    EXPECT_NO_THROW(write(*net, x, folder, name));
  }
  expect_agreement(folder);
}

TEST(Export, WicksOwnLayersAreWrittenAndOnnxruntimeAgrees) {
  manual_seed(3);
  const TemporaryFolder folder;
  nn::Sequential images{nn::Conv2d(3, 6, 3, {.padding = 1}),
                        nn::BatchNorm2d(6),
                        nn::ReLU(),
                        nn::MaxPool2d(2),
                        nn::ConvTranspose2d(6, 4, 2, {.stride = 2}),
                        nn::GroupNorm(2, 4),
                        nn::GELU(),
                        nn::AdaptiveAvgPool2d({2, 2}),
                        nn::Flatten(),
                        nn::Linear(16, 5),
                        nn::Softmax(1)};
  for (int step = 0; step < 2; ++step) images(randn({4, 3, 8, 8}));  // running statistics
  write(images, randn({2, 3, 8, 8}), folder, "images");
  nn::TransformerEncoderLayer encoder(16, 4, {.dim_feedforward = 24, .batch_first = true});
  write(encoder, randn({2, 5, 16}), folder, "encoder");    // few queries: of its ops
  write(encoder, randn({2, 9, 16}), folder, "attending");  // in one kernel
  nn::Sequential numbers{nn::Linear(6, 8),
                         nn::SiLU(),
                         nn::LayerNorm({8}),
                         nn::Hardswish(),
                         nn::Softplus(),
                         nn::Linear(8, 5),
                         nn::GELU(GeluApproximation::kTanh),
                         nn::Mish()};
  write(numbers, randn({3, 6}), folder, "numbers");
  Products products;
  write(products, randn({2, 5, 8}), folder, "products");
  products.bias = randn({8});
  write(products, randn({5, 8}), folder, "biased");
  expect_agreement(folder);
}

TEST(Export, AttentionIsWrittenAndOnnxruntimeAgrees) {
  const TemporaryFolder folder;
  const Tensor x = randn({2, 4, 9, 8});
  Attending causal, kept, added;
  causal.is_causal = true;
  causal.heads = 2;
  write(causal, x, folder, "causal");
  kept.mask = gt(randn({9, 9}), 0);
  kept.mask.select(0, 3).zero_();  // a row without keys
  write(kept, x, folder, "kept");
  added.mask = randn({9, 9});
  write(added, x, folder, "added");
  expect_agreement(folder);
}

// On a GPU a layer is one op of the vendor's library, of both directions.
TEST(Export, RecurrentLayersOfAGpuAreWritten) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  const TemporaryFolder folder;
  const Tensor x = randn({5, 2, 3});
  const auto export_one = [&](auto net, const std::string& name) {
    const Tensor expected = net(x);
    net.to(kGpu);
    const NoGrad no_grad;
    const Tensors inputs{x.to(kGpu)};
    const graph::Graph made = graph::trace(
        [&](const Tensors& in) -> Tensors { return {net(in[0])}; }, inputs, net.state_dict());
    onnx::save(made, folder.path(name));
    nn::Handle<onnx::Module> again = onnx::load(folder.path(name));
    again->eval();
    expect_close(again(x), expected.detach(), name);
  };
  export_one(nn::LSTM(3, 4, {.num_layers = 2, .bidirectional = true}), "lstm.onnx");
  export_one(nn::GRU(3, 4, {.bias = false, .bidirectional = true}), "gru.onnx");
  export_one(nn::LSTM(3, 4), "forward.onnx");
  export_one(nn::RNN(3, 4), "rnn.onnx");
}

TEST(Export, AnOpWithoutAFormInOnnxIsAnErrorThatNamesTheOp) {
  const TemporaryFolder folder;
  const graph::Graph made = graph::trace(
      [](const Tensors& in) -> Tensors { return {in[0].sort().values}; }, {randn({4})});
  const std::string path = folder.path("sort.onnx");
  expect_error([&] { onnx::save(made, path); }, {"onnx: the op sort", "no form in ONNX"});
  EXPECT_THROW(onnx::load(path), Error);  // nothing is written
}

TEST(Export, DropoutInTrainingIsAnError) {
  const graph::Graph made = graph::trace(
      [](const Tensors& in) -> Tensors { return {dropout(in[0], 0.5)}; }, {randn({4})});
  const TemporaryFolder folder;
  expect_error([&] { onnx::save(made, folder.path("a.onnx")); }, {"dropout", "random numbers"});
}

}  // namespace
}  // namespace wick::testing
