#include <array>

#include "wick/core/apply.h"
#include "wick/core/base/detail/checked.h"
#include "wick/core/ops/detail/image_format.h"
#include "wick/core/ops/detail/pool_images.h"

namespace wick {

namespace {

using Windows = PoolWindows;

constexpr auto kWindowFields = std::tuple{field("kernel_size", &Windows::kernel),
                                          field("stride", &Windows::stride),
                                          field("padding", &Windows::padding),
                                          field("dilation", &Windows::dilation),
                                          field("ceil_mode", &Windows::ceil_mode),
                                          field("count_include_pad", &Windows::count_include_pad),
                                          field("adaptive", &Windows::adaptive),
                                          field("divisor", &Windows::divisor),
                                          field("size", &Windows::size)};

Shape with_size(const Shape& image, const Shape& size) {
  return {image[0], image[1], size[0], size[1]};
}

// The shape of the pooled images. Error for windows that only a graph's attributes can have.
Shape pooled_shape(const char* op, const Shape& x, const Windows& w) {
  bool fits = x.rank() == 4 && w.kernel.rank() == 2 && w.stride.rank() == 2 &&
              w.padding.rank() == 2 && w.dilation.rank() == 2 &&
              (!w.adaptive || w.size.rank() == 2);
  for (int axis = 0; fits && axis < 2; ++axis) {
    const auto within = [](int64_t value, int64_t least) {
      return value >= least && value <= INT32_MAX;
    };
    const int64_t kernel = w.kernel[axis], padding = w.padding[axis], in = x[axis + 2];
    fits =
        within(kernel, 1) && within(w.stride[axis], 1) && within(padding, 0) &&
        within(w.dilation[axis], 1) && in > 0 && in <= kMaxNumel && 2 * padding <= kernel &&
        (kernel == 1 || w.dilation[axis] <= in) &&
        (w.adaptive ? within(w.size[axis], 0)
                    : in + 2 * padding + (w.ceil_mode ? w.stride[axis] - 1 : 0) >= w.reach(axis));
  }
  WICK_CHECK(fits && w.kernel.numel() <= INT32_MAX, op, ": windows do not fit: got kernel_size ",
             w.kernel, ", stride ", w.stride, ", padding ", w.padding, ", dilation ", w.dilation,
             ", size ", w.size, " for images of shape ", x);
  return w.output_shape(x);
}

// The shape of the images that `dy` pools. Error unless their windows give the shape of dy.
Shape unpooled_shape(const char* op, const Tensor& dy, const Shape& image, const Windows& w) {
  WICK_CHECK(dy.rank() == 4 && image.rank() == 2, op, ": wrong number of axes: got ", dy.shape(),
             " and ", image, ", expected 4 and 2");
  const Shape x = with_size(dy.shape(), image);
  const Shape shape = pooled_shape(op, x, w);
  WICK_CHECK(dy.shape() == shape, op, ": the gradient has the wrong shape: got ", dy.shape(),
             ", expected ", shape);
  return x;
}

// Error unless `taps` are of `shape`, and of the dtype of such windows.
void check_taps(const char* op, const Tensor& taps, const Shape& shape, const Windows& w) {
  const Dtype dtype = w.kernel.numel() <= 256 ? kUint8 : kInt32;
  WICK_CHECK(taps.shape() == shape && taps.dtype() == dtype && taps.is_contiguous(kImageFormat), op,
             ": taps do not fit: got ", taps.dtype(), taps.shape(), ", expected ", dtype, shape);
}

Tensor empty_image(const Shape& shape, const Tensor& like) {
  return empty(shape, like.dtype(), like.device(), kImageFormat);
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
  Shape image;  // height and width of the input
  static constexpr auto fields =
      std::tuple_cat(kWindowFields, std::tuple{field("image", &MaxPool2dBackward::image)});

  Tensor forward(Saved& saved, const Tensor& dy, const Tensor& taps) const {
    saved.save(taps);
    const Shape x = unpooled_shape(info.name, dy, image, *this);
    check_taps(info.name, taps, dy.shape(), *this);
    Tensor dx = empty_image(x, dy);
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
  check_taps(info.name, taps, pooled_shape(info.name, g.shape(), *this), *this);
  Tensor y = empty_image(taps.shape(), g);
  if (y.numel() == 0) return y;
  const Tensor kg = g.contiguous(kImageFormat);
  WICK_DISPATCH(g.device(), max_pool2d_gather(kg.view_for_kernel(), taps.view_for_kernel(),
                                              y.view_for_kernel(), params()));
  return y;
}

// Height and width of the image that was pooled.
Shape image_size(const Saved& saved) {
  const Shape& x = saved.input(0).shape;
  return {x[2], x[3]};
}

Gradients MaxPool2dGather::backward(const Saved& saved, const Tensor& dy) const {
  return {apply(MaxPool2dBackward{*this, image_size(saved)}, dy, saved[0]), {}};
}

// The maxima, and as `taps`, which are kept, where in their windows they are.
struct Maxima {
  Tensor x, y, taps;

  Maxima(Saved& saved, const Tensor& given, const Windows& windows)
      : x(given.contiguous(kImageFormat)),
        y(empty_image(pooled_shape("max_pool2d", given.shape(), windows), given)),
        taps(empty(y.shape(), windows.kernel[0] * windows.kernel[1] <= 256 ? kUint8 : kInt32,
                   given.device(), kImageFormat)) {
    // On the CPU, positions in a window are kept in float32.
    WICK_CHECK(windows.kernel.numel() <= int64_t{1} << 24,
               "max_pool2d: windows are too large: got ", windows.kernel,
               ", expected at most 2^24 elements");
    saved.save(taps);
    if (y.numel() == 0) return;
    WICK_DISPATCH(x.device(), max_pool2d_forward(x.view_for_kernel(), y.view_for_kernel(),
                                                 taps.view_for_kernel(), windows.params()));
  }
};

struct MaxPool2d : Windows {
  static constexpr OpInfo info{.name = "max_pool2d"};
  static constexpr auto fields = kWindowFields;

  Tensor forward(Saved& saved, const Tensor& x) const { return Maxima(saved, x, *this).y; }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    return {apply(MaxPool2dBackward{*this, image_size(saved)}, dy, saved[0])};
  }
};

struct MaxPool2dWithIndices : Windows {
  static constexpr OpInfo info{.name = "max_pool2d_with_indices"};
  static constexpr auto fields = kWindowFields;

