#include "wick/core/ops/interpolate.h"

#include <cmath>

#include "wick/core/apply.h"
#include "wick/core/ops/detail/image_format.h"
#include "wick/kernels/interpolate.h"

namespace wick {

namespace {

struct Resize {
  double scale_h = 1, scale_w = 1;  // elements of the image per element of the result
  bool linear = false;
  bool align_corners = false;
  Shape size;  // height and width of the result; of the gradient: of the image

  Interpolate2dParams params() const { return {{scale_h, scale_w}, linear, align_corners}; }
};

constexpr auto kResizeFields =
    std::tuple{field("scale_h", &Resize::scale_h), field("scale_w", &Resize::scale_w),
               field("linear", &Resize::linear), field("align_corners", &Resize::align_corners),
               field("size", &Resize::size)};

Resize to_size(const Resize& resize, const Shape& image) {
  Resize other = resize;
  other.size = {image[2], image[3]};
  return other;
}

Tensor empty_resized(const Tensor& x, const Shape& size) {
  return empty({x.size(0), x.size(1), size[0], size[1]}, x.dtype(), x.device(), kImageFormat);
}

// Both are linear, and each is the other's gradient.
struct Interpolate2d : Resize {
  static constexpr OpInfo info{.name = "interpolate", .autocast = {.cuda = Autocast::kToFloat32}};
  static constexpr auto fields = kResizeFields;

  Tensor forward(Saved&, const Tensor& x) const {
    Tensor y = empty_resized(x, size);
    if (y.numel() == 0) return y;
    const Tensor kx = x.contiguous(kImageFormat);
    WICK_DISPATCH(x.device(),
                  interpolate2d_forward(kx.view_for_kernel(), y.view_for_kernel(), params()));
    return y;
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const;
};

struct Interpolate2dBackward : Resize {
  static constexpr OpInfo info{.name = "interpolate_backward"};
  static constexpr auto fields = kResizeFields;

  Tensor forward(Saved&, const Tensor& dy) const {
    Tensor dx = empty_resized(dy, size);
    if (dx.numel() == 0) return dx;
    const Tensor kdy = dy.contiguous(kImageFormat);
    WICK_DISPATCH(dy.device(),
                  interpolate2d_backward(kdy.view_for_kernel(), dx.view_for_kernel(), params()));
    return dx;
  }
  Gradients backward(const Saved& saved, const Tensor& g) const {
    return {apply(Interpolate2d{to_size(*this, saved.input(0).shape)}, g)};
  }
};

Gradients Interpolate2d::backward(const Saved& saved, const Tensor& dy) const {
  return {apply(Interpolate2dBackward{to_size(*this, saved.input(0).shape)}, dy)};
}

void check_arguments(const Tensor& x, Interpolation mode, bool align_corners) {
  WICK_CHECK(x.rank() == 4, "interpolate: x needs 4 axes (N, C, H, W): got shape ", x.shape());
  WICK_CHECK(is_floating(x.dtype()), "interpolate: needs a floating dtype: got ",
             to_string(x.dtype()));
  WICK_CHECK(x.size(2) > 0 && x.size(3) > 0, "interpolate: the image is empty: got shape ",
             x.shape());
  WICK_CHECK(!align_corners || mode == Interpolation::kBilinear,
             "interpolate: align_corners is for bilinear only");
}

// `factors`: 0, or how much larger the result was asked to be.
Tensor resized(const Tensor& x, const Shape& size, const std::array<double, 2>& factors,
               Interpolation mode, bool align_corners) {
  Resize resize{1, 1, mode == Interpolation::kBilinear, align_corners, size};
  double* const scales[] = {&resize.scale_h, &resize.scale_w};
  for (const int axis : {0, 1}) {
    const auto in = static_cast<double>(x.size(axis + 2));
    const auto out = static_cast<double>(size[axis]);
    if (align_corners) {
      *scales[axis] = size[axis] > 1 ? (in - 1) / (out - 1) : 0;
    } else if (resize.linear && size[axis] == x.size(axis + 2)) {
      *scales[axis] = 1;  // copied, whatever the factor was
    } else {
      *scales[axis] = factors[axis] > 0 ? 1 / factors[axis] : in / out;
    }
  }
  return apply(Interpolate2d{resize}, x);
}

}  // namespace

Tensor interpolate(const Tensor& x, const Shape& size, Interpolation mode, bool align_corners) {
  check_arguments(x, mode, align_corners);
  return resized(x, image_pair("interpolate", "size", size, 1), {}, mode, align_corners);
}

Tensor interpolate_by(const Tensor& x, const std::array<double, 2>& scale_factors,
                      Interpolation mode, bool align_corners) {
  check_arguments(x, mode, align_corners);
  Shape size;
  for (const int axis : {0, 1}) {
    const double factor = scale_factors[axis];
    WICK_CHECK(std::isfinite(factor) && factor > 0,
               "interpolate: scale_factor must be positive: got ", factor);
    const double wanted = static_cast<double>(x.size(axis + 2)) * factor;
    WICK_CHECK(wanted >= 1 && wanted < 0x1p31, "interpolate: size out of range: got x ", x.shape(),
               ", scale_factor ", factor);
    size.push_back(static_cast<int64_t>(wanted));
  }
  return resized(x, size, scale_factors, mode, align_corners);
}

}  // namespace wick
