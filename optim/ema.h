#pragma once

#include <vector>

#include "wick/optim/optimizer.h"

namespace wick::optim {

/// Exponential moving averages of weights (Polyak & Juditsky 1992), which evaluate better than the
/// weights: average = decay * average + (1 - decay) * weight after each step, all in a few fused
/// kernels. Averages of 16-bit weights are float32.
class Ema {
 public:
  /// Averages start as the tensors, which are floating, dense and on one device: parameters, and
  /// buffers such as running statistics. `decay`: 0 to below 1.
  explicit Ema(std::vector<Tensor> tensors, double decay = 0.999);

  /// Call it after each step; where `found_inf` (float32, rank 0, on their device) is not 0, it
  /// does nothing.
  void update(const Tensor& found_inf = {});
  const std::vector<Tensor>& averages() const { return averages_; }  // in the tensors' order

  /// The averages, as "average.0" and so on in the order of the tensors. They share the memory of
  /// averages(), so that update() changes them.
  StateDict state_dict() const;
  /// Error, and nothing changed, if it does not fit these tensors.
  void load_state_dict(const StateDict& state);

  /// Puts the averages into the tensors until it goes out of scope: for an evaluation.
  class Swap {
   public:
    explicit Swap(Ema& ema);
    ~Swap();
    Swap(const Swap&) = delete;
    Swap& operator=(const Swap&) = delete;

   private:
    Ema& ema_;
    std::vector<Tensor> weights_;
  };

 private:
  std::vector<Tensor> tensors_, averages_;
  double decay_;
};

/// Takes changes of a few tensors back where a step was skipped: those of running statistics, which
/// the forward pass changes before anybody knows.
class Rollback {
 public:
  /// `tensors`: of dtypes of 4 or 8 bytes, dense, on one device; none at all is fine.
  explicit Rollback(std::vector<Tensor> tensors);

  /// Remembers what they are now: before the forward pass.
  void remember();
  /// Where `found_inf` (float32, rank 0, on their device) is not 0, makes them what they were.
  void restore(const Tensor& found_inf);

 private:
  std::vector<Tensor> tensors_, copies_;
};

}  // namespace wick::optim
