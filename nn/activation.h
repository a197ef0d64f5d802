#pragma once

#include "wick/core/ops/activation.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/softmax.h"
#include "wick/nn/module.h"

namespace wick::nn {

class ReLU : public Module {
 public:
  Tensor forward(const Tensor& x) override { return relu(x); }
};

/// Exact: x * Phi(x) (Hendrycks & Gimpel 2016, arXiv 1606.08415).
class GELU : public Module {
 public:
  Tensor forward(const Tensor& x) override { return gelu(x); }
};

class SiLU : public Module {
 public:
  Tensor forward(const Tensor& x) override { return silu(x); }
};

class Hardswish : public Module {
 public:
  Tensor forward(const Tensor& x) override { return hardswish(x); }
};

class Sigmoid : public Module {
 public:
  Tensor forward(const Tensor& x) override { return sigmoid(x); }
};

class Tanh : public Module {
 public:
  Tensor forward(const Tensor& x) override { return tanh(x); }
};

class Softplus : public Module {
 public:
  Tensor forward(const Tensor& x) override { return softplus(x); }
};

class LeakyReLU : public Module {
 public:
  explicit LeakyReLU(double negative_slope = 0.01) : negative_slope_(negative_slope) {}
  Tensor forward(const Tensor& x) override { return leaky_relu(x, negative_slope_); }

 private:
  double negative_slope_;
};

class ELU : public Module {
 public:
  explicit ELU(double alpha = 1) : alpha_(alpha) {}
  Tensor forward(const Tensor& x) override { return elu(x, alpha_); }

 private:
  double alpha_;
};

class Softmax : public Module {
 public:
  explicit Softmax(int64_t axis) : axis_(axis) {}
  Tensor forward(const Tensor& x) override { return softmax(x, axis_); }

 private:
  int64_t axis_;
};

class LogSoftmax : public Module {
 public:
  explicit LogSoftmax(int64_t axis) : axis_(axis) {}
  Tensor forward(const Tensor& x) override { return log_softmax(x, axis_); }

 private:
  int64_t axis_;
};

}  // namespace wick::nn
