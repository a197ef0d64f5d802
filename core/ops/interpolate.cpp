#include "wick/core/ops/interpolate.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/detail/volume.h"
#include "wick/core/ops/detail/wide.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/ops/pool.h"
#include "wick/kernels/interpolate.h"

namespace wick {

namespace {

struct Resize {
  double scale_h = 1, scale_w = 1;  // elements of the image per element of the result
  int64_t rule = 0;                 // of ResizeRule
  bool align_corners = false;
  Shape size;  // height and width of the result; of the gradient: of the image

  Interpolate2dParams params() const {
    return {{scale_h, scale_w}, static_cast<ResizeRule>(rule), align_corners};
  }
};

constexpr auto kResizeFields =
    std::tuple{field("scale_h", &Resize::scale_h), field("scale_w", &Resize::scale_w),
               field("rule", &Resize::rule), field("align_corners", &Resize::align_corners),
               field("size", &Resize::size)};

Resize to_size(const Resize& resize, const Shape& image) {
  Resize other = resize;
  other.size = {image[2], image[3]};
  return other;
}

// Error unless images of `from` can be resized to `to`, as attributes of a graph may say.
void check_resize(const char* op, const Resize& resize, const Shape& from, const Shape& to) {
  bool fits = resize.rule >= 0 && resize.rule <= static_cast<int64_t>(ResizeRule::kCubic);
  for (const auto& [scale, size] :
       {std::pair(resize.scale_h, from[0]), std::pair(resize.scale_w, from[1])}) {
    fits &= size > 0 && scale >= 0 && scale <= static_cast<double>(size);
  }
  WICK_CHECK(fits, op, ": a rule or scale does not fit: got rule ", resize.rule, " and scales ",
             resize.scale_h, " and ", resize.scale_w, " for images of ", from, " and ", to);
}

Tensor empty_resized(const Tensor& x, const Shape& size) {
  WICK_CHECK(x.rank() == 4 && size.rank() == 2, "interpolate: wrong number of axes: got shape ",
             x.shape(), " and size ", size, ", expected 4 and 2");
  return empty({x.size(0), x.size(1), size[0], size[1]}, x.dtype(), x.device(), kImageFormat);
}

// Both are linear, and each is the other's gradient.
struct Interpolate2d : Resize {
  static constexpr OpInfo info{.name = "interpolate", .autocast = kFloat32OnGpus};
  static constexpr auto fields = kResizeFields;

