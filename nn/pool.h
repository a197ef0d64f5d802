#pragma once

#include "wick/core/ops/pool.h"
#include "wick/nn/module.h"

// Poolings of x [N, C, L] (1d), [N, C, H, W] (2d) and [N, C, D, H, W] (3d). Where an option has an
// entry per axis, one number counts for all. What each computes, and how many windows there are, is
// told at the function it is named after, in wick/core/ops/pool.h.

namespace wick::nn {

/// Options of max pooling, named as those of torch.nn.MaxPool2d. `padding` is at most half of the
/// kernel's size. `dilation` is the distance between a window's elements. `ceil_mode` rounds the
/// number of windows up.
struct MaxPoolOptions {
  Shape stride = {};  // default: the kernel's size
  Shape padding = 0;  // by -infinity
  Shape dilation = 1;
  bool ceil_mode = false;
};
using MaxPool1dOptions = MaxPoolOptions;
using MaxPool2dOptions = MaxPoolOptions;
using MaxPool3dOptions = MaxPoolOptions;

/// The largest element of each window.
class MaxPool : public Module {
 public:
  Tensor forward(const Tensor& x) override;
  /// The same, and where each is: what MaxUnpool takes. PyTorch's return_indices.
  Sorted forward_with_indices(const Tensor& x);
  std::string description() const override;

 protected:
  MaxPool(int axes, const Shape& kernel_size, const MaxPoolOptions& options)
      : axes_(axes), kernel_size_(kernel_size), options_(options) {}

 private:
  int axes_;
  Shape kernel_size_;
  MaxPoolOptions options_;
};

/// Options of average pooling, named as those of torch.nn.AvgPool2d. `padding` is at most half of
/// the kernel's size. `ceil_mode` rounds the number of windows up. `count_include_pad`: the
/// padding's zeros count as elements. `divisor_override` divides sums in place of the number of
/// elements; AvgPool1d throws if it is given.
struct AvgPoolOptions {
  Shape stride = {};  // default: the kernel's size
  Shape padding = 0;  // by zeros
  bool ceil_mode = false;
  bool count_include_pad = true;
  std::optional<int64_t> divisor_override = {};  // of images and volumes
};
using AvgPool1dOptions = AvgPoolOptions;
using AvgPool2dOptions = AvgPoolOptions;
using AvgPool3dOptions = AvgPoolOptions;

/// The mean of each window.
class AvgPool : public Module {
 public:
  Tensor forward(const Tensor& x) override;
  std::string description() const override;

 protected:
  AvgPool(int axes, const Shape& kernel_size, const AvgPoolOptions& options);

 private:
  int axes_;
  Shape kernel_size_;
  AvgPoolOptions options_;
};

/// Options of power-average pooling. `ceil_mode` rounds the number of windows up.
struct LPPoolOptions {
  Shape stride = {};  // default: the kernel's size
  bool ceil_mode = false;
};

/// (sum of x^norm_type)^(1 / norm_type) of each window.
class LPPool : public Module {
 public:
  Tensor forward(const Tensor& x) override;

 protected:
  LPPool(int axes, double norm_type, const Shape& kernel_size, const LPPoolOptions& options)
      : axes_(axes), norm_type_(norm_type), kernel_size_(kernel_size), options_(options) {}

 private:
  int axes_;
  double norm_type_;
  Shape kernel_size_;
  LPPoolOptions options_;
};

/// Averages each channel of x into output_size cells.
class AdaptiveAvgPool : public Module {
 public:
  Tensor forward(const Tensor& x) override;

 protected:
  AdaptiveAvgPool(int axes, const Shape& output_size) : axes_(axes), output_size_(output_size) {}

 private:
  int axes_;
  Shape output_size_;
};

/// The largest element of each of output_size cells.
class AdaptiveMaxPool : public Module {
 public:
  Tensor forward(const Tensor& x) override;
  /// The same, and where each is.
  Sorted forward_with_indices(const Tensor& x);

 protected:
  AdaptiveMaxPool(int axes, const Shape& output_size) : axes_(axes), output_size_(output_size) {}

 private:
  int axes_;
  Shape output_size_;
};

/// Options of MaxUnpool1d, MaxUnpool2d and MaxUnpool3d: those of the pooling that is reversed.
struct MaxUnpoolOptions {
  Shape stride = {};  // default: the kernel's size
  Shape padding = 0;
};

/// Puts elements back where MaxPool found them, among zeros: `unpool(x, indices)`.
class MaxUnpool : public Module {
 public:
  using Module::forward;
  /// The result has the size `output_size`, or the smallest that pooling makes x of.
  Tensor forward(const Tensor& x, const Tensor& indices, const Shape& output_size = {});
  Tensor operator()(const Tensor& x, const Tensor& indices, const Shape& output_size = {}) {
    ForwardScope scope(*this);
    return scope.made(forward(x, indices, output_size));
  }

 protected:
  MaxUnpool(int axes, const Shape& kernel_size, const MaxUnpoolOptions& options)
      : axes_(axes), kernel_size_(kernel_size), options_(options) {}

