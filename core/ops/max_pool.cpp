#include <cstdlib>
#include <limits>

#include "wick/core/ops/compare.h"
#include "wick/core/ops/detail/checked_index.h"
#include "wick/core/ops/detail/pooling.h"
#include "wick/core/ops/divide.h"
#include "wick/core/ops/index.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/pool.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/unfold.h"

namespace wick {

namespace {

template <class Find>
Sorted pool_with_indices(const Tensor& x, int axes, const Find& windows_of) {
  if (axes == 1) {
    const Sorted all = max_pool_images_with_indices(x.unsqueeze(2), windows_of(-1, 0));
    return {all.values.squeeze(2), all.indices.squeeze(2)};
  }
  if (axes == 2) return max_pool_images_with_indices(x, windows_of(0, 1));
  const int64_t n = x.size(0), depth = x.size(2), channels = x.size(1);
  const Sorted planes = max_pool_images_with_indices(planes_of(x), windows_of(1, 2));
  const int64_t height = planes.values.size(2), width = planes.values.size(3);
  const Sorted rows =
      max_pool_images_with_indices(planes_as_rows(planes.values, n, depth), windows_of(0, -1));
  const Tensor in_planes = planes_as_rows(planes.indices, n, depth);
  const Tensor chosen = gather(in_planes.reshape({n, channels, depth * height * width}), 2,
                               rows.indices.reshape({n, channels, -1}));
  const Tensor plane = floor_divide(rows.indices, height * width) * (x.size(3) * x.size(4));
  return {rows_as_planes(rows.values, height, width),
          rows_as_planes(plane + chosen.reshape(plane.shape()), height, width)};
}

// Of integers, which the kernels do not take: windows are views of the padded image, and their
// largest elements found by a reduction.
Sorted pool_integers(const Tensor& x, const Pooling& pool) {
  WICK_CHECK(x.dtype() != kBool, pool.op, ": needs numbers: got bool");
  std::vector<int64_t> pads;
  Shape image{1, 1};
  for (int axis = pool.axes - 1; axis >= 0; --axis) {
    const PoolWindows w = pool.windows(axis, -1);
    const int64_t in = x.size(axis + 2), out = w.output_size(0, in);
    const int64_t end = (out - 1) * pool.stride[axis] + w.reach(0) - pool.padding[axis];
    pads.push_back(pool.padding[axis]);
    pads.push_back(end - in);
    image.insert(2, in);
  }
  const auto windows = [&](Tensor y, double margin) {
    y = pad(y, pads, margin);
    for (int axis = 0; axis < pool.axes; ++axis) {
      const int64_t reach = pool.dilation[axis] * (pool.kernel[axis] - 1) + 1;
      y = unfold(y, axis + 2, reach, pool.stride[axis]).slice(-1, 0, reach, pool.dilation[axis]);
    }
    return y.flatten(pool.axes + 2);
  };
  const double lowest =
      x.dtype() == kUint8
          ? 0
          : static_cast<double>(x.dtype() == kInt32 ? std::numeric_limits<int32_t>::min()
                                                    : std::numeric_limits<int64_t>::min());
  const Tensor places = arange(0, image.numel(), 1, kInt64, x.device());
  const Tensor all = windows(x, lowest);
  // The margin lies beside an element of x, which comes first where they are equal.
  const Tensor inside = windows(ones(image, kInt64, x.device()), 0);
  const Tensor values = amax(all, -1, true);
  const Tensor best = argmax(eq(all, values).to(kInt64) * inside, -1, true);
  const Tensor indices = gather(windows(places.reshape(image), 0).expand(all.shape()), -1, best);
  return {values.squeeze(-1), indices.squeeze(-1)};
}

Tensor max_pool(const char* op, int axes, const Tensor& x, const Shape& kernel_size,
                const Shape& stride, const Shape& padding, const Shape& dilation, bool ceil_mode) {
  return batched(op, x, axes, [&](const Tensor& given) {
    const Pooling pool =
        checked_pooling(op, axes, given, kernel_size, stride, padding, dilation, ceil_mode);
    if (!is_floating(given.dtype())) return pool_integers(given, pool).values;
    return pool_values(
        cast_to_pool(op, given, axes), axes,
        [&](int rows, int columns) { return pool.windows(rows, columns); }, max_pool_images);
  });
}

Sorted max_pool_with_indices(const char* op, int axes, const Tensor& x, const Shape& kernel_size,
                             const Shape& stride, const Shape& padding, const Shape& dilation,
                             bool ceil_mode) {
  return batched_with_indices(op, x, axes, [&](const Tensor& given) {
    const Pooling pool =
        checked_pooling(op, axes, given, kernel_size, stride, padding, dilation, ceil_mode);
    if (!is_floating(given.dtype())) return pool_integers(given, pool);
    return pool_with_indices(cast_to_pool(op, given, axes), axes,
                             [&](int rows, int columns) { return pool.windows(rows, columns); });
  });
}

Tensor adaptive_max_pool(const char* op, int axes, const Tensor& x, const Shape& output_size) {
  return batched(op, x, axes, [&](const Tensor& given) {
    return pool_values(cast_to_pool(op, given, axes), axes,
                       adaptive_windows(op, axes, given, output_size), max_pool_images);
  });
}

Sorted adaptive_max_pool_with_indices(const char* op, int axes, const Tensor& x,
                                      const Shape& output_size) {
  return batched_with_indices(op, x, axes, [&](const Tensor& given) {
    return pool_with_indices(cast_to_pool(op, given, axes), axes,
                             adaptive_windows(op, axes, given, output_size));
  });
}

Tensor max_unpool(const char* op, int axes, const Tensor& x, const Tensor& indices,
                  const Shape& kernel_size, const Shape& stride, const Shape& padding,
                  const Shape& output_size) {
  WICK_CHECK(indices.shape(op) == x.shape(op), op, ": shapes differ: got x ", x.shape(),
             " and indices ", indices.shape());
  if (output_size.rank() == axes + 2) {  // with N and C
    const int64_t* sizes = output_size.begin();
    return max_unpool(op, axes, x, indices, kernel_size, stride, padding,
                      std::vector<int64_t>(sizes + 2, output_size.end()));
  }
  if (x.rank() == axes + 1) {
    return max_unpool(op, axes, x.unsqueeze(0), indices.unsqueeze(0), kernel_size, stride, padding,
                      output_size)
        .squeeze(0);
  }
  WICK_CHECK(x.rank() == axes + 2, op, ": x needs ", axes + 2, " axes or ", axes + 1,
             ": got shape ", x.shape());
  const Shape kernel = image_sizes(op, "kernel_size", kernel_size, 1, axes);
  const Shape steps = stride.empty() ? kernel : image_sizes(op, "stride", stride, 1, axes);
  const Shape margin = image_sizes(op, "padding", padding, 0, axes);
  Shape size{x.size(0), x.size(1)}, image;
  for (int axis = 0; axis < axes; ++axis) {
    const int64_t least = (x.size(axis + 2) - 1) * steps[axis] + kernel[axis] - 2 * margin[axis];
    image.push_back(
        output_size.empty() ? least : image_sizes(op, "output_size", output_size, 1, axes)[axis]);
    WICK_CHECK(image[axis] > 0 && std::abs(image[axis] - least) < std::max(steps[axis], int64_t{1}),
               op, ": output_size does not fit: got ", image[axis], " for an axis of ",
               x.size(axis + 2), ", expected more than ", least - steps[axis], " and less than ",
               least + steps[axis]);
    size.push_back(image[axis]);
  }
  const Tensor target = zeros({x.size(0), x.size(1), image.numel()}, x.dtype(), x.device());
  const Tensor at = checked_index(op, indices.flatten(2), 0, image.numel());
  return scatter(target, 2, at, x.flatten(2)).reshape(size);
}

}  // namespace

Tensor max_pool1d(const Tensor& x, const Shape& kernel_size, const Shape& stride,
                  const Shape& padding, const Shape& dilation, bool ceil_mode) {
  return max_pool("max_pool1d", 1, x, kernel_size, stride, padding, dilation, ceil_mode);
}

Tensor max_pool2d(const Tensor& x, const Shape& kernel_size, const Shape& stride,
                  const Shape& padding, const Shape& dilation, bool ceil_mode) {
  return max_pool("max_pool2d", 2, x, kernel_size, stride, padding, dilation, ceil_mode);
}

Tensor max_pool3d(const Tensor& x, const Shape& kernel_size, const Shape& stride,
                  const Shape& padding, const Shape& dilation, bool ceil_mode) {
  return max_pool("max_pool3d", 3, x, kernel_size, stride, padding, dilation, ceil_mode);
}

Sorted max_pool1d_with_indices(const Tensor& x, const Shape& kernel_size, const Shape& stride,
                               const Shape& padding, const Shape& dilation, bool ceil_mode) {
  return max_pool_with_indices("max_pool1d_with_indices", 1, x, kernel_size, stride, padding,
                               dilation, ceil_mode);
}

Sorted max_pool2d_with_indices(const Tensor& x, const Shape& kernel_size, const Shape& stride,
                               const Shape& padding, const Shape& dilation, bool ceil_mode) {
  return max_pool_with_indices("max_pool2d_with_indices", 2, x, kernel_size, stride, padding,
                               dilation, ceil_mode);
}

Sorted max_pool3d_with_indices(const Tensor& x, const Shape& kernel_size, const Shape& stride,
                               const Shape& padding, const Shape& dilation, bool ceil_mode) {
  return max_pool_with_indices("max_pool3d_with_indices", 3, x, kernel_size, stride, padding,
                               dilation, ceil_mode);
}

Tensor max_unpool1d(const Tensor& x, const Tensor& indices, const Shape& kernel_size,
                    const Shape& stride, const Shape& padding, const Shape& output_size) {
  return max_unpool("max_unpool1d", 1, x, indices, kernel_size, stride, padding, output_size);
}

Tensor max_unpool2d(const Tensor& x, const Tensor& indices, const Shape& kernel_size,
                    const Shape& stride, const Shape& padding, const Shape& output_size) {
  return max_unpool("max_unpool2d", 2, x, indices, kernel_size, stride, padding, output_size);
}

Tensor max_unpool3d(const Tensor& x, const Tensor& indices, const Shape& kernel_size,
                    const Shape& stride, const Shape& padding, const Shape& output_size) {
  return max_unpool("max_unpool3d", 3, x, indices, kernel_size, stride, padding, output_size);
}

Tensor adaptive_max_pool1d(const Tensor& x, const Shape& output_size) {
  return adaptive_max_pool("adaptive_max_pool1d", 1, x, output_size);
}

Tensor adaptive_max_pool2d(const Tensor& x, const Shape& output_size) {
  return adaptive_max_pool("adaptive_max_pool2d", 2, x, output_size);
}

Tensor adaptive_max_pool3d(const Tensor& x, const Shape& output_size) {
  return adaptive_max_pool("adaptive_max_pool3d", 3, x, output_size);
}

Sorted adaptive_max_pool1d_with_indices(const Tensor& x, const Shape& output_size) {
  return adaptive_max_pool_with_indices("adaptive_max_pool1d_with_indices", 1, x, output_size);
}

Sorted adaptive_max_pool2d_with_indices(const Tensor& x, const Shape& output_size) {
  return adaptive_max_pool_with_indices("adaptive_max_pool2d_with_indices", 2, x, output_size);
}

Sorted adaptive_max_pool3d_with_indices(const Tensor& x, const Shape& output_size) {
  return adaptive_max_pool_with_indices("adaptive_max_pool3d_with_indices", 3, x, output_size);
}

}  // namespace wick
