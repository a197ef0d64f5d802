#include "wick/nn/pool.h"

#include "wick/nn/detail/sizes_text.h"
#include "wick/nn/forward_scope.h"

namespace wick::nn {

namespace {

// Of functions for 1, 2 and 3 axes the one for `axes`.
template <class Function>
Function* for_axes(int axes, Function* one, Function* two, Function* three) {
  return axes == 1 ? one : axes == 2 ? two : three;
}

template <class Options>
std::string describe_pool(const char* name, int axes, const Shape& kernel, const Options& options,
                          const std::string& rest) {
  const std::string stride =
      options.stride.empty() ? "" : concat(", stride=", sizes_text(options.stride));
  return concat(name, axes, "d(", sizes_text(kernel), stride,
                option_text("padding", options.padding, 0), rest,
                options.ceil_mode ? ", ceil_mode" : "", ")");
}

}  // namespace

Tensor MaxPool::forward(const Tensor& x) {
  const MaxPoolOptions& o = options_;
  return for_axes(axes_, &max_pool1d, &max_pool2d, &max_pool3d)(x, kernel_size_, o.stride,
                                                                o.padding, o.dilation, o.ceil_mode);
}

Sorted MaxPool::forward_with_indices(const Tensor& x) {
  const MaxPoolOptions& o = options_;
  ForwardScope scope(*this);
  const auto pool =
      for_axes(axes_, &max_pool1d_with_indices, &max_pool2d_with_indices, &max_pool3d_with_indices);
  const Sorted result = pool(x, kernel_size_, o.stride, o.padding, o.dilation, o.ceil_mode);
  return {scope.made(result.values), result.indices};
}

std::string MaxPool::description() const {
  return describe_pool("MaxPool", axes_, kernel_size_, options_,
                       option_text("dilation", options_.dilation, 1));
}

AvgPool::AvgPool(int axes, const Shape& kernel_size, const AvgPoolOptions& options)
    : axes_(axes), kernel_size_(kernel_size), options_(options) {
  WICK_CHECK(axes > 1 || !options.divisor_override,
             "AvgPool1d: divisor_override is for images and volumes");
}

Tensor AvgPool::forward(const Tensor& x) {
  const AvgPoolOptions& o = options_;
  if (axes_ == 1) {
    return avg_pool1d(x, kernel_size_, o.stride, o.padding, o.ceil_mode, o.count_include_pad);
  }
  const auto pool = axes_ == 2 ? &avg_pool2d : &avg_pool3d;
  return pool(x, kernel_size_, o.stride, o.padding, o.ceil_mode, o.count_include_pad,
              o.divisor_override);
}

std::string AvgPool::description() const {
  const AvgPoolOptions& o = options_;
  return describe_pool(
      "AvgPool", axes_, kernel_size_, o,
      concat(o.count_include_pad ? "" : ", count_include_pad=false",
             o.divisor_override ? concat(", divisor_override=", *o.divisor_override) : ""));
}

Tensor LPPool::forward(const Tensor& x) {
  return for_axes(axes_, &lp_pool1d, &lp_pool2d, &lp_pool3d)(x, norm_type_, kernel_size_,
                                                             options_.stride, options_.ceil_mode);
}

Tensor AdaptiveAvgPool::forward(const Tensor& x) {
  return for_axes(axes_, &adaptive_avg_pool1d, &adaptive_avg_pool2d, &adaptive_avg_pool3d)(
      x, output_size_);
}

Tensor AdaptiveMaxPool::forward(const Tensor& x) {
  return for_axes(axes_, &adaptive_max_pool1d, &adaptive_max_pool2d, &adaptive_max_pool3d)(
      x, output_size_);
}

Sorted AdaptiveMaxPool::forward_with_indices(const Tensor& x) {
  ForwardScope scope(*this);
  const auto pool = for_axes(axes_, &adaptive_max_pool1d_with_indices,
                             &adaptive_max_pool2d_with_indices, &adaptive_max_pool3d_with_indices);
  const Sorted result = pool(x, output_size_);
  return {scope.made(result.values), result.indices};
}

Tensor MaxUnpool::forward(const Tensor& x, const Tensor& indices, const Shape& output_size) {
  return for_axes(axes_, &max_unpool1d, &max_unpool2d, &max_unpool3d)(
      x, indices, kernel_size_, options_.stride, options_.padding, output_size);
}

}  // namespace wick::nn
