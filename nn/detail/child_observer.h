#pragma once

#include "wick/nn/module.h"

namespace wick::nn {

/// Sees the children of Sequentials run, those within others too.
class ChildObserver {
 public:
  virtual ~ChildObserver() = default;
  virtual void before(Sequential& parent, int64_t child, const Tensor& x) = 0;
  virtual void after(Sequential& parent, int64_t child, const Tensor& y) = 0;
};

/// The one in force on this thread; null if there is none.
ChildObserver*& child_observer();

}  // namespace wick::nn
