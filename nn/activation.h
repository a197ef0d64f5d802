#pragma once

#include "wick/core/ops/activation.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/softmax.h"
#include "wick/nn/module.h"

namespace wick::nn {

/// max(x, 0) of each element.
class ReLU : public Module {
 public:
  Tensor forward(const Tensor& x) override { return relu(x); }
};

/// min(max(x, 0), 6) of each element.
class ReLU6 : public Module {
 public:
  Tensor forward(const Tensor& x) override { return relu6(x); }
};

/// x * Phi(x), or its approximation by tanh (Hendrycks & Gimpel 2016, arXiv 1606.08415).
class GELU : public Module {
 public:
  explicit GELU(GeluApproximation approximation = GeluApproximation::kNone)
      : approximation_(approximation) {}
  Tensor forward(const Tensor& x) override { return gelu(x, approximation_); }

 private:
  GeluApproximation approximation_;
};

/// x sigmoid(x) of each element, also called swish.
class SiLU : public Module {
 public:
  Tensor forward(const Tensor& x) override { return silu(x); }
};

/// x min(max(x + 3, 0), 6) / 6 of each element.
class Hardswish : public Module {
 public:
  Tensor forward(const Tensor& x) override { return hardswish(x); }
};

/// min(max(x + 3, 0), 6) / 6 of each element.
class Hardsigmoid : public Module {
 public:
  Tensor forward(const Tensor& x) override { return hardsigmoid(x); }
};

/// x tanh(log(1 + exp(x))) of each element (Misra 2019).
class Mish : public Module {
 public:
  Tensor forward(const Tensor& x) override { return mish(x); }
};

/// x / (1 + |x|) of each element.
class Softsign : public Module {
 public:
  Tensor forward(const Tensor& x) override { return softsign(x); }
};

/// 1 / (1 + exp(-x)) of each element.
class Sigmoid : public Module {
 public:
  Tensor forward(const Tensor& x) override { return sigmoid(x); }
};

/// The hyperbolic tangent of each element.
class Tanh : public Module {
 public:
  Tensor forward(const Tensor& x) override { return tanh(x); }
};

/// log(1 + exp(beta x)) / beta of each element; x itself where beta x is above `threshold`.
class Softplus : public Module {
 public:
  explicit Softplus(double beta = 1, double threshold = 20) : beta_(beta), threshold_(threshold) {}
  Tensor forward(const Tensor& x) override { return softplus(x, beta_, threshold_); }

 private:
  double beta_, threshold_;
};

/// x where it is positive, else negative_slope x.
class LeakyReLU : public Module {
 public:
  explicit LeakyReLU(double negative_slope = 0.01) : negative_slope_(negative_slope) {}
  Tensor forward(const Tensor& x) override { return leaky_relu(x, negative_slope_); }

 private:
  double negative_slope_;
};

/// x where it is positive, else alpha (exp(x) - 1).
class ELU : public Module {
 public:
  explicit ELU(double alpha = 1) : alpha_(alpha) {}
  Tensor forward(const Tensor& x) override { return elu(x, alpha_); }

 private:
  double alpha_;
};

/// prelu with a slope that is learned: one, or one for each of the channels of x [N, C, ...].
class PReLU : public Module {
 public:
  explicit PReLU(int64_t num_parameters = 1, double init = 0.25) {
    WICK_CHECK(num_parameters >= 1, "PReLU: num_parameters must be 1 or more: got ",
               num_parameters);
    weight = add_parameter("weight", full({num_parameters}, init));
  }
  Tensor forward(const Tensor& x) override { return prelu(x, weight); }

  Parameter weight;  // [num_parameters]
};

/// glu: the first half of an axis times the sigmoid of the second.
class GLU : public Module {
 public:
  explicit GLU(int64_t axis = -1) : axis_(axis) {}
  Tensor forward(const Tensor& x) override { return glu(x, axis_); }

 private:
  int64_t axis_;
};

/// exp(x) / sum(exp(x)) over `axis`. forward() throws if `axis` is out of range.
class Softmax : public Module {
 public:
  explicit Softmax(int64_t axis) : axis_(axis) {}
  Tensor forward(const Tensor& x) override { return softmax(x, axis_); }

