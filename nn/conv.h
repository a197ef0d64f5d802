#pragma once

#include "wick/core/ops/conv.h"
#include "wick/core/ops/join.h"
#include "wick/nn/module.h"

// Convolutions. Where an option has an entry per axis, one number counts for all.

namespace wick::nn {

/// How much is put around the input of a convolution: sizes, or as much as keeps its size
/// (`ConvPadding::kSame`).
struct ConvMargin {
  Shape sizes = 0;
  bool same = false;
  template <class Size>
  requires std::convertible_to<Size, int64_t> ConvMargin(Size all) : sizes(int64_t{all}) {}
  ConvMargin(std::initializer_list<int64_t> each) : sizes(each) {}
  ConvMargin(const Shape& each) : sizes(each) {}
  ConvMargin(ConvPadding padding) : same(padding == ConvPadding::kSame) {}
};

/// Options of Conv1d, Conv2d and Conv3d, named as those of torch.nn.Conv2d. The constructors throw
/// unless `groups` divides both numbers of channels. Padding to the same size needs a stride of 1.
struct ConvOptions {
  Shape stride = 1;
  ConvMargin padding = 0;
  Shape dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  PadMode padding_mode = PadMode::kConstant;  // what stands in the padding: by default zeros
};
using Conv1dOptions = ConvOptions;
using Conv2dOptions = ConvOptions;
using Conv3dOptions = ConvOptions;

/// What convolutions of signals, images and volumes share.
class Convolution : public Module {
 public:
  Tensor forward(const Tensor& x) override;
  std::string description() const override;

  Parameter weight;  // [out_channels, in_channels / groups, kernel...]; of images channels-last
  Parameter bias;    // [out_channels], or undefined

 protected:
  Convolution(const char* name, int axes, int64_t in_channels, int64_t out_channels,
              const Shape& kernel_size, const ConvOptions& options);

 private:
  const char* name_;
  ConvOptions options_;
};

/// Convolution of x [N, C, L]; y is [N, out_channels, L'].
class Conv1d : public Convolution {
 public:
  Conv1d(int64_t in_channels, int64_t out_channels, const Shape& kernel_size,
         const Conv1dOptions& options = {})
      : Convolution("Conv1d", 1, in_channels, out_channels, kernel_size, options) {}
};

/// Convolution of x [N, C, H, W]; y is [N, out_channels, H', W'], stored channels-last.
class Conv2d : public Convolution {
 public:
  Conv2d(int64_t in_channels, int64_t out_channels, const Shape& kernel_size,
         const Conv2dOptions& options = {})
      : Convolution("Conv2d", 2, in_channels, out_channels, kernel_size, options) {}
};

/// Convolution of x [N, C, D, H, W]; y is [N, out_channels, D', H', W'], stored channels-last.
class Conv3d : public Convolution {
 public:
  Conv3d(int64_t in_channels, int64_t out_channels, const Shape& kernel_size,
         const Conv3dOptions& options = {})
      : Convolution("Conv3d", 3, in_channels, out_channels, kernel_size, options) {}
};

/// Options of transposed convolutions, named as those of torch.nn.ConvTranspose2d. `padding` is cut
/// off the result at both ends of an axis, `output_padding` is added at the end. forward() throws
/// unless `output_padding` is less than the stride or the dilation.
struct ConvTransposeOptions {
  Shape stride = 1;
  Shape padding = 0;
  Shape output_padding = 0;
  Shape dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};
using ConvTranspose1dOptions = ConvTransposeOptions;
using ConvTranspose2dOptions = ConvTransposeOptions;
using ConvTranspose3dOptions = ConvTransposeOptions;

/// What transposed convolutions of signals, images and volumes share: the gradient of a convolution
/// with respect to its input, as a layer, which upsamples.
class TransposedConvolution : public Module {
 public:
  Tensor forward(const Tensor& x) override { return forward(x, {}); }
  /// `output_size`: that of the result's last axes, in place of `output_padding`. Error unless it
  /// is the least size of the result, or larger by less than the stride.
  Tensor forward(const Tensor& x, const Shape& output_size);
  using Module::operator();
  Tensor operator()(const Tensor& x, const Shape& output_size) {
    ForwardScope scope(*this);
    return scope.made(forward(x, output_size));
  }
  std::string description() const override;

  Parameter weight;  // [in_channels, out_channels / groups, kernel...]
  Parameter bias;    // [out_channels], or undefined

 protected:
  TransposedConvolution(const char* name, int axes, int64_t in_channels, int64_t out_channels,
                        const Shape& kernel_size, const ConvTransposeOptions& options);

 private:
  /// What is added at the ends of axes.
  Shape output_padding(const Tensor& x, const Shape& output_size) const;

  const char* name_;
  ConvTransposeOptions options_;
};

/// Of x [N, C, L].
class ConvTranspose1d : public TransposedConvolution {
 public:
  ConvTranspose1d(int64_t in_channels, int64_t out_channels, const Shape& kernel_size,
                  const ConvTranspose1dOptions& options = {})
      : TransposedConvolution("ConvTranspose1d", 1, in_channels, out_channels, kernel_size,
                              options) {}
};

/// Of x [N, C, H, W].
class ConvTranspose2d : public TransposedConvolution {
 public:
  ConvTranspose2d(int64_t in_channels, int64_t out_channels, const Shape& kernel_size,
                  const ConvTranspose2dOptions& options = {})
      : TransposedConvolution("ConvTranspose2d", 2, in_channels, out_channels, kernel_size,
                              options) {}
};

/// Of x [N, C, D, H, W].
class ConvTranspose3d : public TransposedConvolution {
 public:
  ConvTranspose3d(int64_t in_channels, int64_t out_channels, const Shape& kernel_size,
                  const ConvTranspose3dOptions& options = {})
      : TransposedConvolution("ConvTranspose3d", 3, in_channels, out_channels, kernel_size,
                              options) {}
};

}  // namespace wick::nn
