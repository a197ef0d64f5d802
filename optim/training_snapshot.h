#pragma once

#include <string>
#include <utility>
#include <vector>

#include "wick/kernels/random.h"
#include "wick/nn/module.h"
#include "wick/optim/optimizer.h"

namespace wick::optim {

/// What training changes, as it is now: parameters and buffers, which parts of the model are in
/// training mode, the optimizer's state and options, the random states of all devices. Kept in
/// plain host memory, apart from what allocators count.
class TrainingSnapshot {
 public:
  /// Both must outlive it.
  TrainingSnapshot(nn::Module& model, Optimizer& optimizer);
  /// Puts all of it back, and forgets gradients.
  void restore() const;
  /// What `work()` returns, after which all of it is put back. If `work` throws, that is the error,
  /// and what cannot be put back then, as where the device is broken, stays as it is.
  template <class Work>
  auto around(const Work& work) const {
    auto result = [&] {
      try {
        return work();
      } catch (...) {
        try_restore();
        throw;
      }
    }();
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
  static HostCopy copy(const std::string& name, const Tensor& tensor);
  static Tensor view(const HostCopy& copy);
  void try_restore() const noexcept;

  nn::Module& model_;
  Optimizer& optimizer_;
  std::vector<HostCopy> weights_, state_;
  std::vector<RandomKey> random_;
  std::vector<std::pair<nn::Module*, bool>> training_;  // of each part of the model
};

}  // namespace wick::optim