  Tensor forward(Saved&, const Tensor& x) const {
    Tensor y = empty_resized(x, size);
    if (y.numel() == 0) return y;
    check_resize(info.name, *this, {x.size(2), x.size(3)}, size);
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
    check_resize(info.name, *this, size, {dy.size(2), dy.size(3)});
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

// One axis, and how it is resized.
struct Axis {
  int64_t in, out;
  double scale;
};

// The scale of an axis of which the result was asked to be `factor` times as large, or by size (0).
Axis axis_to_resize(int64_t in, int64_t out, double factor, ResizeRule rule, bool align_corners) {
  const auto from = static_cast<double>(in), to = static_cast<double>(out);
  if (align_corners) return {in, out, out > 1 ? (from - 1) / (to - 1) : 0};
  if (rule == ResizeRule::kLinear && in == out) return {in, out, 1};  // whatever the factor was
  return {in, out, factor > 0 ? 1 / factor : from / to};
}

Tensor resized(const Tensor& images, const Axis& rows, const Axis& columns, ResizeRule rule,
               bool align_corners) {
  return apply(Interpolate2d{{rows.scale,
                              columns.scale,
                              static_cast<int64_t>(rule),
                              align_corners,
                              {rows.out, columns.out}}},
               images);
}

// An axis of `size` that stays as it is.
Axis kept(int64_t size) { return {size, size, 1}; }

// Signals are images of one row. Volumes are resized as images, and then along their depth, as
// images whose rows are these.
Tensor resized(const Tensor& x, const std::vector<Axis>& axes, ResizeRule rule, bool align) {
  if (axes.size() == 1) return resized(x.unsqueeze(2), kept(1), axes[0], rule, align).squeeze(2);
  if (axes.size() == 2) return resized(x, axes[0], axes[1], rule, align);
  const int64_t rows = axes[1].out, columns = axes[2].out;
  const std::array<Tensor, 1> given{x};
  std::vector<Tensor> cast;
  return computed_wide(
      {amp::cast_inputs(Interpolate2d::info, given, cast)[0]}, [&](const std::vector<Tensor>& in) {
        const Tensor planes = resized(planes_of(in[0]), axes[1], axes[2], rule, align);
        const Tensor slabs = planes_as_rows(planes, x.size(0), axes[0].in);
        return rows_as_planes(resized(slabs, axes[0], kept(rows * columns), rule, align), rows,
                              columns);
      });
}

// The weights of one axis: [out, in]. Each element of the result is a mean over as many elements as
// it stands for, weighted by a triangle, or by Keys' cubic with a = -1/2.
Tensor averaging_weights(const Axis& axis, bool cubic, const Tensor& like) {
  const auto weight_at = [&](double d) {
    d = std::abs(d);
    if (!cubic) return d < 1 ? 1 - d : 0.0;
    if (d < 1) return (1.5 * d - 2.5) * d * d + 1;
    return d < 2 ? ((-0.5 * d + 2.5) * d - 4) * d + 2 : 0.0;
  };
  const double stretch = std::max(axis.scale, 1.0), support = (cubic ? 2 : 1) * stretch;
  const Tensor weights = zeros({axis.out, axis.in}, kFloat64);
  for (int64_t o = 0; o < axis.out; ++o) {
    const double centre = axis.scale * (static_cast<double>(o) + 0.5);
    const auto begin = std::max(static_cast<int64_t>(centre - support + 0.5), int64_t{0});
    const auto end = std::min(static_cast<int64_t>(centre + support + 0.5), axis.in);
    double* const row = weights.data<double>() + o * axis.in;
    double sum = 0;
    for (int64_t i = begin; i < end; ++i) {
      row[i] = weight_at((static_cast<double>(i) - centre + 0.5) / stretch);
      sum += row[i];
    }
    for (int64_t i = begin; i < end && sum != 0; ++i) row[i] /= sum;
  }
  return weights.to(like.dtype()).to(like.device());
}

Tensor averaged(const Tensor& x, const std::vector<Axis>& axes, bool cubic) {
  const std::array<Tensor, 1> given{x};
  std::vector<Tensor> cast;
  return computed_wide(
      {amp::cast_inputs(Interpolate2d::info, given, cast)[0]}, [&](const std::vector<Tensor>& in) {
        const amp::Pause pause;  // these products are no layers
        const Tensor across = averaging_weights(axes[1], cubic, in[0]).t();
        return matmul(averaging_weights(axes[0], cubic, in[0]), matmul(in[0], across))
            .contiguous(kImageFormat);
      });
}

// `factors`: of each axis how much larger the result was asked to be, or none.
Tensor interpolated(const Tensor& x, const Shape& size, const std::vector<double>& factors,
                    Interpolation mode, bool align_corners, bool antialias) {
  if (mode == Interpolation::kArea) {
    if (x.rank() == 3) return adaptive_avg_pool1d(x, size);
    return x.rank() == 4 ? adaptive_avg_pool2d(x, size) : adaptive_avg_pool3d(x, size);
  }
  const ResizeRule rule = mode == Interpolation::kNearest        ? ResizeRule::kNearest
                          : mode == Interpolation::kNearestExact ? ResizeRule::kNearestExact
                          : mode == Interpolation::kBicubic      ? ResizeRule::kCubic
                                                                 : ResizeRule::kLinear;
  const ResizeRule copies = antialias ? ResizeRule::kCubic : rule;  // none but the linear does
  std::vector<Axis> axes;
  for (int axis = 0; axis < size.rank(); ++axis) {
    const double factor = factors.empty() ? 0 : factors[static_cast<size_t>(axis)];
    axes.push_back(axis_to_resize(x.size(axis + 2), size[axis], factor, copies, align_corners));
  }
  if (antialias) return averaged(x, axes, mode == Interpolation::kBicubic);
  return resized(x, axes, rule, align_corners);
}

void check_arguments(const Tensor& x, Interpolation mode, bool align_corners, bool antialias) {
  const int axes = x.rank("interpolate") - 2;
  WICK_CHECK(axes >= 1 && axes <= 3,
             "interpolate: x needs 3 to 5 axes (N, C and those to resize): got shape ", x.shape());
  WICK_CHECK(is_floating(x.dtype()), "interpolate: needs a floating dtype: got ",
             to_string(x.dtype()));
  for (int axis = 2; axis < x.rank(); ++axis) {
    WICK_CHECK(x.size(axis) > 0, "interpolate: an axis is empty: got shape ", x.shape());
  }
  const bool area = mode == Interpolation::kArea;
  const bool nearest = mode == Interpolation::kNearest || mode == Interpolation::kNearestExact;
  const int wanted = mode == Interpolation::kLinear ? 1 : mode == Interpolation::kTrilinear ? 3 : 2;
  WICK_CHECK(area || nearest || axes == wanted, "interpolate: the mode is for ", wanted + 2,
             " axes: got shape ", x.shape());
  WICK_CHECK(!align_corners || !(area || nearest),
             "interpolate: align_corners is for linear and cubic modes only");
  WICK_CHECK(!antialias || (!(area || nearest) && axes == 2),
             "interpolate: antialias is for bilinear and bicubic only");
}

}  // namespace

Tensor interpolate(const Tensor& x, const Shape& size, Interpolation mode, bool align_corners,
                   bool antialias) {
  check_arguments(x, mode, align_corners, antialias);
  return interpolated(x, image_sizes("interpolate", "size", size, 1, x.rank() - 2), {}, mode,
                      align_corners, antialias);
}

Tensor interpolate_by(const Tensor& x, const std::vector<double>& scale_factors, Interpolation mode,
                      bool align_corners, bool recompute_scale_factor, bool antialias) {
  check_defined("interpolate_by", x);
  check_arguments(x, mode, align_corners, antialias);
  const auto axes = static_cast<size_t>(x.rank() - 2);
  WICK_CHECK(scale_factors.size() == 1 || scale_factors.size() == axes,
             "interpolate: scale_factor needs 1 or ", axes, " entries: got ", scale_factors.size());
  std::vector<double> factors;
  Shape size;
  for (size_t axis = 0; axis < axes; ++axis) {
    const double factor = scale_factors[scale_factors.size() == 1 ? 0 : axis];
    WICK_CHECK(std::isfinite(factor) && factor > 0,
               "interpolate: scale_factor must be positive: got ", factor);
    const double wanted = static_cast<double>(x.size(static_cast<int>(axis) + 2)) * factor;
    WICK_CHECK(wanted >= 1 && wanted < 0x1p31, "interpolate: size out of range: got x ", x.shape(),
               ", scale_factor ", factor);
    size.push_back(static_cast<int64_t>(wanted));
    factors.push_back(factor);
  }
  if (recompute_scale_factor) factors.clear();
  return interpolated(x, size, factors, mode, align_corners, antialias);
}

}  // namespace wick
