#pragma once

#include "wick/core/random.h"
#include "wick/core/tensor.h"

namespace wick::nn::init {

enum class FanMode : uint8_t { kFanIn, kFanOut };

/// Inputs and outputs of one unit of a weight [out, in, ...kernel].
struct Fans {
  int64_t in;
  int64_t out;
};
Fans fans(const Tensor& weight);

// All of these fill a tensor in place, unseen by autograd. Random numbers are from `generator`, by
// default the device's own.

void uniform_(const Tensor& tensor, double low = 0, double high = 1,
              Generator* generator = nullptr);
void normal_(const Tensor& tensor, double mean = 0, double stddev = 1,
             Generator* generator = nullptr);
/// Normal numbers within [low, high]: those beyond are drawn again, or, where most would be, all
/// are made on the CPU from uniform ones.
void trunc_normal_(const Tensor& tensor, double mean = 0, double stddev = 1, double low = -2,
                   double high = 2, Generator* generator = nullptr);
void constant_(const Tensor& tensor, double value);  // `value` everywhere
/// Kaiming initialisation (He et al. 2015, arXiv 1502.01852) for a leaky ReLU of slope
/// `negative_slope` (0: ReLU): keeps the variance of activations, or with kFanOut of gradients.
void kaiming_uniform_(const Tensor& weight, double negative_slope = 0,
                      FanMode mode = FanMode::kFanIn, Generator* generator = nullptr);
void kaiming_normal_(const Tensor& weight, double negative_slope = 0,
                     FanMode mode = FanMode::kFanIn, Generator* generator = nullptr);
/// Xavier initialisation (Glorot & Bengio 2010).
void xavier_uniform_(const Tensor& weight, double gain = 1, Generator* generator = nullptr);
void xavier_normal_(const Tensor& weight, double gain = 1, Generator* generator = nullptr);

/// What PyTorch's linear and convolution layers start from: uniform in +-1/sqrt(fan_in).
void linear_default_(const Tensor& weight, const Tensor& bias, Generator* generator = nullptr);

}  // namespace wick::nn::init
