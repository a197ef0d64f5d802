#include "wick/core/ops/pool.h"

#include <array>

#include "wick/core/apply.h"
#include "wick/core/ops/detail/image_format.h"
#include "wick/kernels/pool.h"

namespace wick {

namespace {

// The attributes that poolings and their gradients share.
struct Windows {
  Shape kernel{1, 1}, stride{1, 1}, padding{0, 0}, dilation{1, 1};
  bool ceil_mode = false;
  bool count_include_pad = true;
  bool adaptive = false;
  Shape size;  // height and width of the image, or of the result of an adaptive pooling

  Pool2dParams params() const {
    return {{kernel[0], kernel[1]},     {stride[0], stride[1]}, {padding[0], padding[1]},
            {dilation[0], dilation[1]}, count_include_pad,      adaptive};
  }
  // Elements from the first to the last of a window.
  int64_t reach(int axis) const { return dilation[axis] * (kernel[axis] - 1) + 1; }
  int64_t output_size(int axis, int64_t in) const {
    if (adaptive) return size[axis];
    const int64_t rest = in + 2 * padding[axis] - reach(axis);
    if (!ceil_mode) return rest / stride[axis] + 1;
    const int64_t out = (rest + stride[axis] - 1) / stride[axis] + 1;
    // Windows start in the image or before it.
    return (out - 1) * stride[axis] >= in + padding[axis] ? out - 1 : out;
  }
  Shape output_shape(const Shape& x) const {
    return {x[0], x[1], output_size(0, x[2]), output_size(1, x[3])};
  }
};

constexpr auto kWindowFields = std::tuple{field("kernel_size", &Windows::kernel),
                                          field("stride", &Windows::stride),
                                          field("padding", &Windows::padding),
                                          field("dilation", &Windows::dilation),
                                          field("ceil_mode", &Windows::ceil_mode),
                                          field("count_include_pad", &Windows::count_include_pad),
                                          field("adaptive", &Windows::adaptive),
                                          field("size", &Windows::size)};

Tensor empty_image(const Shape& shape, const Tensor& like) {
  return empty(shape, like.dtype(), like.device(), kImageFormat);
}

Shape with_size(const Shape& image, const Shape& size) {
  return {image[0], image[1], size[0], size[1]};
}

// g where the maxima were: max_pool2d itself, were its choices fixed.
struct MaxPool2dGather : Windows {
  static constexpr OpInfo info{.name = "max_pool2d_gather"};
  static constexpr auto fields = kWindowFields;

  Tensor forward(Saved& saved, const Tensor& g, const Tensor& taps) const;
  Gradients backward(const Saved& saved, const Tensor& dy) const;
};

struct MaxPool2dBackward : Windows {
  static constexpr OpInfo info{.name = "max_pool2d_backward"};
  static constexpr auto fields = kWindowFields;

  Tensor forward(Saved& saved, const Tensor& dy, const Tensor& taps) const {
    saved.save(taps);
    Tensor dx = empty_image(with_size(dy.shape(), size), dy);
    if (dx.numel() == 0) return dx;
    const Tensor kdy = dy.contiguous(kImageFormat);
    WICK_DISPATCH(dy.device(), max_pool2d_backward(kdy.view_for_kernel(), taps.view_for_kernel(),
                                                   dx.view_for_kernel(), params()));
    return dx;
  }
  Gradients backward(const Saved& saved, const Tensor& g) const {
    return {apply(MaxPool2dGather{*this}, g, saved[0]), {}};
  }
};

Tensor MaxPool2dGather::forward(Saved& saved, const Tensor& g, const Tensor& taps) const {
  saved.save(taps);
  Tensor y = empty_image(taps.shape(), g);
  if (y.numel() == 0) return y;
  const Tensor kg = g.contiguous(kImageFormat);
  WICK_DISPATCH(g.device(), max_pool2d_gather(kg.view_for_kernel(), taps.view_for_kernel(),
                                              y.view_for_kernel(), params()));
  return y;
}

Gradients MaxPool2dGather::backward(const Saved& saved, const Tensor& dy) const {
  return {apply(MaxPool2dBackward{*this}, dy, saved[0]), {}};
}

struct MaxPool2d : Windows {
  static constexpr OpInfo info{.name = "max_pool2d"};
  static constexpr auto fields = kWindowFields;

  Tensor forward(Saved& saved, const Tensor& x) const {
    Tensor y = empty_image(output_shape(x.shape()), x);
    const Dtype tap_type = kernel[0] * kernel[1] <= 256 ? kUint8 : kInt32;
    const Tensor taps = empty(y.shape(), tap_type, x.device(), kImageFormat);
    saved.save(taps);
    if (y.numel() == 0) return y;
    const Tensor kx = x.contiguous(kImageFormat);
    WICK_DISPATCH(x.device(), max_pool2d_forward(kx.view_for_kernel(), y.view_for_kernel(),
                                                 taps.view_for_kernel(), params()));
    return y;
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    return {apply(MaxPool2dBackward{*this}, dy, saved[0])};
  }
};

struct AvgPool2d : Windows {
  static constexpr OpInfo info{.name = "avg_pool2d"};
  static constexpr auto fields = kWindowFields;

  Tensor forward(Saved&, const Tensor& x) const;
  Gradients backward(const Saved& saved, const Tensor& dy) const;
};

struct AvgPool2dBackward : Windows {
  static constexpr OpInfo info{.name = "avg_pool2d_backward"};
  Shape image;  // height and width of the input
  static constexpr auto fields =
      std::tuple_cat(kWindowFields, std::tuple{field("image", &AvgPool2dBackward::image)});

