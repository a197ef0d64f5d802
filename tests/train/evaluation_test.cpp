#include "wick/train/evaluation.h"

#include <gtest/gtest.h>

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

TEST(Evaluation, CountsTheLikeliestClass) {
  const Tensor logits = tensor<float>({1, 2, 5, 4, 0, 1}).view({3, 2});
  EXPECT_EQ(train::count_correct(logits, tensor<int64_t>({1, 1, 1})).item<int64_t>(), 2);
  const Tensor mixed = tensor<float>({0.4F, 0.6F, 0.9F, 0.1F, 0.7F, 0.3F}).view({3, 2});
  EXPECT_EQ(train::count_correct(logits, mixed).item<int64_t>(), 2);
}

}  // namespace
}  // namespace wick::testing
