#pragma once

#include <string>
#include <vector>

#include "wick/kernels/random.h"
#include "wick/nn/module.h"
#include "wick/optim/optimizer.h"

namespace wick::optim {

/// What training changes, as it is now: parameters and buffers, the optimizer's state and options,
/// the random states of all devices. Kept in plain host memory, apart from what allocators count.
class TrainingSnapshot {
 public:
  /// Both must outlive it.
  TrainingSnapshot(nn::Module& model, Optimizer& optimizer);
  /// Puts all of it back, and forgets gradients.
  void restore() const;

 private:
  struct HostCopy {
    std::string name;
    Shape shape;
    Dtype dtype;
    std::vector<char> bytes;
  };
  static HostCopy copy(const std::string& name, const Tensor& tensor);
  static Tensor view(const HostCopy& copy);

  nn::Module& model_;
  Optimizer& optimizer_;
  std::vector<HostCopy> weights_, state_;
  std::vector<RandomKey> random_;
  bool training_;
};

}  // namespace wick::optim
