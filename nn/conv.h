#pragma once

#include "wick/nn/module.h"

namespace wick::nn {

/// Height and width; one number stands for both.
struct Pair {
  int64_t h;
  int64_t w;
  Pair(int64_t both) : h(both), w(both) {}
  Pair(int64_t h_in, int64_t w_in) : h(h_in), w(w_in) {}
};

struct Conv2dOptions {
  Pair stride = 1;
  Pair padding = 0;
  Pair dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};

/// Convolution of x [N, C, H, W]; y is [N, out_channels, H', W'], stored channels-last.
class Conv2d : public Module {
 public:
  Conv2d(int64_t in_channels, int64_t out_channels, Pair kernel_size,
         const Conv2dOptions& options = {});
  Tensor forward(const Tensor& x) override;
  std::string description() const override;

  Parameter weight;  // [out_channels, in_channels / groups, kernel h, kernel w], channels-last
  Parameter bias;    // [out_channels], or undefined

 private:
  Conv2dOptions options_;
};

struct Conv1dOptions {
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};

/// Convolution of x [N, C, L]; y is [N, out_channels, L'].
class Conv1d : public Module {
 public:
  Conv1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size,
         const Conv1dOptions& options = {});
  Tensor forward(const Tensor& x) override;
  std::string description() const override;

  Parameter weight;  // [out_channels, in_channels / groups, kernel]
  Parameter bias;

 private:
  Conv1dOptions options_;
};

struct ConvTranspose2dOptions {
  Pair stride = 1;
  Pair padding = 0;
  Pair output_padding = 0;
  Pair dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};

/// The gradient of a convolution with respect to its input, as a layer: upsamples x [N, C, H, W].
class ConvTranspose2d : public Module {
 public:
  ConvTranspose2d(int64_t in_channels, int64_t out_channels, Pair kernel_size,
                  const ConvTranspose2dOptions& options = {});
  Tensor forward(const Tensor& x) override;
  std::string description() const override;

  Parameter weight;  // [in_channels, out_channels / groups, kernel h, kernel w]
  Parameter bias;

 private:
  ConvTranspose2dOptions options_;
};

struct MaxPool2dOptions {
  std::optional<Pair> stride = {};  // default: the kernel's size
  Pair padding = 0;                 // by -infinity
  Pair dilation = 1;
  bool ceil_mode = false;
};

/// The largest of each window of x [N, C, H, W]; max_pool2d says how many there are.
class MaxPool2d : public Module {
 public:
  explicit MaxPool2d(Pair kernel_size, const MaxPool2dOptions& options = {})
      : kernel_size_(kernel_size), options_(options) {}
  Tensor forward(const Tensor& x) override;
  std::string description() const override;

 private:
  Pair kernel_size_;
  MaxPool2dOptions options_;
};

struct AvgPool2dOptions {
  std::optional<Pair> stride = {};  // default: the kernel's size
  Pair padding = 0;                 // by zeros
  bool ceil_mode = false;
  bool count_include_pad = true;
};

/// The mean of each window of x [N, C, H, W].
class AvgPool2d : public Module {
 public:
  explicit AvgPool2d(Pair kernel_size, const AvgPool2dOptions& options = {})
      : kernel_size_(kernel_size), options_(options) {}
  Tensor forward(const Tensor& x) override;
  std::string description() const override;

 private:
  Pair kernel_size_;
  AvgPool2dOptions options_;
};

/// Averages each channel of x [N, C, H, W] into output_size cells.
class AdaptiveAvgPool2d : public Module {
 public:
  explicit AdaptiveAvgPool2d(Pair output_size = 1) : output_size_(output_size) {}
  Tensor forward(const Tensor& x) override;

 private:
  Pair output_size_;
};

}  // namespace wick::nn
