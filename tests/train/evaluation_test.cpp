#include "wick/train/evaluation.h"

#include <gtest/gtest.h>

#include "wick/core/profile/profiler.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/train/small_run.h"

namespace wick::testing {
namespace {

data::Prefetcher loader_of(int64_t count, int64_t batch) {
  return data::load_ahead(rows(count), {.batch_size = batch}, kCpu);
}

TEST(Evaluation, MeansAreOverSamplesWhateverTheBatches) {
  const auto model = small_model();
  std::vector<train::Evaluation> results;
  for (const int64_t batch : {30, 7, 1}) {
    data::Prefetcher loader = loader_of(30, batch);
    results.push_back(train::evaluate(*model, loader, small_loss(model)));
  }
  for (const train::Evaluation& result : results) {
    EXPECT_EQ(result.samples, 30);
    EXPECT_NEAR(result.loss, results[0].loss, 1e-6);
    EXPECT_EQ(result.means, results[0].means);
  }
}

TEST(Evaluation, RunsInEvaluationModeAndPutsTrainingBack) {
  const auto model = small_model();
  std::vector<int64_t> seen;
  train::EvaluationOptions options;
  options.on_batch = [&](int64_t samples) { seen.push_back(samples); };
  const auto loss = [&](const data::Batch& batch) {
    EXPECT_FALSE(model->is_training());
    EXPECT_FALSE(grad_enabled());
    return small_loss(model)(batch);
  };
  data::Prefetcher loader = loader_of(10, 4);
  train::evaluate(*model, loader, loss, options);
  EXPECT_EQ(seen, (std::vector<int64_t>{4, 8, 10}));
  EXPECT_TRUE(model->is_training());
  const auto broken = [](const data::Batch&) -> train::BatchLoss { throw Error("broken"); };
  EXPECT_EQ(error_of([&] { train::evaluate(*model, loader, broken); }), "broken");
  EXPECT_TRUE(model->is_training());
  model->eval();
  data::Prefetcher other = loader_of(4, 4);
  train::evaluate(*model, other, small_loss(model));
  EXPECT_FALSE(model->is_training());
}

TEST(Evaluation, CountsWhatItLeavesOut) {
  const auto model = small_model();
  const auto get = [all = rows(10)](int64_t index, PhiloxStream random) {
    WICK_CHECK(index % 4 != 1, "sample ", index, " cannot be read");
    return all->get(index, random);
  };
  data::Prefetcher loader =
      data::load_ahead(std::make_shared<data::FunctionDataset>(10, get),
                       {.batch_size = 4, .on_error = data::OnError::kSkip}, kCpu);
  const train::Evaluation result = train::evaluate(*model, loader, small_loss(model));
  EXPECT_EQ(result.samples, 7);
  EXPECT_EQ(result.skipped, 3);
  EXPECT_NE(result.last_skipped.find("sample 9 cannot be read"), std::string::npos);
}

// Three batches of four samples, and one of two: each kind is traced once.
TEST(Evaluation, RunsAsAGraph) {
  const auto model = std::make_shared<nn::Sequential>(
      nn::Unflatten(1, {1, 4}), nn::Conv1d(1, 6, 3, {.bias = false}), nn::BatchNorm1d(6),
      nn::ReLU(), nn::Flatten(), nn::Linear(12, 4));
  for (int i = 0; i < 3; ++i) (*model)(randn({8, 4}));  // running statistics
  int64_t calls = 0, norms = 0;
  const auto evaluate = [&](std::optional<graph::CompileMode> mode) {
    const auto loss = [&](const data::Batch& batch) {
      ++calls;
      return small_loss(model)(batch);
    };
    calls = 0;
    profile::Profiler profiler;
    data::Prefetcher loader = loader_of(14, 4);
    profiler.start();
    train::Evaluation found = train::evaluate(*model, loader, loss, {.compile = mode});
    profiler.stop();
    norms = 0;
    const profile::KeyAverages averages = profiler.key_averages();
    for (const profile::Average& row : averages.rows()) {
      if (row.key.find("batch_norm") != std::string::npos) norms += row.count;
    }
    return found;
  };
  const train::Evaluation eager = evaluate({});
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(norms, 4);
  const train::Evaluation fused = evaluate(graph::CompileMode::kFuse);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(norms, 4);
  EXPECT_EQ(fused.loss, eager.loss);
  EXPECT_EQ(fused.means, eager.means);
  const train::Evaluation full = evaluate(graph::CompileMode::kFull);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(norms, 2);  // of the two traces
  EXPECT_NEAR(full.loss, eager.loss, 1e-5);
  EXPECT_EQ(full.means, eager.means);
  EXPECT_EQ(full.why_eager, "");
  EXPECT_TRUE(model->is_training());
}

// More sizes of batches than are traced.
TEST(Evaluation, TellsWhyBatchesRanEagerly) {
  const auto model = small_model();
  const auto get = [all = rows(100)](int64_t index, PhiloxStream random) {
    WICK_CHECK(index % 10 >= index / 10, "sample ", index, " cannot be read");
    return all->get(index, random);
  };
  data::Prefetcher loader =
      data::load_ahead(std::make_shared<data::FunctionDataset>(100, get),
                       {.batch_size = 10, .on_error = data::OnError::kSkip}, kCpu);
  const train::Evaluation found =
      train::evaluate(*model, loader, small_loss(model), {.compile = graph::CompileMode::kFull});
  EXPECT_EQ(found.samples, 55);
  EXPECT_EQ(found.why_eager.find("compile: 8 kinds of calls were traced"), 0);
}

TEST(Evaluation, CountsTheLikeliestClass) {
  const Tensor logits = tensor<float>({1, 2, 5, 4, 0, 1}).view({3, 2});
  EXPECT_EQ(train::count_correct(logits, tensor<int64_t>({1, 1, 1})).item<int64_t>(), 2);
  const Tensor mixed = tensor<float>({0.4F, 0.6F, 0.9F, 0.1F, 0.7F, 0.3F}).view({3, 2});
  EXPECT_EQ(train::count_correct(logits, mixed).item<int64_t>(), 2);
}

}  // namespace
}  // namespace wick::testing
