#include "wick/tests/errors/mistakes.h"
#include "wick/tests/harness/temporary_folder.h"
#include "wick/wick.h"

// The texts of the errors of optimizers, loading, files and runs.
namespace wick::testing {
namespace {

TEST(ErrorTexts, Optimizers) {
  const Tensor w = ones({3}).set_requires_grad();
  optim::AdamW optimizer({w});
  expect_texts({
      {"a negative rate", [&] { optim::AdamW({w}, {.lr = -1}); },
       "adamw: lr: got -1, expected a finite value, 0 or more"},
      {"beta1", [&] { optim::Adam({w}, {.beta1 = 1}); },
       "adam: beta1: got 1, expected a value in [0, 1)"},
      {"no parameters", [&] { optim::SGD(std::vector<Tensor>{}); },
       "sgd: a parameter group is empty: got group 0 without tensors, expected one or more, as "
       "parameters() of a module whose parts add() has registered"},
      {"a parameter that is a result", [&] { optim::SGD({w * 2}); },
       "sgd: parameters must be leaves: got the result of mul_scalar(other=2), expected tensors "
       "made by no operation"},
      {"a parameter twice",
       [&] {
         optim::SGD({w, w});
       },
       "sgd: a parameter appears twice, as number 0 of group 0 and as number 1 of group 0: its "
       "shape is [3]"},
      {"a name that it has not",
       [&] {
         optimizer.set_hyperparameters({{{"momentum", 0.9}}});
       },
       "adamw: no hyperparameter named momentum: expected one of lr, beta1, beta2, eps, "
       "weight_decay, amsgrad, maximize"},
      {"one-cycle without a rate", [&] { optim::OneCycleLR(optimizer, {.total_steps = 9}); },
       "one_cycle_lr: max_lr: got 0, expected a finite value, more than 0"},
      {"one-cycle that has ended",
       [&] {
         optim::OneCycleLR schedule(optimizer, {.max_lr = 0.1, .total_steps = 2});
         for (int i = 0; i < 4; ++i) schedule.step();
       },
       "one_cycle_lr: step 3 of 2: the cycle has ended: make total_steps the epochs times the "
       "steps of an epoch"},
      {"a state of other parameters",
       [&] {
         optim::AdamW other({ones({4}).set_requires_grad()});
         w.set_grad(ones({3}));
         optimizer.step();
         other.load_state_dict(optimizer.state_dict());
       },
       "adamw: load_state_dict: state.0.0.exp_avg: got shape [3], expected [4]"},
      {"an update before a step", [&] { amp::GradScaler().update(); },
       "grad_scaler: update() before any scale(): the loss that was differentiated was not scaled"},
      {"averages", [&] { optim::Ema({w}, 1); }, "ema: decay: got 1, expected a value in [0, 1)"},
  });
}

struct Rows : data::Dataset {
  int64_t size() const override { return 4; }
  data::Sample get(int64_t index, PhiloxStream) const override { return {ones({index + 1})}; }
};

TEST(ErrorTexts, Loading) {
  const std::shared_ptr<const data::Dataset> rows =
      std::make_shared<data::TensorDataset>(std::vector<Tensor>{ones({4, 2})});
  const auto load = [](const std::shared_ptr<const data::Dataset>& set,
                       const data::DataLoaderOptions& options) {
    data::DataLoader(set, options).next();
  };
  expect_texts({
      {"a batch size of 0", [&] { load(rows, {.batch_size = 0}); },
       "data loader: wrong batch_size: got 0, expected 1 or more"},
      {"fewer than no workers", [&] { load(rows, {.num_workers = -2}); },
       "data loader: wrong num_workers: got -2, expected 0 to 1024 or kAuto"},
      {"shuffle and a sampler",
       [&] {
         load(rows, {.shuffle = true, .sampler = std::make_shared<data::SequentialSampler>(4)});
       },
       "data loader: got sampler and shuffle: the sampler decides on the order"},
      {"prefetch_factor without workers", [&] { load(rows, {.prefetch_factor = 2}); },
       "data loader: prefetch_factor needs workers: got 2 and num_workers = 0"},
      {"samples of unlike shapes", [&] { load(std::make_shared<Rows>(), {.batch_size = 4}); },
       "data loader: batch 0 of epoch 0: samples differ in field 0: got float32 [1] and float32 "
       "[2], expected one shape and dtype, or a collate_fn that makes batches of them"},
      {"fields of unlike lengths",
       [&] {
         data::TensorDataset({ones({4}), ones({3})});
       },
       "tensor dataset: lengths differ: got 3 rows in one tensor and 4 in the first, expected as "
       "many in each"},
      {"a data set's name", [&] { data::open_data("mnst", "data"); },
       "data: unknown name: got \"mnst\", expected one of shapes10, mnist, fashion-mnist, cifar10, "
       "cifar100, imagefolder, packed"},
      {"no files", [&] { data::open_data("mnist", "no/such"); },
       "mnist: no file train-images-idx3-ubyte found: looked in no/such, no/such/mnist, "
       "no/such/MNIST, no/such/raw, no/such/MNIST/raw"},
      {"no folders of classes", [&] { data::open_data("imagefolder", "no/such"); },
       "no/such: cannot be listed: No such file or directory: expected train/CLASS/*.jpg and "
       "test/CLASS/*.jpg in the data's folder"},
      {"no packed file", [&] { data::open_data("packed", "no/such.pack"); },
       "cannot read no/such.pack: No such file or directory"},
      {"a transform's name", [&] { data::open_data("shapes10", "", {}, {.policy = "flip"}); },
       "transform: unknown name: got \"flip\", expected one of random_crop, random_resized_crop, "
       "resize, center_crop, horizontal_flip, vertical_flip, color_jitter, grayscale, "
       "rand_augment, random_erasing, cutout, none, basic, color, randaugment"},
  });
}

TEST(ErrorTexts, Files) {
  const TemporaryFolder folder;
  const std::string notes = folder.path("notes.txt");
  write_file(notes, "These are notes, and no weights.");
  expect_texts({
      {"no file", [&] { load_safetensors("no/such.safetensors"); },
       "cannot read no/such.safetensors: No such file or directory"},
      {"another file", [&] { load_safetensors(notes); },
       concat("safetensors: ", notes,
              ": the header has 8241904413164529748 bytes, expected at most ",
              "100000000: this is no safetensors file")},
      {"no folder to write to", [&] { save_safetensors("no/such/w.safetensors", {}); },
       "cannot write no/such/w.safetensors: No such file or directory"},
      {"no graph", [&] { graph::load("no/such.graph.json"); },
       "cannot read no/such.graph.json: No such file or directory"},
      {"no checkpoint", [&] { CheckpointStore::load("no/such"); },
       "cannot read no/such/manifest.json: No such file or directory"},
      {"no run", [&] { train::RunFolder::open("no/such"); },
       "run folder: no/such holds no run: expected no/such/config.json"},
  });
}

struct SmallRun {
  std::shared_ptr<nn::Linear> model = std::make_shared<nn::Linear>(2, 2);
  std::shared_ptr<optim::SGD> optimizer =
      std::make_shared<optim::SGD>(model->parameters(), optim::SGDOptions{.lr = 0.1});
  double scale = 1;