 private:
  int axes_;
  Shape kernel_size_;
  MaxUnpoolOptions options_;
};

/// Max pooling of signals [N, C, L] or [C, L].
class MaxPool1d : public MaxPool {
 public:
  explicit MaxPool1d(const Shape& kernel_size, const MaxPool1dOptions& options = {})
      : MaxPool(1, kernel_size, options) {}
};

/// Average pooling of signals [N, C, L] or [C, L].
class AvgPool1d : public AvgPool {
 public:
  explicit AvgPool1d(const Shape& kernel_size, const AvgPool1dOptions& options = {})
      : AvgPool(1, kernel_size, options) {}
};

/// Power-average pooling of signals [N, C, L] or [C, L].
class LPPool1d : public LPPool {
 public:
  LPPool1d(double norm_type, const Shape& kernel_size, const LPPoolOptions& options = {})
      : LPPool(1, norm_type, kernel_size, options) {}
};

/// Average pooling of signals [N, C, L] or [C, L] to `output_size`, by default one cell.
class AdaptiveAvgPool1d : public AdaptiveAvgPool {
 public:
  explicit AdaptiveAvgPool1d(const Shape& output_size = 1) : AdaptiveAvgPool(1, output_size) {}
};

/// Max pooling of signals [N, C, L] or [C, L] to `output_size`, by default one cell.
class AdaptiveMaxPool1d : public AdaptiveMaxPool {
 public:
  explicit AdaptiveMaxPool1d(const Shape& output_size = 1) : AdaptiveMaxPool(1, output_size) {}
};

/// Reverses MaxPool1d, for signals [N, C, L] or [C, L].
class MaxUnpool1d : public MaxUnpool {
 public:
  explicit MaxUnpool1d(const Shape& kernel_size, const MaxUnpoolOptions& options = {})
      : MaxUnpool(1, kernel_size, options) {}
};

/// Max pooling of images [N, C, H, W] or [C, H, W].
class MaxPool2d : public MaxPool {
 public:
  explicit MaxPool2d(const Shape& kernel_size, const MaxPool2dOptions& options = {})
      : MaxPool(2, kernel_size, options) {}
};

/// Average pooling of images [N, C, H, W] or [C, H, W].
class AvgPool2d : public AvgPool {
 public:
  explicit AvgPool2d(const Shape& kernel_size, const AvgPool2dOptions& options = {})
      : AvgPool(2, kernel_size, options) {}
};

/// Power-average pooling of images [N, C, H, W] or [C, H, W].
class LPPool2d : public LPPool {
 public:
  LPPool2d(double norm_type, const Shape& kernel_size, const LPPoolOptions& options = {})
      : LPPool(2, norm_type, kernel_size, options) {}
};

/// Average pooling of images [N, C, H, W] or [C, H, W] to `output_size`, by default one cell.
class AdaptiveAvgPool2d : public AdaptiveAvgPool {
 public:
  explicit AdaptiveAvgPool2d(const Shape& output_size = 1) : AdaptiveAvgPool(2, output_size) {}
};

/// Max pooling of images [N, C, H, W] or [C, H, W] to `output_size`, by default one cell.
class AdaptiveMaxPool2d : public AdaptiveMaxPool {
 public:
  explicit AdaptiveMaxPool2d(const Shape& output_size = 1) : AdaptiveMaxPool(2, output_size) {}
};

/// Reverses MaxPool2d, for images [N, C, H, W] or [C, H, W].
class MaxUnpool2d : public MaxUnpool {
 public:
  explicit MaxUnpool2d(const Shape& kernel_size, const MaxUnpoolOptions& options = {})
      : MaxUnpool(2, kernel_size, options) {}
};

/// Max pooling of volumes [N, C, D, H, W] or [C, D, H, W].
class MaxPool3d : public MaxPool {
 public:
  explicit MaxPool3d(const Shape& kernel_size, const MaxPool3dOptions& options = {})
      : MaxPool(3, kernel_size, options) {}
};

/// Average pooling of volumes [N, C, D, H, W] or [C, D, H, W].
class AvgPool3d : public AvgPool {
 public:
  explicit AvgPool3d(const Shape& kernel_size, const AvgPool3dOptions& options = {})
      : AvgPool(3, kernel_size, options) {}
};

/// Power-average pooling of volumes [N, C, D, H, W] or [C, D, H, W].
class LPPool3d : public LPPool {
 public:
  LPPool3d(double norm_type, const Shape& kernel_size, const LPPoolOptions& options = {})
      : LPPool(3, norm_type, kernel_size, options) {}
};

/// Average pooling of volumes [N, C, D, H, W] or [C, D, H, W] to `output_size`, by default one
/// cell.
class AdaptiveAvgPool3d : public AdaptiveAvgPool {
 public:
  explicit AdaptiveAvgPool3d(const Shape& output_size = 1) : AdaptiveAvgPool(3, output_size) {}
};

/// Max pooling of volumes [N, C, D, H, W] or [C, D, H, W] to `output_size`, by default one cell.
class AdaptiveMaxPool3d : public AdaptiveMaxPool {
 public:
  explicit AdaptiveMaxPool3d(const Shape& output_size = 1) : AdaptiveMaxPool(3, output_size) {}
};

/// Reverses MaxPool3d, for volumes [N, C, D, H, W] or [C, D, H, W].
class MaxUnpool3d : public MaxUnpool {
 public:
  explicit MaxUnpool3d(const Shape& kernel_size, const MaxUnpoolOptions& options = {})
      : MaxUnpool(3, kernel_size, options) {}
};

}  // namespace wick::nn
