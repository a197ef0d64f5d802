#pragma once

#include <cstddef>

#include "wick/core/tensor.h"

namespace wick::optim {

/// Lets an optimizer that holds one part of each parameter, other ranks holding the others, work as
/// one of whole parameters. dist::shard_optimizer makes it; the ranks call all but the last three
/// together. A parameter is the `i`-th of its `group`.
class Sharding {
 public:
  virtual ~Sharding() = default;

  /// Makes what this rank found in its parts of the gradients what all found: the root of the sum
  /// of the squares of their `norm`s (float64, rank 0), and whether any found what is not finite
  /// (float32, rank 0).
  virtual void combine(const Tensor& norm, const Tensor& found_inf) = 0;
  /// Gives all ranks all parts of the parameters.
  virtual void gather_parameters() = 0;
  /// The state of a whole parameter, on the host, of which this rank has `part`; undefined but on
  /// the first rank.
  virtual Tensor gather(int group, size_t i, const Tensor& part) = 0;

  /// This rank's part of the state `whole`.
  virtual Tensor part_of(int group, size_t i, const Tensor& whole) const = 0;
  virtual const Tensor& parameter(int group, size_t i) const = 0;
  virtual bool is_first_rank() const = 0;
};

}  // namespace wick::optim