  std::array<Tensor, 2> forward(Saved& saved, const Tensor& x) const {
    const Maxima maxima(saved, x, *this);
    const Tensor indices = empty(maxima.y.shape(), kInt64, x.device(), kImageFormat);
    if (indices.numel() > 0) {
      WICK_DISPATCH(x.device(),
                    max_pool2d_indices(maxima.x.view_for_kernel(), maxima.taps.view_for_kernel(),
                                       indices.view_for_kernel(), params()));
    }
    return {maxima.y, indices};
  }
  Gradients backward(const Saved& saved, const Tensor& dy, const Tensor&) const {
    return {apply(MaxPool2dBackward{*this, image_size(saved)}, dy, saved[0])};
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
    Tensor dx = empty_image(unpooled_shape(info.name, dy, image, *this), dy);
    if (dx.numel() == 0) return dx;
    const Tensor kdy = dy.contiguous(kImageFormat);
    WICK_DISPATCH(dy.device(),
                  avg_pool2d_backward(kdy.view_for_kernel(), dx.view_for_kernel(), params()));
    return dx;
  }
  Gradients backward(const Saved&, const Tensor& g) const { return {apply(AvgPool2d{*this}, g)}; }
};

Tensor AvgPool2d::forward(Saved&, const Tensor& x) const {
  Tensor y = empty_image(pooled_shape(info.name, x.shape(), *this), x);
  if (y.numel() == 0) return y;
  const Tensor kx = x.contiguous(kImageFormat);
  WICK_DISPATCH(x.device(),
                avg_pool2d_forward(kx.view_for_kernel(), y.view_for_kernel(), params()));
  return y;
}

Gradients AvgPool2d::backward(const Saved& saved, const Tensor& dy) const {
  return {apply(AvgPool2dBackward{*this, image_size(saved)}, dy)};
}

}  // namespace

Tensor max_pool_images(const Tensor& x, const PoolWindows& windows) {
  return apply(MaxPool2d{windows}, x);
}
Sorted max_pool_images_with_indices(const Tensor& x, const PoolWindows& windows) {
  const auto [values, indices] = apply(MaxPool2dWithIndices{windows}, x);
  return {values, indices};
}
Tensor avg_pool_images(const Tensor& x, const PoolWindows& windows) {
  return apply(AvgPool2d{windows}, x);
}

}  // namespace wick
