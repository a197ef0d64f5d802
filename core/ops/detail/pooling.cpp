#include "wick/core/ops/detail/pooling.h"

#include <array>

namespace wick {

static const char* layout_of(int axes) {
  return axes == 1   ? "(N, C, L) or 2 (C, L)"
         : axes == 2 ? "(N, C, H, W) or 3 (C, H, W)"
                     : "(N, C, D, H, W) or 4 (C, D, H, W)";
}

void check_pool_input(const char* op, const Tensor& x, int axes) {
  WICK_CHECK(x.rank(op) == axes + 2, op, ": x needs ", axes + 2, " axes ", layout_of(axes),
             ": got shape ", x.shape());
  for (int axis = 2; axis < x.rank(); ++axis) {
    WICK_CHECK(x.size(axis) > 0, op, ": the image is empty: got shape ", x.shape());
  }
}

Pooling checked_pooling(const char* op, int axes, const Tensor& x, const Shape& kernel_size,
                        const Shape& stride, const Shape& padding, const Shape& dilation,
                        bool ceil_mode) {
  check_pool_input(op, x, axes);
  Pooling pool{op, axes, image_sizes(op, "kernel_size", kernel_size, 1, axes), {}, {}, {}, {}};
  pool.stride = stride.empty() ? pool.kernel : image_sizes(op, "stride", stride, 1, axes);
  pool.padding = image_sizes(op, "padding", padding, 0, axes);
  pool.dilation = image_sizes(op, "dilation", dilation, 1, axes);
  pool.common.ceil_mode = ceil_mode;
  int64_t elements = 1;
  for (const int64_t size : pool.kernel) {
    WICK_CHECK(size <= INT32_MAX / elements, op, ": kernel_size is too large: got ", pool.kernel,
               ", expected at most ", INT32_MAX, " elements");
    elements *= size;
  }
  for (int axis = 0; axis < axes; ++axis) {
    const int64_t size = x.size(axis + 2),
                  reach = pool.dilation[axis] * (pool.kernel[axis] - 1) + 1;
    WICK_CHECK(2 * pool.padding[axis] <= pool.kernel[axis], op,
               ": padding must be at most half of kernel_size: got ", pool.padding, " and ",
               pool.kernel);
    // Else a window could lie about the image and hold nothing of it.
    WICK_CHECK(pool.kernel[axis] == 1 || pool.dilation[axis] <= size, op,
               ": dilation is larger than the image: got ", pool.dilation, " for x ", x.shape());
    const int64_t beyond = ceil_mode ? pool.stride[axis] - 1 : 0;
    WICK_CHECK(size + 2 * pool.padding[axis] + beyond >= reach, op,
               ": window is larger than the padded image: got x ", x.shape(), ", kernel_size ",
               pool.kernel, ", padding ", pool.padding, ", dilation ", pool.dilation);
  }
  return pool;
}

Tensor cast_to_pool(const char* op, const Tensor& x, int axes) {
  if (axes < 3) return x;
  const OpInfo info{.name = op, .autocast = {.cpu = Autocast::kToFloat32}};
  const std::array<Tensor, 1> given{x};
  std::vector<Tensor> cast;
  return amp::cast_inputs(info, given, cast)[0];
}

}  // namespace wick
