#include <limits>

#include "wick/core/core.h"
#include "wick/onnx/detail/spatial.h"

namespace wick::onnx::detail {

namespace {

using Results = std::vector<Tensor>;

// A window and its steps.
struct Window {
  Shape kernel, stride, dilation;
  Margins margins;
  bool ceil_mode = false;

  explicit Window(Call& call) {
    const int count = spatial_axes(call[0]);
    kernel = per_axis("kernel_shape", call.integers("kernel_shape"), count, 0);
    stride = per_axis("strides", call.integers("strides"), count, 1);
    dilation = per_axis("dilations", call.integers("dilations"), count, 1);
    margins = margins_of(call, call[0], kernel, stride, dilation);
    ceil_mode = call.integer("ceil_mode", 0) != 0;
  }
  // Wick's poolings take margins of at most half a window.
  bool is_plain() const {
    for (int i = 0; i < kernel.rank(); ++i) {
      if (2 * margins.before[i] > kernel[i]) return false;
    }
    return margins.is_even();
  }
};

Results max_pool_op(Call& call) {
  Window window(call);
  call.expect("storage_order", 0);
  Tensor x = call[0];
  if (!window.is_plain()) {
    x = with_margins(x, window.margins, -std::numeric_limits<double>::infinity());
    window.margins.before = Shape::filled(window.kernel.rank(), 0);
  }
  constexpr auto kPools = std::array{max_pool1d, max_pool2d, max_pool3d};
  return one(kPools[static_cast<size_t>(window.kernel.rank() - 1)](
      x, window.kernel, window.stride, window.margins.before, window.dilation, window.ceil_mode));
}

Results average_pool_op(Call& call) {
  Window window(call);
  const bool counts_margin = call.integer("count_include_pad", 0) != 0;
  WICK_CHECK(window.dilation == Shape::filled(window.kernel.rank(), 1), "dilations: got ",
             window.dilation, ", expected 1");
  Tensor x = call[0];
  if (!window.is_plain()) {
    WICK_CHECK(counts_margin, "pads differ before and after, or exceed half a window: got ",
               window.margins.before, " and ", window.margins.after);
    x = with_margins(x, window.margins, 0);
    window.margins.before = Shape::filled(window.kernel.rank(), 0);
  }
  const auto& [kernel, stride, dilation, margins, ceil_mode] = window;
  switch (kernel.rank()) {
    case 1: return one(avg_pool1d(x, kernel, stride, margins.before, ceil_mode, counts_margin));
    case 2: return one(avg_pool2d(x, kernel, stride, margins.before, ceil_mode, counts_margin));
    default: return one(avg_pool3d(x, kernel, stride, margins.before, ceil_mode, counts_margin));
  }
}

Shape places(const Tensor& x) {
  Shape axes;
  for (int i = 2; i < spatial_axes(x) + 2; ++i) axes.push_back(i);
  return axes;
}

Results global_average_pool_op(Call& call) { return one(call[0].mean(places(call[0]), true)); }
Results global_max_pool_op(Call& call) { return one(call[0].amax(places(call[0]), true)); }

constexpr OpEntry kPoolOps[] = {
    {"MaxPool", 1, 1, max_pool_op},
    {"AveragePool", 1, 1, average_pool_op},
    {"GlobalAveragePool", 1, 1, global_average_pool_op},
    {"GlobalMaxPool", 1, 1, global_max_pool_op},
};

}  // namespace

std::span<const OpEntry> pool_ops() { return kPoolOps; }

}  // namespace wick::onnx::detail
