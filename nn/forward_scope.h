#pragma once

#include <memory>

#include "wick/core/tensor.h"

namespace wick::nn {

class Module;

/// While it lives, a module computes on some input, which summaries and searches for anomalies see.
/// Calls of modules make it; so does a function beside forward:
///   Tensor encode(const Tensor& x) { nn::ForwardScope scope(*this); return scope.made(fc(x)); }
class ForwardScope {
 public:
  /// Who looks.
  class Watch {
   public:
    virtual ~Watch() = default;
    virtual void made(const Tensor&) {}  // gets what the module has computed
  };

  explicit ForwardScope(Module& module);
  ~ForwardScope();
  ForwardScope(const ForwardScope&) = delete;
  ForwardScope& operator=(const ForwardScope&) = delete;
  /// Tells what the module has made of it, and returns that.
  Tensor made(Tensor y);

 private:
  std::unique_ptr<Watch> watch_;  // null where no watch is on
};

}  // namespace wick::nn
