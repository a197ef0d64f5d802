#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "wick/kernels/random.h"
#include "wick/nn/module.h"
#include "wick/optim/device_schedule.h"
#include "wick/optim/ema.h"
#include "wick/optim/grad_scaler.h"
#include "wick/optim/optimizer.h"
#include "wick/optim/schedule.h"

namespace wick::train {

/// What else training steps move on, where there is any of it.
struct TrainingParts {
  amp::GradScaler* scaler = nullptr;
  optim::Ema* ema = nullptr;
  optim::Schedule* schedule = nullptr;
  optim::DeviceSchedule* counted = nullptr;  // with its schedule
  /// Restores the rest, such as a loader's position: called when all else is as it was.
  std::function<void()> rest = {};
};

/// What training changes, as it is now: parameters and buffers, which parts of the model are in
/// training mode, the optimizer's state and options, the random states of all devices, and what
/// `parts` names. Kept in plain host memory, apart from what allocators count.
class TrainingSnapshot {
 public:
  /// All of them must outlive it.
  TrainingSnapshot(nn::Module& model, optim::Optimizer& optimizer, TrainingParts parts = {});
  /// Restores all of it, and forgets gradients.
  void restore() const;
  /// What `work()` returns, after which all of it is restored. If `work` throws, that is the error,
  /// and what cannot be restored then, as where the device is broken, stays as it is.
  template <class Work>
  auto around(const Work& work) const {
    auto result = attempt(work);
    restore();
    return result;
  }

 private:
  struct HostCopy {
    std::string name;
    Shape shape;
    Dtype dtype;
    std::vector<char> bytes;
  };
  template <class Work>
  auto attempt(const Work& work) const {
    try {
      return work();
    } catch (...) {
      try_restore();
      throw;
    }
  }
  static std::vector<HostCopy> copy(const optim::StateDict& state);
  static optim::StateDict view(const std::vector<HostCopy>& copies);
  void try_restore() const noexcept;

  nn::Module& model_;
  optim::Optimizer& optimizer_;
  TrainingParts parts_;
  std::vector<HostCopy> weights_, state_, scaler_, ema_, schedule_;
  std::vector<RandomKey> random_;
  std::vector<std::pair<nn::Module*, bool>> training_;  // of each part of the model
};

}  // namespace wick::train