 private:
  int64_t axis_;
};

/// log(softmax(x)) over `axis`, exact also where the softmax underflows. forward() throws if `axis`
/// is out of range.
class LogSoftmax : public Module {
 public:
  explicit LogSoftmax(int64_t axis) : axis_(axis) {}
  Tensor forward(const Tensor& x) override { return log_softmax(x, axis_); }

 private:
  int64_t axis_;
};

/// 1.0507 times ELU with alpha 1.6733, which keeps means of 0 and variances of 1 (Klambauer et al.
/// 2017).
class SELU : public Module {
 public:
  Tensor forward(const Tensor& x) override { return selu(x); }
};

/// log(sigmoid(x)) of each element, without overflow.
class LogSigmoid : public Module {
 public:
  Tensor forward(const Tensor& x) override { return logsigmoid(x); }
};

/// x - tanh(x) of each element.
class Tanhshrink : public Module {
 public:
  Tensor forward(const Tensor& x) override { return tanhshrink(x); }
};

/// max(x, 0) + min(alpha (exp(x / alpha) - 1), 0) of each element. forward() throws if alpha is 0.
class CELU : public Module {
 public:
  explicit CELU(double alpha = 1) : alpha_(alpha) {}
  Tensor forward(const Tensor& x) override { return celu(x, alpha_); }

 private:
  double alpha_;
};

/// x limited to [min_val, max_val]; its gradient is 0 at the bounds. forward() throws unless
/// min_val <= max_val.
class Hardtanh : public Module {
 public:
  explicit Hardtanh(double min_val = -1, double max_val = 1)
      : min_val_(min_val), max_val_(max_val) {}
  Tensor forward(const Tensor& x) override { return hardtanh(x, min_val_, max_val_); }

 private:
  double min_val_, max_val_;
};

/// x, but 0 within [-lambd, lambd].
class Hardshrink : public Module {
 public:
  explicit Hardshrink(double lambd = 0.5) : lambd_(lambd) {}
  Tensor forward(const Tensor& x) override { return hardshrink(x, lambd_); }

 private:
  double lambd_;
};

/// x brought towards 0 by lambd, and 0 within [-lambd, lambd]. forward() throws if lambd is below
/// 0.
class Softshrink : public Module {
 public:
  explicit Softshrink(double lambd = 0.5) : lambd_(lambd) {}
  Tensor forward(const Tensor& x) override { return softshrink(x, lambd_); }

 private:
  double lambd_;
};

/// x where it is above `threshold`, else `value`.
class Threshold : public Module {
 public:
  Threshold(double threshold, double value) : threshold_(threshold), value_(value) {}
  Tensor forward(const Tensor& x) override { return threshold(x, threshold_, value_); }

 private:
  double threshold_, value_;
};

/// rrelu: slopes are drawn in training, by default from the device's own generator.
class RReLU : public Module {
 public:
  explicit RReLU(double lower = 1.0 / 8, double upper = 1.0 / 3, Generator* generator = nullptr)
      : lower_(lower), upper_(upper), generator_(generator) {}
  Tensor forward(const Tensor& x) override {
    return rrelu(x, lower_, upper_, is_training(), generator_);
  }

 private:
  double lower_, upper_;
  Generator* generator_;
};

/// softmax of -x.
class Softmin : public Module {
 public:
  explicit Softmin(int64_t axis) : axis_(axis) {}
  Tensor forward(const Tensor& x) override { return softmax(neg(x), axis_); }

 private:
  int64_t axis_;
};

/// softmax over the channels of x [N, C, H, W] or [C, H, W].
class Softmax2d : public Module {
 public:
  Tensor forward(const Tensor& x) override {
    WICK_CHECK(x.rank() == 3 || x.rank() == 4, "Softmax2d: needs [N, C, H, W] or [C, H, W]: got ",
               x.shape());
    return softmax(x, -3);
  }
};

}  // namespace wick::nn
