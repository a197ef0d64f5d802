#include "wick/core/ops/norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "wick/core/autograd.h"
#include "wick/core/ops/activation.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/detail/norm_composed.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/random.h"
#include "wick/core/stream.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/op_case.h"

namespace wick::testing {
namespace {

// (x - mean) / sqrt(var + eps) over groups of elements, `group_of(i)` being that of element i, then
// weight and bias of `channel_of(i)`. RMS norm where `centered` is false.
template <class GroupOf, class ChannelOf>
HostArray normalised(const Arrays& in, double eps, bool centered, const GroupOf& group_of,
                     const ChannelOf& channel_of) {
  const HostArray& x = in[0];
  std::vector<double> count, mean, square;
  const auto grow = [&](size_t g) {
    if (g < count.size()) return;
    for (auto* v : {&count, &mean, &square}) v->resize(g + 1, 0);
  };
  const size_t n = x.values.size();
  for (size_t i = 0; i < n; ++i) {
    const size_t g = group_of(i);
    grow(g);
    count[g] += 1;
    if (centered) mean[g] += x.values[i];
  }
  for (size_t g = 0; g < count.size(); ++g) mean[g] /= count[g];
  for (size_t i = 0; i < n; ++i) {
    const double d = x.values[i] - mean[group_of(i)];
    square[group_of(i)] += d * d;
  }
  HostArray y = x;
  for (size_t i = 0; i < n; ++i) {
    const size_t g = group_of(i), c = channel_of(i);
    y.values[i] = (x.values[i] - mean[g]) / std::sqrt(square[g] / count[g] + eps);
    if (in.size() > 1) y.values[i] *= in[1].values[c];
    if (in.size() > 2) y.values[i] += in[2].values[c];
  }
  return y;
}

size_t positions(const HostArray& x) {
  size_t n = 1;
  for (int axis = 2; axis < x.shape.rank(); ++axis) n *= static_cast<size_t>(x.shape[axis]);
  return n;
}

HostArray reference_batch_norm(const Arrays& in) {
  const size_t inner = positions(in[0]), channels = static_cast<size_t>(in[0].shape[1]);
  const auto channel = [=](size_t i) { return i / inner % channels; };
  return normalised(in, 1e-5, true, channel, channel);
}

Sample channels(const Shape& shape) {
  return {normal(shape), uniform({shape[1]}, 0.5, 1.5), normal({shape[1]})};
}
const Samples kBatches = {channels({31, 33}),     channels({2, 3, 5}),     channels({3, 5, 4, 4}),
                          channels({2, 1, 7, 3}), channels({4, 70, 3, 3}), channels({700, 17})};
// Gradients of batch norm are differences of sums.
constexpr Tolerance kNormTolerance{64, 32};

WICK_OP_CASE(
    batch_norm, .samples = kBatches,
    .call = [](const Tensors& x) -> Tensors { return {batch_norm(x[0], x[1], x[2], {}, {})}; },
    .reference = [](const Arrays& x) -> Arrays { return {reference_batch_norm(x)}; },
    .composed = [](const Tensors& x) -> Tensors {
      return {composed_batch_norm(x[0], x[1], x[2], 1e-5)};
    },
    .tolerance = kNormTolerance, .second_order = true);

// The gradient of the square reads the result, which is recomputed.
WICK_OP_CASE(
    batch_norm_plain, .covers = {"batch_norm_recompute"}, .samples = {{normal({5, 6, 3, 2})}},
    .call = [](const Tensors& x) -> Tensors { return {square(batch_norm(x[0], {}, {}, {}, {}))}; },
    .reference = [](const Arrays& x) -> Arrays {
      HostArray y = reference_batch_norm(x);
      for (double& v : y.values) v *= v;
      return {y};
    },
    .tolerance = kNormTolerance, .second_order = true);

// Inputs shifted by their bias so that few results lie at the ReLU's kink.
Arrays rectified(const HostArray& y) {
  HostArray z = y;
  for (double& v : z.values) v = std::max(v, 0.0);
  return {z};
}

WICK_OP_CASE(
    batch_norm_relu, .samples = kBatches,
    .call = [](const Tensors& x) -> Tensors { return {batch_norm_relu(x[0], x[1], x[2], {}, {})}; },
    .reference = [](const Arrays& x) { return rectified(reference_batch_norm(x)); },
    .composed = [](const Tensors& x) -> Tensors {
      return {relu(composed_batch_norm(x[0], x[1], x[2], 1e-5))};
    },
    .tolerance = kNormTolerance, .second_order = true);

Sample with_residual(const Shape& shape) {
  Sample sample = channels(shape);
  sample.push_back(normal(shape));
  return sample;
}
WICK_OP_CASE(
    batch_norm_add_relu,
    .samples = {with_residual({31, 33}), with_residual({3, 5, 4, 4}), with_residual({2, 70, 3, 3}),
                with_residual({2, 3, 5})},
    .call = [](const Tensors& x) -> Tensors {
      return {batch_norm_add_relu(x[0], x[3], x[1], x[2], {}, {})};
    },
    .reference = [](const Arrays& x) -> Arrays {
      HostArray y = reference_batch_norm({x[0], x[1], x[2]});
      for (size_t i = 0; i < y.values.size(); ++i) y.values[i] += x[3].values[i];
      return rectified(y);
    },
    .composed = [](const Tensors& x) -> Tensors {
      return {relu(composed_batch_norm(x[0], x[1], x[2], 1e-5) + x[3])};
    },
    .tolerance = kNormTolerance, .second_order = true);

Sample with_statistics(const Shape& shape) {
  Sample sample = channels(shape);
  sample.push_back(normal({shape[1]}).constant());
  sample.push_back(uniform({shape[1]}, 0.5, 2).constant());
  return sample;
}
WICK_OP_CASE(
    batch_norm_eval,
    .samples = {with_statistics({31, 33}), with_statistics({3, 5, 4, 4}),
                with_statistics({2, 3, 5})},
    .call = [](const Tensors& x) -> Tensors {
      return {batch_norm(x[0], x[1], x[2], x[3], x[4], {.training = false})};
    },
    .reference = [](const Arrays& x) -> Arrays {
      HostArray y = x[0];
      const size_t inner = positions(y), count = static_cast<size_t>(y.shape[1]);
      for (size_t i = 0; i < y.values.size(); ++i) {
        const size_t c = i / inner % count;
        y.values[i] =
            (y.values[i] - x[3].values[c]) / std::sqrt(x[4].values[c] + 1e-5) * x[1].values[c] +
            x[2].values[c];
      }
      return {y};
    },
    .tolerance = kNormTolerance, .second_order = true);

// Rows of the last axis; weight and bias of its size.
Sample rows(const Shape& shape) {
  return {normal(shape), uniform({shape.back()}, 0.5, 1.5), normal({shape.back()})};
}
const Samples kRows = {rows({31, 33}),  rows({2, 3, 127}), rows({5, 1}),    rows({0, 4}),
                       rows({2, 5000}), rows({9, 20000}),  rows({300, 100})};

HostArray reference_rows(const Arrays& in, double eps, bool centered) {
  const size_t size = static_cast<size_t>(in[0].shape.back());
  return normalised(
      in, eps, centered, [=](size_t i) { return i / size; }, [=](size_t i) { return i % size; });
}

WICK_OP_CASE(
    layer_norm, .samples = kRows,
    .call = [](const Tensors& x) -> Tensors {
      return {layer_norm(x[0], {x[0].size(-1)}, x[1], x[2])};
    },
    .reference = [](const Arrays& x) -> Arrays { return {reference_rows(x, 1e-5, true)}; },
    .composed = [](const Tensors& x) -> Tensors {
      return {composed_layer_norm(x[0], 1, x[1], x[2], 1e-5)};
    },
    .tolerance = kNormTolerance, .second_order = true);

WICK_OP_CASE(
    layer_norm_two_axes, .samples = {{normal({4, 3, 5})}},
    .call = [](const Tensors& x) -> Tensors {
      return {layer_norm(x[0], {3, 5})};
    },
    .reference = [](const Arrays& x) -> Arrays {
      return {normalised(
          x, 1e-5, true, [](size_t i) { return i / 15; }, [](size_t) -> size_t { return 0; })};
    },
    .tolerance = kNormTolerance, .second_order = true);

WICK_OP_CASE(
    rms_norm,
    .samples = {{normal({31, 33}), uniform({33}, 0.5, 1.5)},
                {normal({2, 3, 127}), normal({127})},
                {normal({1}), normal({1})}},
    .call = [](const Tensors& x) -> Tensors {
      return {rms_norm(x[0], {x[0].size(-1)}, x[1], 1e-6)};
    },
    .reference = [](const Arrays& x) -> Arrays { return {reference_rows(x, 1e-6, false)}; },
    .composed = [](const Tensors& x) -> Tensors {
      return {composed_rms_norm(x[0], 1, x[1], 1e-6)};
    },
    .tolerance = kNormTolerance, .second_order = true);

// Whole numbers, whose sums are exact in half types too: it is the rounded sum that is normalised.
Input whole(const Shape& shape) {
  return {.shape = shape, .fill = Input::Fill::kIndex, .low = -8, .high = 8};
}
Sample rows_and_residual(const Shape& shape) {
  Sample sample = rows(shape);
  sample[0] = whole(shape);
  sample.push_back(whole(shape));
  return sample;
}

// x + residual and the norm of that.
Arrays reference_add_norm(const Arrays& in, const HostArray& residual, double eps, bool centered) {
  Arrays rows = in;
  for (size_t i = 0; i < residual.values.size(); ++i) rows[0].values[i] += residual.values[i];
  return {rows[0], reference_rows(rows, eps, centered)};
}

WICK_OP_CASE(
    add_layer_norm,
    .samples = {rows_and_residual({31, 33}), rows_and_residual({2, 3, 127}),
                rows_and_residual({5, 1}), rows_and_residual({0, 4}), rows_and_residual({2, 5000}),
                rows_and_residual({300, 100})},
    .call = [](const Tensors& x) -> Tensors {
      const SumAndNorm both = add_layer_norm(x[0], x[3], {x[0].size(-1)}, x[1], x[2]);
      return {both.sum, both.y};
    },
    .reference = [](const Arrays& x) -> Arrays {
      return reference_add_norm({x[0], x[1], x[2]}, x[3], 1e-5, true);
    },
    .composed = [](const Tensors& x) -> Tensors {
      const Tensor sum = x[0] + x[3];
      return {sum, composed_layer_norm(sum, 1, x[1], x[2], 1e-5)};
    },
    .tolerance = kNormTolerance, .second_order = true);

WICK_OP_CASE(
    add_rms_norm,
    .samples = {{whole({31, 33}), uniform({33}, 0.5, 1.5), whole({31, 33})},
                {whole({2, 3, 127}), normal({127}), whole({2, 3, 127})}},
    .call = [](const Tensors& x) -> Tensors {
      const SumAndNorm both = add_rms_norm(x[0], x[2], {x[0].size(-1)}, x[1], 1e-6);
      return {both.sum, both.y};
    },
    .reference = [](const Arrays& x) -> Arrays {
      return reference_add_norm({x[0], x[1]}, x[2], 1e-6, false);
    },
    .composed = [](const Tensors& x) -> Tensors {
      const Tensor sum = x[0] + x[2];
      return {sum, composed_rms_norm(sum, 1, x[1], 1e-6)};
    },
    .tolerance = kNormTolerance, .second_order = true);

HostArray reference_group_norm(const Arrays& in, size_t groups = 2) {
  const size_t inner = positions(in[0]), count = static_cast<size_t>(in[0].shape[1]);
  const size_t group = inner * count / groups;
  return normalised(
      in, 1e-5, true, [=](size_t i) { return i / group; },
      [=](size_t i) { return i / inner % count; });
}

WICK_OP_CASE(
    group_norm,
    .samples = {channels({3, 6}), channels({2, 4, 5}), channels({2, 6, 3, 5}),
                channels({3, 34, 4, 4})},
    .call = [](const Tensors& x) -> Tensors { return {group_norm(x[0], 2, x[1], x[2])}; },
    .reference = [](const Arrays& x) -> Arrays { return {reference_group_norm(x)}; },
    .composed = [](const Tensors& x) -> Tensors {
      return {composed_group_norm(x[0], 2, x[1], x[2], 1e-5)};
    },
    .tolerance = kNormTolerance, .second_order = true);

WICK_OP_CASE(
    instance_norm,  // a channel per group
    .samples = {channels({2, 5, 7}), channels({3, 6, 4, 5}), channels({2, 33, 8, 9})},
    .call = [](const Tensors& x) -> Tensors {
      return {group_norm(x[0], x[0].size(1), x[1], x[2])};
    },
    .reference = [](const Arrays& x) -> Arrays {
      return {reference_group_norm(x, static_cast<size_t>(x[0].shape[1]))};
    },
    .tolerance = kNormTolerance, .second_order = true);

WICK_OP_CASE(
    group_norm_relu, .samples = {channels({3, 6}), channels({2, 6, 3, 5}), channels({3, 34, 4, 4})},
    .call = [](const Tensors& x) -> Tensors { return {group_norm_relu(x[0], 2, x[1], x[2])}; },
    .reference = [](const Arrays& x) { return rectified(reference_group_norm(x)); },
    .composed = [](const Tensors& x) -> Tensors {
      return {relu(composed_group_norm(x[0], 2, x[1], x[2], 1e-5))};
    },
    .tolerance = kNormTolerance, .second_order = true);

WICK_OP_CASE(
    group_norm_add_relu,
    .samples = {with_residual({3, 34}), with_residual({3, 6, 4, 4}), with_residual({2, 4, 5})},
    .call = [](const Tensors& x) -> Tensors {
      return {group_norm_add_relu(x[0], x[3], 2, x[1], x[2])};
    },
    .reference = [](const Arrays& x) -> Arrays {
      HostArray y = reference_group_norm({x[0], x[1], x[2]});
      for (size_t i = 0; i < y.values.size(); ++i) y.values[i] += x[3].values[i];
      return rectified(y);
    },
    .composed = [](const Tensors& x) -> Tensors {
      return {relu(composed_group_norm(x[0], 2, x[1], x[2], 1e-5) + x[3])};
    },
    .tolerance = kNormTolerance, .second_order = true);

// --- What the cases do not show ------------------------------------------------------------------

TEST(BatchNorm, UpdatesTheRunningStatisticsInPlace) {
  const Tensor x = tensor<float>({1, 10, 2, 20, 3, 60}, Shape{3, 2});
  const Tensor mean = zeros({2}), var = ones({2});
  const uint64_t version = mean.version();
  batch_norm(x, {}, {}, mean, var, {.momentum = 0.5});
  EXPECT_EQ(mean.to_vector<float>(), (std::vector<float>{1, 15}));
  EXPECT_EQ(var.to_vector<float>(), (std::vector<float>{1, 350.5f}));
  EXPECT_GT(mean.version(), version);
  const Tensor y = batch_norm(x, {}, {}, mean, var, {.training = false});
  EXPECT_EQ(mean.to_vector<float>(), (std::vector<float>{1, 15}));
  EXPECT_NEAR(y[0].to_vector<float>()[1], -5 / std::sqrt(350.5), 1e-6);
}

TEST(BatchNorm, IsAccurateWhateverTheOffset) {
  Tensor x = empty({64, 3, 33, 33});
  const Tensor noise = empty_like(x).normal_();
  for (const MemoryFormat format : {MemoryFormat::kContiguous, MemoryFormat::kChannelsLast}) {
    for (const double offset : {0.0, 1000.0, 100000.0}) {
      x = (noise + offset).contiguous(format);
      const Tensor want = composed_batch_norm(x.to(kFloat64), {}, {}, 1e-5);
      for (const Device device : devices()) {
        const Tensor got = batch_norm(x.to(device), {}, {}, {}, {}).to(kCpu).to(kFloat64);
        EXPECT_LT(amax(abs(got - want)).item(), 2e-6) << offset << " " << to_string(device);
      }
    }
  }
}

// Images large enough for a GPU to cut them into several pieces.
Tensors channel_norms(const Tensors& cpu_inputs, Device device, bool batch) {
  Tensors in;
  for (size_t i = 0; i < 4; ++i) {
    in.push_back(cpu_inputs[i].to(device).detach().set_requires_grad());
  }
  const Tensor y = batch ? batch_norm_add_relu(in[0], in[1], in[2], in[3], {}, {})
                         : group_norm_add_relu(in[0], in[1], 4, in[2], in[3]);
  Tensors results = grad({y}, in, {cpu_inputs[4].to(device)});
  results.push_back(y.detach());
  return results;
}

TEST(Norms, AgreeOnAGpuInSeveralPieces) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  manual_seed(5);
  for (const Shape& shape : {Shape{2, 64, 20, 20}, Shape{3, 20, 17, 15}, Shape{1, 264, 9, 9}}) {
    for (const MemoryFormat format : {MemoryFormat::kContiguous, MemoryFormat::kChannelsLast}) {
      for (const Dtype dtype : {kFloat32, kFloat16, kBFloat16}) {
        Tensors in;
        for (const Shape& size : {shape, shape, Shape{shape[1]}, Shape{shape[1]}, shape}) {
          in.push_back(empty(size, kFloat32).normal_().to(dtype));
          if (size.rank() == 4) in.back() = in.back().contiguous(format);
        }
        for (const bool batch : {true, false}) {
          const Tensors want = channel_norms(in, kCpu, batch);
          const Tensors got = channel_norms(in, cuda_device(0), batch);
          for (size_t i = 0; i < want.size(); ++i) {
            const double tolerance = dtype == kFloat32 ? 1e-5 : dtype == kFloat16 ? 0x1p-9 : 0x1p-6;
            const HostArray right = read(want[i]);
            EXPECT_EQ(difference(read(got[i]), right, tolerance, 10 * tolerance), "")
                << to_string(shape) << " " << to_string(dtype) << " result " << i << " of "
                << (batch ? "batch norm" : "group norm");
          }
        }
      }
    }
  }
}

TEST(BatchNorm, AnOutlierInTheFirstRowDoesNotSpoilTheRest) {
  Tensor x = empty({4096, 16}).normal_();
  for (int64_t c = 0; c < 16; ++c) x.data<float>()[c] = 1e6f;
  const Tensor want = composed_batch_norm(x.to(kFloat64), {}, {}, 1e-5);
  // The outlier itself becomes 64.
  EXPECT_LT(amax(abs(batch_norm(x, {}, {}, {}, {}).to(kFloat64) - want)).item(), 64 * 4e-7);
}

TEST(BatchNorm, LargeBatchesMatchTheComposedForm) {
  for (const Shape& shape : {Shape{37, 48, 32, 32}, Shape{5000, 130}, Shape{9, 20, 61, 61}}) {
    const bool images = shape.rank() == 4;
    Tensor x = empty(shape, kFloat32, kCpu,
                     images ? MemoryFormat::kChannelsLast : MemoryFormat::kContiguous);
    x.normal_();
    const Tensor residual = empty_like(x).normal_(), dy = empty_like(x).normal_();
    const Tensor weight = empty({shape[1]}).uniform_(0.5, 1.5), bias = zeros({shape[1]}).normal_();
    const auto gradients = [&](Dtype dtype, bool fused) {
      const Tensor a = x.to(dtype).detach().set_requires_grad();
      const Tensor r = residual.to(dtype).detach().set_requires_grad();
      const Tensor w = weight.to(dtype).detach().set_requires_grad();
      const Tensor b = bias.to(dtype).detach().set_requires_grad();
      const Tensor y = fused ? batch_norm_add_relu(a, r, w, b, {}, {})
                             : relu(composed_batch_norm(a, w, b, 1e-5) + r);
      return grad({y}, {a, r, w, b}, {dy.to(dtype)});
    };
    const std::vector<Tensor> got = gradients(kFloat32, true), want = gradients(kFloat64, false);
    for (size_t i = 0; i < got.size(); ++i) {
      const Tensor error = abs(got[i].to(kFloat64) - want[i]);
      // Results within rounding of the ReLU's kink may fall on its other side.
      const Tensor wrong = error > 1e-4 * std::max(1.0, amax(abs(want[i])).item());
      EXPECT_LE(sum(wrong).item<int64_t>(), i < 2 ? 20 : 0) << to_string(shape) << " " << i;
    }
  }
}

TEST(BatchNorm, NarrowInputsKeepWideParameters) {
  const Tensor x = empty({8, 4, 3, 3}).normal_().to(kBFloat16).set_requires_grad();
  const Tensor weight = ones({4}).set_requires_grad(), bias = zeros({4}).set_requires_grad();
  const Tensor y = batch_norm_relu(x, weight, bias, zeros({4}), ones({4}));
  EXPECT_EQ(y.dtype(), kBFloat16);
  y.backward(ones_like(y));
  EXPECT_EQ(weight.grad().dtype(), kFloat32);
  EXPECT_EQ(x.grad().dtype(), kBFloat16);
}

TEST(BatchNorm, KeepsChannelsLastAndReluWithoutGradient) {
  const Tensor x = empty({2, 3, 4, 4}).normal_().contiguous(MemoryFormat::kChannelsLast);
  const Tensor y = batch_norm_relu(x, {}, {}, {}, {});
  EXPECT_TRUE(y.is_contiguous(MemoryFormat::kChannelsLast));
  EXPECT_GE(amin(y).item(), 0);
  EXPECT_TRUE(group_norm(x, 3).is_contiguous(MemoryFormat::kChannelsLast));
}

TEST(BatchNorm, EmptyBatchesInEvaluation) {
  const Tensor x = empty({0, 3, 2, 2}).set_requires_grad(), weight = ones({3}).set_requires_grad();
  const Tensor y = batch_norm(x, weight, {}, zeros({3}), ones({3}), {.training = false});
  EXPECT_EQ(y.shape(), x.shape());
  y.sum().backward();
  EXPECT_EQ(weight.grad().to_vector<float>(), (std::vector<float>{0, 0, 0}));
}

TEST(BatchNorm, EmptyBatchesInTrainingLeaveTheStatistics) {
  const Tensor x = empty({0, 3, 2, 2}).set_requires_grad(), weight = ones({3}).set_requires_grad();
  const Tensor mean = full({3}, 0.5), variance = full({3}, 2);
  const Tensor y = batch_norm(x, weight, {}, mean, variance);
  EXPECT_EQ(y.shape(), x.shape());
  EXPECT_EQ(batch_norm_relu(x, weight, {}, mean, variance).shape(), x.shape());
  y.sum().backward();
  EXPECT_EQ(weight.grad().to_vector<float>(), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(mean.to_vector<float>(), (std::vector<float>{0.5, 0.5, 0.5}));
  EXPECT_EQ(variance.to_vector<float>(), (std::vector<float>{2, 2, 2}));
}

TEST(GroupNorm, OfNothing) {
  for (const Shape& shape : {Shape{0, 4, 3, 3}, Shape{3, 4, 0}}) {
    const Tensor x = empty(shape).set_requires_grad(), weight = ones({4}).set_requires_grad();
    const Tensor y = group_norm(x, 2, weight);
    EXPECT_EQ(y.shape(), shape);
    y.sum().backward();
    EXPECT_EQ(x.grad().shape(), shape);
    EXPECT_EQ(weight.grad().to_vector<float>(), std::vector<float>(4, 0));
  }
}

TEST(Norms, SayWhatIsWrong) {
  const Tensor x = ones({4, 3});
  EXPECT_THROW(batch_norm(ones({4}), {}, {}, {}, {}), Error);
  EXPECT_THROW(batch_norm(ones({1, 3}), {}, {}, {}, {}), Error);
  EXPECT_THROW(batch_norm(x, ones({4}), {}, {}, {}), Error);
  EXPECT_THROW(batch_norm(x, {}, {}, zeros({3}), {}), Error);
  EXPECT_THROW(batch_norm(x, {}, {}, {}, {}, {.eps = -1}), Error);
  EXPECT_THROW(batch_norm(x.to(kInt64), {}, {}, {}, {}), Error);
  EXPECT_THROW(batch_norm_add_relu(x, ones({4, 1}), {}, {}, {}, {}), Error);
  EXPECT_THROW(batch_norm_add_relu(x, {}, {}, {}, {}, {}), Error);
  EXPECT_THROW(layer_norm(x, {4}), Error);
  EXPECT_THROW(layer_norm(x, {}), Error);
  EXPECT_THROW(layer_norm(x, {3}, ones({4})), Error);
  EXPECT_THROW(add_layer_norm(x, {}, {3}), Error);
  EXPECT_THROW(add_layer_norm(x, ones({1, 3}), {3}), Error);
  EXPECT_THROW(rms_norm(x, {3, 3, 3}), Error);
  EXPECT_THROW(group_norm(x, 2), Error);
  EXPECT_THROW(group_norm(x, 0), Error);
  EXPECT_THROW(group_norm_add_relu(x, ones({4, 1}), 3), Error);
  EXPECT_THROW(group_norm_add_relu(x, {}, 3), Error);
}

TEST(LayerNorm, IsAccurateWhateverTheOffset) {
  const Tensor x = empty({8, 5000}).normal_() + 10000;
  const Tensor want = composed_layer_norm(x.to(kFloat64), 1, {}, {}, 1e-5);
  EXPECT_LT(amax(abs(layer_norm(x, {5000}).to(kFloat64) - want)).item(), 2e-6);
}

}  // namespace
}  // namespace wick::testing