  Tensor forward(Saved&, const Tensor& dy) const {
    Tensor dx = empty_image(with_size(dy.shape(), image), dy);
    if (dx.numel() == 0) return dx;
    const Tensor kdy = dy.contiguous(kImageFormat);
    WICK_DISPATCH(dy.device(),
                  avg_pool2d_backward(kdy.view_for_kernel(), dx.view_for_kernel(), params()));
    return dx;
  }
  Gradients backward(const Saved&, const Tensor& g) const { return {apply(AvgPool2d{*this}, g)}; }
};

Tensor AvgPool2d::forward(Saved&, const Tensor& x) const {
  Tensor y = empty_image(output_shape(x.shape()), x);
  if (y.numel() == 0) return y;
  const Tensor kx = x.contiguous(kImageFormat);
  WICK_DISPATCH(x.device(),
                avg_pool2d_forward(kx.view_for_kernel(), y.view_for_kernel(), params()));
  return y;
}

Gradients AvgPool2d::backward(const Saved& saved, const Tensor& dy) const {
  const Shape& x = saved.input(0).shape;
  return {apply(AvgPool2dBackward{*this, {x[2], x[3]}}, dy)};
}

void check_image(const char* op, const Tensor& x) {
  WICK_CHECK(x.rank(op) == 4, op, ": x needs 4 axes (N, C, H, W) or 3 (C, H, W): got shape ",
             x.shape());
  WICK_CHECK(is_floating(x.dtype()), op, ": needs a floating dtype: got ", to_string(x.dtype()));
  WICK_CHECK(x.size(2) > 0 && x.size(3) > 0, op, ": the image is empty: got shape ", x.shape());
}

Windows checked_windows(const char* op, const Tensor& x, const Shape& kernel_size,
                        const Shape& stride, const Shape& padding, const Shape& dilation,
                        bool ceil_mode) {
  check_image(op, x);
  Windows w;
  w.kernel = image_pair(op, "kernel_size", kernel_size, 1);
  w.stride = stride.empty() ? w.kernel : image_pair(op, "stride", stride, 1);
  w.padding = image_pair(op, "padding", padding, 0);
  w.dilation = image_pair(op, "dilation", dilation, 1);
  w.ceil_mode = ceil_mode;
  w.size = {x.size(2), x.size(3)};
  WICK_CHECK(w.kernel[0] * w.kernel[1] <= INT32_MAX, op, ": kernel_size is too large: got ",
             w.kernel, ", expected at most ", INT32_MAX, " elements");
  for (const int axis : {0, 1}) {
    WICK_CHECK(2 * w.padding[axis] <= w.kernel[axis], op,
               ": padding must be at most half of kernel_size: got ", w.padding, " and ", w.kernel);
    // Else a window could lie about the image and hold nothing of it.
    WICK_CHECK(w.kernel[axis] == 1 || w.dilation[axis] <= w.size[axis], op,
               ": dilation is larger than the image: got ", w.dilation, " for x ", x.shape());
    const int64_t beyond = ceil_mode ? w.stride[axis] - 1 : 0;
    WICK_CHECK(w.size[axis] + 2 * w.padding[axis] + beyond >= w.reach(axis), op,
               ": window is larger than the padded image: got x ", x.shape(), ", kernel_size ",
               w.kernel, ", padding ", w.padding, ", dilation ", w.dilation);
  }
  return w;
}

}  // namespace

Tensor max_pool2d(const Tensor& x, const Shape& kernel_size, const Shape& stride,
                  const Shape& padding, const Shape& dilation, bool ceil_mode) {
  if (x.rank() == 3) {
    return max_pool2d(x.unsqueeze(0), kernel_size, stride, padding, dilation, ceil_mode).squeeze(0);
  }
  const Windows windows =
      checked_windows("max_pool2d", x, kernel_size, stride, padding, dilation, ceil_mode);
  // On the CPU, positions in a window are kept in float32.
  WICK_CHECK(windows.kernel[0] * windows.kernel[1] <= int64_t{1} << 24,
             "max_pool2d: kernel_size is too large: got ", windows.kernel,
             ", expected at most 2^24 elements");
  return apply(MaxPool2d{windows}, x);
}

Tensor avg_pool2d(const Tensor& x, const Shape& kernel_size, const Shape& stride,
                  const Shape& padding, bool count_include_pad, bool ceil_mode) {
  if (x.rank() == 3) {
    return avg_pool2d(x.unsqueeze(0), kernel_size, stride, padding, count_include_pad, ceil_mode)
        .squeeze(0);
  }
  Windows windows =
      checked_windows("avg_pool2d", x, kernel_size, stride, padding, {1, 1}, ceil_mode);
  windows.count_include_pad = count_include_pad;
  return apply(AvgPool2d{windows}, x);
}

Tensor adaptive_avg_pool2d(const Tensor& x, const Shape& output_size) {
  if (x.rank() == 3) return adaptive_avg_pool2d(x.unsqueeze(0), output_size).squeeze(0);
  check_image("adaptive_avg_pool2d", x);
  Windows windows;
  windows.adaptive = true;
  windows.size = image_pair("adaptive_avg_pool2d", "output_size", output_size, 1);
  return apply(AvgPool2d{windows}, x);
}

}  // namespace wick
