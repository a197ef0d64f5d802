#include "wick/tools/study/workload.h"

#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "wick/core/core.h"
#include "wick/core/ops/random.h"
#include "wick/core/stream.h"
#include "wick/dist/dist.h"
#include "wick/tools/study/training.h"

namespace wick::study {

namespace {

// A schedule needs an end; slices of a comparison never come near this one.
constexpr int64_t kManySteps = int64_t{1} << 40;

class TrainingSteps final : public Workload {
 public:
  explicit TrainingSteps(const Settings& settings)
      : device_(parse_device(settings.device)), training_(settings, kManySteps) {}
  void run(int64_t steps) override {
    for (int64_t i = 0; i < steps; ++i) training_.step();
    synchronize(device_);
  }
  void begin() override { training_.drop_loaded(); }
  double wait_seconds() const override { return training_.wait_seconds(); }

 private:
  Device device_;
  Training training_;
};

// Data parallelism: every rank is a thread with its share of the threads that compute.
class ParallelSteps final : public Workload {
 public:
  explicit ParallelSteps(const Settings& settings)
      : groups_(dist::make_local_groups(static_cast<int>(settings.ranks))),
        threads_(static_cast<int>(std::max<int64_t>(1, settings.threads / settings.ranks))),
        trainings_(groups_.size()) {
    on_all_ranks([&](size_t rank) {
      trainings_[rank] = std::make_unique<Training>(settings, kManySteps, groups_[rank]);
    });
  }
  ~ParallelSteps() override {
    try {
      on_all_ranks([&](size_t rank) { trainings_[rank].reset(); });
    } catch (const std::exception&) {  // of a broken device, as its next use will tell
    }
  }
  void run(int64_t steps) override {
    on_all_ranks([&](size_t rank) {
      for (int64_t i = 0; i < steps; ++i) trainings_[rank]->step();
    });
  }
  void begin() override {
    for (const auto& training : trainings_) training->drop_loaded();
  }

 private:
  // The first error is the one: those of the other ranks are that it made them fail.
  template <class Call>
  void on_all_ranks(const Call& call) {
    std::exception_ptr error;
    std::mutex failing;
    std::vector<std::thread> ranks;
    for (size_t rank = 0; rank < groups_.size(); ++rank) {
      ranks.emplace_back([&, rank] {
        set_num_threads(threads_);
        try {
          call(rank);
        } catch (const std::exception& e) {
          const std::lock_guard lock(failing);
          if (!error) error = std::current_exception();
          groups_[rank]->abort(e.what());
        }
      });
    }
    for (std::thread& rank : ranks) rank.join();
    if (error) std::rethrow_exception(error);
  }

  std::vector<std::shared_ptr<dist::ProcessGroup>> groups_;
  int threads_;
  std::vector<std::unique_ptr<Training>> trainings_;
};

class Evaluation final : public Workload {
 public:
  explicit Evaluation(const Settings& settings)
      : settings_(settings), device_(parse_device(settings.device)) {
    const Shape shape{3, settings.image, settings.image};
    manual_seed(static_cast<uint64_t>(settings.seed));
    model_ = make_model(settings, shape, 10);
    model_->to(device_);
    model_->eval();
    images_ = randn({settings.batch, shape[0], shape[1], shape[2]}, kFloat32, device_)
                  .contiguous(MemoryFormat::kChannelsLast);
  }
  void run(int64_t steps) override {
    for (int64_t i = 0; i < steps; ++i) {
      if (settings_.no_grad) {
        const InferenceMode inference;
        (*model_)(images_).argmax(1);
      } else {
        (*model_)(images_).argmax(1);
      }
    }
    synchronize(device_);
  }

 private:
  Settings settings_;
  Device device_;
  std::shared_ptr<nn::Module> model_;
  Tensor images_;
};

class Loading final : public Workload {
 public:
  explicit Loading(const Settings& settings)
      : images_(open_images(settings)), loader_(images_.train, loader_options(settings, kCpu)) {}
  void run(int64_t steps) override {
    for (int64_t i = 0; i < steps; ++i) {
      if (!loader_.next() && !loader_.next()) {
        throw Error("study: the data set has fewer images than a batch");
      }
    }
  }
  void begin() override {
    for (int i = 0; i < kLoadedAhead * loader_.num_workers(); ++i) loader_.next();
  }
  double wait_seconds() const override { return loader_.wait_seconds(); }

 private:
  Images images_;
  data::DataLoader loader_;
};

// Images that the caller has in memory of its own become a tensor, which is then read once.
class Wrapping final : public Workload {
 public:
  explicit Wrapping(const Settings& settings)
      : copy_(settings.copy_blob),
        shape_{settings.batch, 3, settings.image, settings.image},
        values_(static_cast<size_t>(shape_.numel()), 1.0f) {}
  void run(int64_t steps) override {
    for (int64_t i = 0; i < steps; ++i) {
      const Tensor images = copy_ ? tensor(values_, shape_) : as_tensor(values_, shape_);
      images.sum().item();
    }
  }

 private:
  bool copy_;
  Shape shape_;
  std::vector<float> values_;
};

// Steps by Adam that look rows of a large table up.
class Embedding final : public Workload {
 public:
  explicit Embedding(const Settings& settings)
      : device_(parse_device(settings.device)), table_(kRows, 64, {.sparse = settings.sparse}) {
    table_.to(device_);
    if (settings.sparse) {
      optimizer_ = std::make_unique<optim::SparseAdam>(table_.parameters());
    } else {
      optimizer_ = std::make_unique<optim::Adam>(table_.parameters());
    }
    index_ = randint(0, kRows, {settings.batch}).to(device_);
  }
  void run(int64_t steps) override {
    for (int64_t i = 0; i < steps; ++i) {
      optimizer_->zero_grad();
      table_(index_).square().mean().backward();
      optimizer_->step();
    }
    synchronize(device_);
  }

 private:
  static constexpr int64_t kRows = 200'000;
  Device device_;
  nn::Embedding table_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  Tensor index_;
};

}  // namespace

std::unique_ptr<Workload> make_workload(const Settings& settings) {
  if (settings.work == "evaluate") return std::make_unique<Evaluation>(settings);
  if (settings.work == "load") return std::make_unique<Loading>(settings);
  if (settings.work == "embed") return std::make_unique<Embedding>(settings);
  if (settings.work == "wrap") return std::make_unique<Wrapping>(settings);
  WICK_CHECK(settings.work == "train", "study: unknown workload: got ", settings.work);
  if (settings.ranks > 1) return std::make_unique<ParallelSteps>(settings);
  return std::make_unique<TrainingSteps>(settings);
}

}  // namespace wick::study
