// Recipes: what a run is, by name; and the parts that are made of one.
#include "wick/train/recipe.h"

#include <gtest/gtest.h>

#include <set>

#include "wick/core/file.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/paths.h"
#include "wick/tests/harness/temporary_folder.h"
#include "wick/train/classifier.h"
#include "wick/train/loader_finder.h"
#include "wick/train/trial.h"

namespace wick::testing {
namespace {

train::Recipe small_recipe() {
  train::Recipe recipe;
  recipe.model.name = "mlp";
  recipe.loading = {.batch_size = 16, .workers = 0};
  recipe.optimizer.lr = 0.01;
  recipe.run.threads = 1;
  recipe.run.max_steps = 4;
  return train::resolve(recipe);
}

TEST(Recipe, HasEachOptionOnce) {
  train::Recipe recipe;
  std::set<std::string> keys;
  for (const OptionField& field : train::fields(recipe)) {
    EXPECT_TRUE(keys.insert(field.key()).second) << field.key();
    EXPECT_FALSE(field.help().empty()) << field.key();
    EXPECT_NE(field.help().back(), '.') << field.key();
  }
  train::check(recipe);
}

// The page's tables, of which each row is a field.
std::string tables_of_options() {
  train::Recipe recipe;
  std::string text;
  for (const train::OptionGroup& group : train::groups(recipe)) {
    text += concat("\n## ", group.title, "\n\n| Key | Default | Meaning |\n|---|---|---|\n");
    for (const OptionField& field : group.fields) {
      const std::string usual = field.is_flag() ? "off" : field.as_text();
      text += concat("| `", field.key(), "` | ", usual.empty() ? "" : concat("`", usual, "`"),
                     " | ", field.meaning(), " |\n");
    }
  }
  return text;
}

TEST(Recipe, IsDocumentedOptionByOption) {
  const std::string page = read_file(testing::source_folder() + "/docs/options.md", 1 << 20);
  const std::string tables = tables_of_options();
  EXPECT_TRUE(page.ends_with(tables)) << "docs/options.md does not end with:\n" << tables;
}

TEST(Recipe, SurvivesAFile) {
  const TemporaryFolder folder;
  train::Recipe recipe = small_recipe();
  recipe.step.ema = 0.9;
  recipe.mix.mixup = 0.2;
  recipe.schedule = {.name = "multistep", .epochs = {1, 2}, .gamma = 0.5};
  recipe.memory.checkpoint_activations = "budget=600MB";
  const std::string path = folder.path() + "/config.json";
  write_file(path, to_json(recipe));
  const train::Recipe read = train::recipe_from_json(path);
  EXPECT_EQ(to_json(read), to_json(recipe));
  EXPECT_EQ(train::activation_budget(read.memory), 600'000'000);
}

TEST(Recipe, RefusesWhatDoesNotGoTogether) {
  const auto refuses = [](const char* option, const char* problem, auto change) {
    train::Recipe recipe;
    change(recipe);
    try {
      train::check(recipe);
      train::resolve(recipe);
      FAIL() << "accepted: " << option;
    } catch (const InvalidOption& error) {
      EXPECT_EQ(error.option(), option);
      EXPECT_NE(error.problem().find(problem), std::string::npos) << error.problem();
    }
  };
  using R = train::Recipe;
  refuses("eval_every", "plateau", [](R& r) { r.schedule.name = "plateau", r.run.eval_every = 0; });
  refuses("zero", "norms of whole", [](R& r) { r.optimizer.name = "lamb", r.ranks.zero = true; });
  refuses("cuda_graph", "detect_anomaly",
          [](R& r) { r.step.cuda_graph = r.run.detect_anomaly = true; });
  refuses("cuda_graph", "offload_activations",
          [](R& r) { r.step.cuda_graph = r.step.offload_activations = true; });
  refuses("resume", "needs run_dir", [](R& r) { r.run.resume = true; });
  refuses("data_dir", "wick data pack", [](R& r) { r.data.name = "packed"; });
  refuses("device", "expected auto", [](R& r) { r.run.device = "gpu"; });
  refuses("mixup", "out of range", [](R& r) { r.mix.mixup = 1e-5; });
  refuses("clip_value", "not with zero", [](R& r) { r.step.clip_value = 1, r.ranks.zero = true; });
  refuses("eval_every_steps", "not with eval_every 0",
          [](R& r) { r.run.eval_every_steps = 5, r.run.eval_every = 0; });
  refuses("onecycle_div_factor", "not with schedule cosine",
          [](R& r) { r.schedule.name = "cosine", r.schedule.onecycle.div_factor = 10; });
  refuses("onecycle_pct_start", "not with warmup",
          [](R& r) { r.schedule.warmup = 1, r.schedule.onecycle.pct_start = 0.2; });
  refuses("onecycle_anneal", "expected one of cos, linear",
          [](R& r) { r.schedule.onecycle.anneal = "sine"; });
  refuses("augment", "Did you mean basic?", [](R& r) { r.data.augmentation.policy = "basci"; });
  refuses("warmup", "longer than the run", [](R& r) { r.schedule.warmup = 5; });
  refuses("checkpoint_activations", "unknown value",
          [](R& r) { r.memory.checkpoint_activations = "all"; });
}

TEST(Recipe, OfAResumedRunKeepsWhatLasts) {
  const train::Recipe before = small_recipe();
  train::Recipe now = before;
  now.run.epochs = 9;
  now.loading.workers = 3;
  train::check_resumes(now, before);
  now.optimizer.lr = 0.5;
  expect_error([&] { train::check_resumes(now, before); }, {"lr cannot change: got 0.5", "0.01"});
}

TEST(Classifier, RefusesOptionsWithoutUse) {
  train::Recipe recipe = small_recipe();
  recipe.ranks.sync_batch_norm = true;
  expect_error([&] { train::Classifier parts(recipe); },
               {"sync_batch_norm: not with model mlp", "no batch normalisation"});
  recipe.run.resume = true;  // as the run began
  const train::Classifier parts(recipe);
  recipe = small_recipe();
  recipe.data.limits.seconds = 1;
  expect_error([&] { train::Classifier refused(recipe); },
               {"max_image_seconds: not with data shapes10", "need no decoding"});
}

TEST(Classifier, TrainsTheSameTwice) {
  const auto loss_of_run = [] {
    train::Recipe recipe = small_recipe();
    recipe.mix = {.mixup = 0.2, .cutmix = 1};
    const train::Classifier parts(recipe);
    train::TrainerOptions options = parts.trainer_options("");
    options.eval_every = 0;
    std::vector<double> losses;
    options.on_step = [&](const train::StepEvent& event) { losses.push_back(event.loss); };
    train::Trainer trainer(parts.model(), parts.optimizer(), parts.loss(), parts.train_data(),
                           options);
    trainer.run();
    return losses;
  };
  const std::vector<double> first = loss_of_run();
  EXPECT_EQ(first.size(), 4u);
  EXPECT_EQ(first, loss_of_run());
}

TEST(Classifier, CannotShareEveryBatch) {
  train::Recipe recipe = small_recipe();
  train::check_shares(recipe, 2);
  expect_error([&] { train::check_shares(recipe, 3); }, {"batch_size: 16", "3 ranks", "15 or 18"});
  recipe.loading.on_bad_sample = "skip";
  train::check_shares(recipe, 1);
  expect_error([&] { train::check_shares(recipe, 2); }, {"on_bad_sample: skip"});
}

TEST(Trial, PutsBackWhatFindingALoaderChanged) {
  train::Trial trial(small_recipe());
  const auto weights = [&] {
    std::vector<float> all;
    for (const Tensor& parameter : trial.model().parameters()) {
      const std::vector<float> values = parameter.to_vector<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  };
  const std::vector<float> before = weights();
  train::LoaderFinderOptions options;
  options.workers = {0, 1};
  options.prefetch_factors = {3};
  options.seconds = 0.01;
  const train::LoaderFinderResult found = train::find_loading(trial, options);
  EXPECT_EQ(weights(), before);
  ASSERT_EQ(found.trials.size(), 2u);
  EXPECT_EQ(found.trials[1].prefetch_factor, 3);
  for (const train::LoaderTrial& t : found.trials) {
    EXPECT_GT(t.alone, 0);
    EXPECT_GT(t.training, 0);
    EXPECT_GT(t.resident_bytes, 0);
  }
  EXPECT_GT(found.in_memory, 0);
  options.workers = {-1};
  expect_error([&] { train::find_loading(trial, options); }, {"workers: got -1"});
}

}  // namespace
}  // namespace wick::testing
