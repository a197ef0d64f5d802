#include "wick/core/ops/grid_sample.h"

#include "wick/core/ops/compare.h"
#include "wick/core/ops/detail/wide.h"
#include "wick/core/ops/divide.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/index.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/matmul.h"

namespace wick {

namespace {

// Mirrored into [low, high] as often as need be; ends count twice where a pixel's edge is the
// mirror.
Tensor reflected(const Tensor& place, double low, double high) {
  if (low == high) return place * 0;
  const double span = high - low;
  const Tensor away = abs(place - low);
  const Tensor rest = remainder(away, span);
  const Tensor turns = remainder(floor((away - rest) / span + 0.5).detach(), 2);
  return where(lt(turns, 0.5), rest + low, high - rest);
}

// Coordinates from -1 to 1 as pixels of an axis of n.
Tensor pixels_of(const Tensor& grid, int64_t n, GridPadding padding, bool align_corners) {
  const auto size = static_cast<double>(n);
  Tensor at = align_corners ? (grid + 1) * ((size - 1) / 2) : ((grid + 1) * size - 1) * 0.5;
  if (padding == GridPadding::kReflection) {
    at = align_corners ? reflected(at, 0, size - 1) : reflected(at, -0.5, size - 0.5);
  }
  return padding == GridPadding::kZeros ? at : clamp(at, 0, size - 1);
}

// Reads the pixels of images, each at the places (row, column) [N, h w] of its own; 0 outside.
class Pixels {
 public:
  explicit Pixels(const Tensor& x)
      : n_(x.size(0)),
        channels_(x.size(1)),
        height_(x.size(2)),
        width_(x.size(3)),
        flat_(x.contiguous().reshape({n_, channels_, height_ * width_})) {}

  Tensor at(const Tensor& row, const Tensor& column) const {
    const Tensor inside = ge(row, 0) & le(row, static_cast<double>(height_ - 1)) & ge(column, 0) &
                          le(column, static_cast<double>(width_ - 1));
    const Tensor place =
        masked_fill(row * static_cast<double>(width_) + column, logical_not(inside), 0).to(kInt64);
    const Shape shape{n_, channels_, place.size(1)};
    return masked_fill(gather(flat_, 2, place.unsqueeze(1).expand(shape)),
                       logical_not(inside).unsqueeze(1), 0);
  }

 private:
  int64_t n_, channels_, height_, width_;
  Tensor flat_;
};

// x and y: places [N, h w], in float64 where they count pixels.
Tensor sampled(const Tensor& image, const Tensor& x, const Tensor& y, GridMode mode) {
  const Pixels pixels(image);
  const Tensor px = x.detach(), py = y.detach();
  if (mode == GridMode::kNearest) {
    return pixels.at(round(py).to(kFloat64), round(px).to(kFloat64));
  }
  const Tensor left = floor(px), top = floor(py);
  const Tensor right = left + 1, bottom = top + 1;
  const auto corner = [&](const Tensor& row, const Tensor& column, const Tensor& weight) {
    return pixels.at(row.to(kFloat64), column.to(kFloat64)) * weight.unsqueeze(1);
  };
  return corner(top, left, (right - x) * (bottom - y)) +
         corner(top, right, (x - left) * (bottom - y)) +
         corner(bottom, left, (right - x) * (y - top)) +
         corner(bottom, right, (x - left) * (y - top));
}

}  // namespace

Tensor grid_sample(const Tensor& x, const Tensor& grid, GridMode mode, GridPadding padding,
                   bool align_corners) {
  const char* op = "grid_sample";
  WICK_CHECK(x.rank() == 4 && grid.rank() == 4 && grid.size(3) == 2 && grid.size(0) == x.size(0),
             op, ": shapes do not fit: got ", x.shape(), " and ", grid.shape(),
             ", expected [N, C, H, W] and [N, h, w, 2]");
  WICK_CHECK(is_floating(x.dtype()) && x.dtype() == grid.dtype(), op,
             ": needs one floating dtype: got ", x.dtype(), " and ", grid.dtype());
  WICK_CHECK(x.size(2) > 0 && x.size(3) > 0, op, ": images are empty: got shape ", x.shape());
  const int64_t n = x.size(0), h = grid.size(1), w = grid.size(2);
  return computed_wide({x, grid}, [&](const std::vector<Tensor>& in) {
    const auto places = [&](int64_t which, int64_t size) {
      return pixels_of(in[1].select(3, which), size, padding, align_corners).reshape({n, h * w});
    };
    const Tensor y = sampled(in[0], places(0, x.size(3)), places(1, x.size(2)), mode);
    return y.reshape({n, x.size(1), h, w});
  });
}

Tensor affine_grid(const Tensor& theta, const Shape& size, bool align_corners) {
  const char* op = "affine_grid";
  WICK_CHECK(size.rank() == 4 && theta.shape() == (Shape{size[0], 2, 3}), op,
             ": shapes do not fit: got theta ", theta.shape(), " and size ", size,
             ", expected [N, 2, 3] and [N, C, H, W]");
  WICK_CHECK(is_floating(theta.dtype()), op, ": needs a floating dtype: got ", theta.dtype());
  return computed_wide({theta}, [&](const std::vector<Tensor>& in) {
    const Tensor& matrix = in[0];
    const int64_t height = size[2], width = size[3];
    const auto centres = [&](int64_t n) {
      const double edge = align_corners ? 1 : 1 - 1.0 / static_cast<double>(n);
      if (n == 1) return zeros({1}, matrix.dtype(), matrix.device());
      return linspace(-edge, edge, n, matrix.dtype(), matrix.device());
    };
    const Tensor across = centres(width).unsqueeze(0).expand({height, width});
    const Tensor down = centres(height).unsqueeze(1).expand({height, width});
    const Tensor base = stack({across, down, ones_like(across)}, 2).reshape({height * width, 3});
    return matmul(base, matrix.transpose(1, 2)).reshape({size[0], height, width, 2});
  });
}

}  // namespace wick
