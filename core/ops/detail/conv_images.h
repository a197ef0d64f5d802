#pragma once

#include "wick/core/ops/detail/wide.h"

// The gradients of conv2d as functions, for convolutions that are made of it.
namespace wick {

/// How a convolution steps over images, an entry for each axis.
struct ConvSteps {
  Shape stride, padding, dilation;
  int64_t groups = 1;
};

/// The gradient of images of `size` (height, width) and that of a weight with a kernel of `kernel`.
/// Shapes are the caller's to check.
Tensor conv2d_input_gradient(const Tensor& dy, const Tensor& weight, const Shape& size,
                             const ConvSteps& steps);
Tensor conv2d_weight_gradient(const Tensor& x, const Tensor& dy, const Shape& kernel,
                              const ConvSteps& steps);

/// A weight as the CPU's convolutions multiply it, for one algorithm; undefined where they take it
/// as it is.
struct PackedConvWeight {
  Tensor weight;
  int64_t algorithm = -1;
};
/// For images of shape `x` and results of shape `y`, by the plan that holds now. The form suits
/// this process, on its CPU.
PackedConvWeight pack_conv_weight(const Shape& x, const Shape& y, const Tensor& weight,
                                  const ConvSteps& steps);
/// conv2d() for inference, and what follows: y = relu(conv2d(x) + residual), where `residual` may
/// be undefined. The bits are those of the separate ops. No gradients.
Tensor conv2d_fused(const Tensor& x, const Tensor& weight, const Tensor& bias,
                    const Tensor& residual, bool relu, const ConvSteps& steps,
                    const PackedConvWeight& packed = {});

/// The shape of what a convolution of x gives: images (2 axes) or volumes (3). Error unless steps,
/// x and weight fit each other.
Shape conv_shape(const char* op, int axes, const Shape& x, const Shape& weight,
                 const ConvSteps& steps);
/// Error unless `dy` is of that shape.
void check_conv_gradient(const char* op, int axes, const Tensor& dy, const Shape& x,
                         const Shape& weight, const ConvSteps& steps);
/// Error unless x and weight are of one floating dtype.
void check_conv_dtypes(const char* op, const Tensor& x, const Tensor& weight);
/// Error unless there is none, or one number for each of `channels`.
void check_conv_bias(const char* op, const Tensor& bias, int64_t channels);

/// transposed(x, weight) + bias, rounded once on the CPU, where 16-bit convolutions are not faster
/// than those in float32. A GPU's library rounds the 16-bit convolution before the bias is added.
template <class Transposed>
Tensor transposed_with_bias(const Tensor& x, const Tensor& weight, const Tensor& bias,
                            const Transposed& transposed) {
  if (!bias.defined()) return transposed(x, weight);
  const auto sum = [&](const std::vector<Tensor>& in) {
    const Tensor y = transposed(in[0], in[1]);
    Shape along = Shape::filled(y.rank(), 1);
    along[1] = in[2].numel();
    return y + in[2].reshape(along).to(y.dtype());
  };
  const bool alike = x.dtype() == weight.dtype() && x.dtype() == bias.dtype();
  return alike && x.device().is_cpu() ? computed_wide({x, weight, bias}, sum)
                                      : sum({x, weight, bias});
}

/// What to `pad` x by, the last axis first, so that a convolution keeps its size.
std::vector<int64_t> same_padding(const char* op, const Tensor& weight, const Shape& stride,
                                  const Shape& dilation);

}  // namespace wick
