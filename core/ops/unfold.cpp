#include "wick/core/ops/unfold.h"

#include "wick/core/apply.h"
#include "wick/core/ops/detail/image_format.h"
#include "wick/core/ops/detail/wide.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/index.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/view.h"

namespace wick {

namespace {

struct UnfoldAxis {
  static constexpr OpInfo info{.name = "unfold_axis", .view = true};
  int64_t axis, size, step;
  static constexpr auto fields =
      std::tuple{field("axis", &UnfoldAxis::axis), field("size", &UnfoldAxis::size),
                 field("step", &UnfoldAxis::step)};

  Tensor forward(Saved&, const Tensor& x) const {
    const int a = wrap_axis("unfold", axis, x.rank());
    Shape shape = x.shape();
    Strides strides = x.strides();
    WICK_CHECK(size >= 0 && size <= shape[a], "unfold: size out of range: got ", size,
               ", expected 0 to ", shape[a]);
    WICK_CHECK(step > 0, "unfold: step: got ", step, ", expected 1 or more");
    shape[a] = (shape[a] - size) / step + 1;
    shape.push_back(size);
    strides.push_back(strides[a]);
    if (shape[a] > 1) strides[a] *= step;  // else the step may be of any size
    return detail::make_view(x, 0, shape, strides);
  }
  // Each window's gradients are added where its elements came from.
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    const Shape& shape = saved.input(0).shape;
    const int a = static_cast<int>(axis);
    const int64_t windows = dy.size(axis);
    const Tensor starts = arange(0, windows, 1, kInt64, dy.device()) * step;
    const Tensor places = starts.unsqueeze(1) + arange(0, size, 1, kInt64, dy.device());
    Shape lines = shape;
    lines[a] = windows * size;
    return {index_add(zeros(shape, dy.dtype(), dy.device()), axis, places.reshape({-1}),
                      dy.movedim(-1, a + 1).reshape(lines))};
  }
};

// One axis of an image's windows.
struct AxisWindows {
  int64_t kernel, dilation, padding, stride;
  // Where window w's element k stands in the padded image, as [kernel, windows] in a row.
  Tensor places(int64_t windows, Device device) const {
    const Tensor elements = arange(0, kernel, 1, kInt64, device) * dilation;
    const Tensor starts = arange(0, windows, 1, kInt64, device) * stride;
    return (elements.unsqueeze(1) + starts).reshape({-1});
  }
  int64_t count(const char* op, int64_t size) const {
    const int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1;
    WICK_CHECK(room >= 0, op, ": no window fits: got ", kernel, " elements, ", dilation,
               " apart, expected at most ", size + 2 * padding, " in all");
    return room / stride + 1;
  }
};

std::pair<AxisWindows, AxisWindows> windows_of(const char* op, const Shape& kernel,
                                               const UnfoldOptions& options) {
  const Shape k = image_pair(op, "kernel", kernel, 1);
  const Shape d = image_pair(op, "dilation", options.dilation, 1);
  const Shape p = image_pair(op, "padding", options.padding, 0);
  const Shape s = image_pair(op, "stride", options.stride, 1);
  return {{k[0], d[0], p[0], s[0]}, {k[1], d[1], p[1], s[1]}};
}

}  // namespace

Tensor unfold(const Tensor& x, int64_t axis, int64_t size, int64_t step) {
  const int a = wrap_axis("unfold", axis, x.rank());
  if (x.rank() == 0) return unfold(x.reshape({1}), 0, size, step).select(0, 0);
  return apply(UnfoldAxis{a, size, step}, x);
}

Tensor unfold(const Tensor& x, const Shape& kernel, const UnfoldOptions& options) {
  WICK_CHECK(x.rank() == 3 || x.rank() == 4, "unfold: wrong number of axes: got shape ", x.shape(),
             ", expected [N, C, H, W] or [C, H, W]");
  if (x.rank() == 3) return unfold(x.unsqueeze(0), kernel, options).squeeze(0);
  const auto pair = windows_of("unfold", kernel, options);
  const AxisWindows &down = pair.first, &across = pair.second;
  const int64_t rows = down.count("unfold", x.size(2)), columns = across.count("unfold", x.size(3));
  // Wide for the gradients, which are summed along both axes.
  Tensor y = computed_wide({x}, [&](const std::vector<Tensor>& in) {
    const bool pads = down.padding + across.padding > 0;
    const Tensor padded =
        pads ? pad(in[0], {across.padding, across.padding, down.padding, down.padding}) : in[0];
    const Tensor lines = index_select(padded, 2, down.places(rows, x.device()));
    return index_select(lines, 3, across.places(columns, x.device()));
  });
  const int64_t n = x.size(0), channels = x.size(1);
  y = y.reshape({n, channels, down.kernel, rows, across.kernel, columns});
  return y.permute({0, 1, 2, 4, 3, 5})
      .reshape({n, channels * down.kernel * across.kernel, rows * columns});
}

Tensor fold(const Tensor& x, const Shape& size, const Shape& kernel, const UnfoldOptions& options) {
  WICK_CHECK(x.rank() == 2 || x.rank() == 3, "fold: wrong number of axes: got shape ", x.shape(),
             ", expected [N, C kh kw, L] or [C kh kw, L]");
  if (x.rank() == 2) return fold(x.unsqueeze(0), size, kernel, options).squeeze(0);
  const auto pair = windows_of("fold", kernel, options);
  const AxisWindows &down = pair.first, &across = pair.second;
  const Shape image = image_pair("fold", "size", size, 1);
  const int64_t rows = down.count("fold", image[0]), columns = across.count("fold", image[1]);
  const int64_t n = x.size(0), window = down.kernel * across.kernel, channels = x.size(1) / window;
  WICK_CHECK(x.size(1) % window == 0 && x.size(2) == rows * columns,
             "fold: windows do not fit: got shape ", x.shape(), ", expected [N, C ", window, ", ",
             rows * columns, "]");
  const int64_t height = image[0] + 2 * down.padding, width = image[1] + 2 * across.padding;
  Tensor y = x.reshape({n, channels, down.kernel, across.kernel, rows, columns})
                 .permute({0, 1, 2, 4, 3, 5})
                 .reshape({n, channels, down.kernel * rows, across.kernel * columns});
  const Dtype dtype = x.dtype();
  y = wide(y);  // sums are rounded once
  y = index_add(zeros({n, channels, down.kernel * rows, width}, y.dtype(), x.device()), 3,
                across.places(columns, x.device()), y);
  y = index_add(zeros({n, channels, height, width}, y.dtype(), x.device()), 2,
                down.places(rows, x.device()), y);
  return y.narrow(2, down.padding, image[0])
      .narrow(3, across.padding, image[1])
      .to(dtype)
      .contiguous();
}

}  // namespace wick