  void train(const train::TrainerOptions& options, int64_t batch_size = 4) {
    const auto loss = [&](const data::Batch& batch) {
      return train::BatchLoss{((*model)(batch[0]) * scale).sum()};
    };
    train::Trainer trainer(
        model, optimizer, loss,
        {.train = std::make_shared<data::TensorDataset>(std::vector<Tensor>{ones({8, 2})}),
         .loading = {.batch_size = batch_size}},
        options);
    trainer.run();
  }
};

TEST(ErrorTexts, Runs) {
  SmallRun wild;
  wild.scale = 1e39;
  SmallRun fast;
  fast.scale = 1e10;
  fast.optimizer =
      std::make_shared<optim::SGD>(fast.model->parameters(), optim::SGDOptions{.lr = 1e30});
  train::Recipe recipe;
  expect_texts({
      {"no epochs", [&] { SmallRun().train({.epochs = 0}); },
       "option epochs: got 0, expected 1 or more"},
      {"a schedule's name",
       [&] {
         train::TrainerOptions options;
         options.schedule.name = "cosin";
         SmallRun().train(options);
       },
       "option schedule: unknown value: got \"cosin\", expected one of onecycle, cosine, constant, "
       "step, multistep, exponential, polynomial, linear, cyclic, plateau. Did you mean cosine?"},
      {"a captured step on the CPU",
       [&] {
         train::TrainerOptions options;
         options.step.cuda_graph = true;
         SmallRun().train(options);
       },
       "option cuda_graph: expected a GPU, got the CPU"},
      {"a loss that is infinite", [&] { wild.train({}); }, "train: the loss became inf at step 1"},
      {"weights that are infinite", [&] { fast.train({}); },
       "train: weights became infinite or NaN at step 1: 4 of 4 elements of weight, whose gradient "
       "is finite"},
      {"an unlikely rate",
       [&] {
         recipe.optimizer.lr = -1;
         train::check(recipe);
       },
       "option lr: out of range: got -1, expected 1e-12 to 1e+06"},
      {"a model's name",
       [&] {
         recipe = {};
         recipe.model.name = "resnet81";
         train::check(recipe);
       },
       "option model: unknown value: got \"resnet81\", expected one of mlp, lenet, resnet20, "
       "resnet18, resnet34, resnet50, vit. Did you mean resnet20?"},
      {"a memory budget",
       [&] {
         recipe = {};
         recipe.memory.checkpoint_activations = "budget=lots";
         train::check(recipe);
       },
       "option checkpoint_activations: not a size: got \"lots\", expected one like 600MB or "
       "1.5GiB"},
      {"an incomplete launcher",
       [&] {
         dist::launch_env(
             [](const char* name) { return std::string_view(name) == "RANK" ? "0" : nullptr; });
       },
       "launch: torchrun's variables are incomplete: missing WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, "
       "MASTER_PORT; there are RANK (in place of an address, WICK_RENDEZVOUS_FILE may name a file "
       "that all ranks see)"},
      {"a rank that is not there",
       [&] {
         dist::launch_env([](const char* name) -> const char* {
           const std::string_view key = name;
           if (key == "RANK") return "2";
           if (key == "WORLD_SIZE" || key == "LOCAL_WORLD_SIZE") return "2";
           if (key == "LOCAL_RANK") return "0";
           return key == "MASTER_PORT" ? "1234" : nullptr;
         });
       },
       "launch: torchrun's variables are incomplete: missing MASTER_ADDR; there are RANK, "
       "WORLD_SIZE, LOCAL_RANK, MASTER_PORT (in place of an address, WICK_RENDEZVOUS_FILE may name "
       "a file that all ranks see)"},
  });
}

}  // namespace
}  // namespace wick::testing
