#include "wick/train/trainer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "wick/tests/dist/ranks.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/temporary_folder.h"
#include "wick/tests/train/small_run.h"

namespace wick::testing {
namespace {

using train::Outcome;
using train::StopToken;
using train::TrainerOptions;

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// What a whole run of these options ends with.
std::vector<double> weights_after(const TrainerOptions& options, Device device = kCpu) {
  SmallRun run(options, device);
  EXPECT_EQ(run.trainer.run(), Outcome::kComplete);
  return run.weights();
}

TEST(Trainer, LearnsAndWritesNothingUnasked) {
  const TemporaryFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  for (const Device device : devices()) {
    SmallRun run({.epochs = 20}, device);
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(run.trainer.run(), Outcome::kComplete);
    EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
    ASSERT_TRUE(run.trainer.evaluation().has_value());
    EXPECT_EQ(run.trainer.evaluation()->samples, 30);
    EXPECT_GT(*train::find(run.trainer.evaluation()->means, "accuracy"), 0.7);
    EXPECT_EQ(run.trainer.step(), 200);
  }
  std::filesystem::current_path(before);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Trainer, TellsOfEachStepEpochAndCheckpoint) {
  const TemporaryFolder folder;
  std::vector<int64_t> steps, epochs, checkpoints, evaluated;
  TrainerOptions options{.epochs = 3, .max_steps = 25};
  options.eval_every = 2;
  options.folder = folder.path("run");
  options.checkpoint_every = 4;
  options.on_step = [&](const train::StepEvent& event) {
    steps.push_back(event.step);
    EXPECT_EQ(event.epoch, (event.step - 1) / 10 + 1);
    EXPECT_EQ(event.samples, 8);
    EXPECT_EQ(event.lr, 0.01);
    EXPECT_GT(event.samples_per_second, 0);
    EXPECT_TRUE(train::find(event.means, "accuracy").has_value());
  };
  options.on_epoch = [&](const train::EpochEvent& event) {
    epochs.push_back(event.step);
    EXPECT_EQ(event.is_whole, event.step != 25);
    if (event.evaluation) evaluated.push_back(event.step);
  };
  options.on_checkpoint = [&](int64_t step, const std::string& path) {
    checkpoints.push_back(step);
    EXPECT_TRUE(std::filesystem::is_directory(path));
  };
  SmallRun run(options);
  run.trainer.run();
  EXPECT_EQ(steps.size(), 25u);
  EXPECT_EQ(epochs, (std::vector<int64_t>{10, 20, 25}));
  EXPECT_EQ(evaluated, (std::vector<int64_t>{20, 25}));
  EXPECT_EQ(checkpoints, (std::vector<int64_t>{0, 4, 8, 10, 12, 16, 20, 24, 25}));
  EXPECT_EQ(lines_of(folder.path("run/metrics.jsonl")).size(), 27u);  // steps and evaluations
}

TEST(Trainer, GoesOnAfterAStopInTheSameProcess) {
  TrainerOptions options{.epochs = 2};
  const std::vector<double> whole = weights_after(options);
  options.on_step = [stop = options.stop](const train::StepEvent& event) {
    if (event.step == 7) stop.request();
  };
  SmallRun run(options);
  EXPECT_EQ(run.trainer.run(), Outcome::kInterrupted);
  EXPECT_EQ(run.trainer.step(), 8);  // the one under way was step 8
  int calls = 0;
  while (run.trainer.run() == Outcome::kInterrupted) ++calls;  // a step each: it is still asked to
  EXPECT_EQ(calls, 11);
  EXPECT_EQ(run.weights(), whole);
}

// All that has state: scaled loss or not, averages, a schedule by evaluations.
std::vector<TrainerOptions> stateful_options() {
  TrainerOptions plateau{.epochs = 3};
  plateau.step = {.accumulate = 3, .ema = 0.9};
  plateau.schedule = {.name = "plateau", .warmup = 0.5, .epochs = {1}};
  TrainerOptions half{.epochs = 3};
  half.step = {.autocast = kFloat16, .clip_norm = 1};
  half.schedule.name = "onecycle";
  return {plateau, half};
}

TEST(Trainer, ResumesAtAnyStepToTheSameBytes) {
  for (const Device device : devices()) {
    for (TrainerOptions options : stateful_options()) {
      const std::vector<double> whole = weights_after(options, device);
      for (const int64_t stop_at : {1, 9, 10, 16, 29}) {
        const TemporaryFolder folder;
        options.folder = folder.path("run");
        TrainerOptions first = options;
        first.stop = StopToken();
        EXPECT_EQ(SmallRun(first, device, 5, stop_at).trainer.run(), Outcome::kInterrupted);
        SmallRun second(options, device);
        EXPECT_TRUE(second.trainer.resume());
        EXPECT_EQ(second.trainer.run(), Outcome::kComplete);
        EXPECT_EQ(second.weights(), whole) << options.schedule.name << " stopped at " << stop_at;
      }
    }
  }
}

TEST(Trainer, ResumesALoaderThatDrawsItsSeeds) {
  for (const Device device : devices()) {
    TrainerOptions options{.epochs = 3};
    SmallRun whole(options, device, {});
    whole.trainer.run();
    for (const int64_t stop_at : {5, 10, 17}) {
      const TemporaryFolder folder;
      options.folder = folder.path("run");
      TrainerOptions first = options;
      first.stop = StopToken();
      EXPECT_EQ(SmallRun(first, device, {}, stop_at).trainer.run(), Outcome::kInterrupted);
      SmallRun second(options, device, {});
      EXPECT_TRUE(second.trainer.resume());
      second.trainer.run();
      EXPECT_EQ(second.weights(), whole.weights()) << "stopped at " << stop_at;
    }
  }
}

TEST(Trainer, ResumeBeginsWhereThereIsNothing) {
  const TemporaryFolder folder;
  SmallRun run({.epochs = 1, .folder = folder.path("run"), .config = "{\"mine\": 1}"});
  EXPECT_FALSE(run.trainer.resume());
  run.trainer.run();
  EXPECT_EQ(lines_of(folder.path("run/config.json")), std::vector<std::string>{"{\"mine\": 1}"});
  EXPECT_TRUE(std::filesystem::exists(folder.path("run/weights.safetensors")));
}

TEST(Trainer, RefusesAFolderWithARunAndASecondBeginning) {
  const TemporaryFolder folder;
  const TrainerOptions options{.epochs = 1, .folder = folder.path("run")};
  weights_after(options);
  SmallRun again(options);
  EXPECT_NE(error_of([&] { again.trainer.run(); }).find("already holds a run"), std::string::npos);
  SmallRun twice;
  twice.trainer.begin();
  EXPECT_EQ(error_of([&] { twice.trainer.begin(); }),
            "train: the run has begun already: got a second begin() or resume()");
  SmallRun nowhere;
  EXPECT_EQ(error_of([&] { nowhere.trainer.resume(); }),
            "train: resume: expected a folder, got none");
}

TEST(Trainer, RefusesToResumeFromDamagedCheckpointsAlone) {
  const TemporaryFolder folder;
  TrainerOptions options{.epochs = 1, .folder = folder.path("run")};
  weights_after(options);
  for (const char* step : {"step-0", "step-10"}) {
    const std::string checkpoint = folder.path("run/checkpoints/") + step;
    std::filesystem::resize_file(checkpoint + "/weights.safetensors", 50);
  }
  SmallRun again(options);
  std::string rejected;
  EXPECT_NE(error_of([&] { again.trainer.resume(&rejected); }).find("none of the checkpoints in"),
            std::string::npos);
  EXPECT_NE(rejected.find("step-10"), std::string::npos);
}

TEST(Trainer, RefusesAShorterRunThanItHasDone) {
  const TemporaryFolder folder;
  TrainerOptions options{.epochs = 2, .folder = folder.path("run")};
  weights_after(options);
  options.epochs = 1;
  SmallRun again(options);
  EXPECT_EQ(error_of([&] { again.trainer.resume(); }),
            "option epochs: the run has done 20 steps, more than the 10 that are asked for");
}

TEST(Trainer, EvaluatesWithinEpochs) {
  TrainerOptions options{.epochs = 2, .eval_every_steps = 4};
  std::vector<std::pair<int64_t, bool>> evaluated;
  options.on_epoch = [&](const train::EpochEvent& event) {
    if (event.evaluation) evaluated.emplace_back(event.step, event.is_whole);
  };
  const std::vector<double> weights = weights_after(options);
  const std::vector<std::pair<int64_t, bool>> expected{{4, false},  {8, false},  {10, true},
                                                       {12, false}, {16, false}, {20, true}};
  EXPECT_EQ(evaluated, expected);
  EXPECT_EQ(weights, weights_after({.epochs = 2}));  // to evaluate changes nothing
}

// The loss function tells eager batches from those of a graph, which is traced for both sizes of a
// batch in each evaluation. Averages swap weights meanwhile.
TEST(Trainer, EvaluatesAsAGraphWithTheSameBits) {
  const auto figures = [](const char* compile, std::optional<double> ema, int64_t* calls) {
    const auto model = small_model();
    const auto count = [model, calls](const data::Batch& batch) {
      *calls += !model->is_training();
      return small_loss(model)(batch);
    };
    train::TrainerOptions options;
    options.epochs = 3;
    options.step.compile = compile;
    options.step.ema = ema;
    std::vector<double> found;
    options.on_epoch = [&](const train::EpochEvent& event) {
      found.push_back(event.evaluation->loss);
      found.push_back(event.evaluation->means[0].second);
    };
    *calls = 0;
    train::Trainer(model, std::make_shared<optim::AdamW>(model->parameters()), count,
                   {.train = rows(80),
                    .loading = {.batch_size = 8, .shuffle = true, .seed = 5},
                    .test = rows(30, 2),
                    .test_loading = {.batch_size = 8}},
                   options)
        .run();
    return found;
  };
  for (const std::optional<double> ema : {std::optional<double>(), std::optional<double>(0.9)}) {
    int64_t calls = 0;
    const std::vector<double> eager = figures("off", ema, &calls);
    EXPECT_EQ(eager.size(), 6u);
    EXPECT_EQ(calls, 12);
    for (const char* compile : {"fuse", "full"}) {
      EXPECT_EQ(figures(compile, ema, &calls), eager) << compile;
      EXPECT_EQ(calls, 6) << compile;
    }
  }
}

TEST(Trainer, NamesTheOptionThatIsWrong) {
  const auto error = [](const TrainerOptions& options) {
    return error_of([&] { SmallRun{options}; });
  };
  EXPECT_EQ(error({.epochs = 0}), "option epochs: got 0, expected 1 or more");
  EXPECT_EQ(error({.max_steps = 0}), "option max_steps: got 0, expected 1 or more");
  EXPECT_EQ(error({.epochs = int64_t{1} << 62}),
            "option epochs: got 4611686018427387904, expected at most 922337203685477580 of 10 "
            "steps, or max_steps");
  EXPECT_EQ(error({.eval_every = -1}), "option eval_every: got -1, expected 0 or more");
  EXPECT_EQ(error({.log_every = 0}), "option log_every: got 0, expected 1 or more");
  EXPECT_EQ(error({.checkpoint_every = 0}), "option checkpoint_every: got 0, expected 1 or more");
  EXPECT_EQ(error({.step = {.accumulate = 0}}),
            "option accumulate: out of range: got 0, expected 1 to 1e+06");
  EXPECT_EQ(error({.step = {.autocast = kFloat64}}),
            "option amp: got float64, expected float16 or bfloat16");
  EXPECT_EQ(error({.step = {.cuda_graph = true}}),
            "option cuda_graph: expected a GPU, got the CPU");
}

TEST(Trainer, TakesMaxStepsOfEpochsWithoutEnd) {
  SmallRun run(TrainerOptions{.epochs = std::numeric_limits<int64_t>::max(), .max_steps = 12});
  EXPECT_EQ(run.trainer.total_steps(), 12);
  EXPECT_EQ(run.trainer.run(), Outcome::kComplete);
  EXPECT_EQ(run.trainer.step(), 12);
}

TEST(Trainer, NamesWhatIsMissing) {
  const auto model = small_model();
  const auto optimizer = std::make_shared<optim::SGD>(model->parameters());
  const train::LossFunction loss = small_loss(model);
  const train::TrainData data{.train = rows(8)};
  EXPECT_EQ(error_of([&] { train::Trainer(nullptr, optimizer, loss, data); }),
            "train: expected a model, got none");
  EXPECT_EQ(error_of([&] { train::Trainer(model, nullptr, loss, data); }),
            "train: expected an optimizer, got none");
  EXPECT_EQ(error_of([&] { train::Trainer(model, optimizer, nullptr, data); }),
            "train: expected a loss function, got none");
  EXPECT_EQ(error_of([&] { train::Trainer(model, optimizer, loss, {}); }),
            "train: expected a data set to train on, got none");
}

TEST(Trainer, EndsWithDivergedWhereTheLossIsNotFinite) {
  const TemporaryFolder folder;
  TrainerOptions options{.epochs = 2, .folder = folder.path("run")};
  auto model = small_model();
  auto optimizer = std::make_shared<optim::SGD>(model->parameters(), optim::SGDOptions{.lr = 0.1});
  int calls = 0;
  const auto loss = [&](const data::Batch& batch) {
    train::BatchLoss result = small_loss(model)(batch);
    if (++calls == 4) result.loss = result.loss * std::numeric_limits<double>::infinity();
    return result;
  };
  train::Trainer trainer(model, optimizer, loss, {.train = rows(80), .loading = {.batch_size = 8}},
                         options);
  try {
    trainer.run();
    FAIL() << "expected an error";
  } catch (const train::Diverged& error) {
    EXPECT_STREQ(error.what(), "train: the loss became inf at step 4");
  }
  EXPECT_EQ(lines_of(folder.path("run/metrics.jsonl")).size(), 3u);
}

TEST(Trainer, ChangesBatchesByTheirPlaceInTheRun) {
  std::vector<std::pair<int64_t, int64_t>> places;
  auto model = small_model();
  auto optimizer = std::make_shared<optim::SGD>(model->parameters(), optim::SGDOptions{.lr = 0.1});
  train::TrainData data{.train = rows(20), .loading = {.batch_size = 8}};
  data.prepare = [&](data::Batch batch, int64_t epoch, int64_t number) {
    places.emplace_back(epoch, number);
    return batch;
  };
  train::Trainer(model, optimizer, small_loss(model), data, {.epochs = 2}).run();
  const std::vector<std::pair<int64_t, int64_t>> want = {{0, 0}, {0, 1}, {0, 2},
                                                         {1, 0}, {1, 1}, {1, 2}};
  EXPECT_EQ(places, want);
}

TEST(Trainer, RanksEndWithTheSameWeightsAndShareEachBatch) {
  std::vector<std::vector<double>> weights(2);
  std::vector<int64_t> samples(2);
  dist::on_ranks(2, [&](const dist::Group& group) {
    TrainerOptions options{.epochs = 1};
    options.ranks = train::Ranks(group, group->rank());
    const auto rank = static_cast<size_t>(group->rank());
    options.on_step = [&](const train::StepEvent& event) { samples[rank] += event.samples; };
    auto model = std::make_shared<nn::Sequential>(nn::Linear(4, 16), nn::ReLU(), nn::Linear(16, 4));
    auto optimizer =
        std::make_shared<optim::AdamW>(model->parameters(), optim::AdamWOptions{.lr = 0.01});
    train::Trainer trainer(model, optimizer, small_loss(model),
                           {.train = rows(80),
                            .loading = {.batch_size = 8, .shuffle = true, .seed = 5},
                            .test = rows(31, 2),
                            .test_loading = {.batch_size = 8}},
                           options);
    trainer.run();
    EXPECT_EQ(trainer.evaluation()->samples, 31);
    EXPECT_EQ(trainer.evaluation()->means.size(), 1u);
    for (const Tensor& param : model->parameters()) {
      for (const double x : param.to(kFloat64).to_vector<double>()) weights[rank].push_back(x);
    }
  });
  EXPECT_EQ(weights[0], weights[1]);
  EXPECT_EQ(samples, (std::vector<int64_t>{80, 80}));
}

// Weights and buffers of two ranks, and their losses.
std::vector<double> results_of_ranks(TrainerOptions options, const char* compile) {
  std::vector<std::vector<double>> all(2);
  dist::on_ranks(2, [&](const dist::Group& group) {
    const RandomScope scope(3);
    TrainerOptions own = options;
    own.ranks = train::Ranks(group, group->rank());
    own.step.compile = compile;
    std::vector<double>& results = all[static_cast<size_t>(group->rank())];
    own.on_step = [&](const train::StepEvent& event) { results.push_back(event.loss); };
    SmallRun run(own);
    run.trainer.run();
    EXPECT_EQ(run.trainer.why_eager(), "");
    const std::vector<double> weights = run.weights();
    results.insert(results.end(), weights.begin(), weights.end());
  });
  all[0].insert(all[0].end(), all[1].begin(), all[1].end());
  return all[0];
}

TEST(Trainer, CompiledRanksEndWithTheWeightsOfEagerOnes) {
  const std::vector<TrainerOptions> all = {
      {.epochs = 2},
      {.epochs = 2, .step = {.accumulate = 2}, .sync_batch_norm = true},
      {.epochs = 2, .step = {.autocast = kFloat16, .clip_norm = 0.5, .ema = 0.9}, .zero = true}};
  for (const TrainerOptions& options : all) {
    const std::vector<double> eager = results_of_ranks(options, "off");
    EXPECT_EQ(results_of_ranks(options, "fuse"), eager);
    EXPECT_EQ(results_of_ranks(options, "full"), eager);
  }
}

}  // namespace
}  // namespace wick::testing
