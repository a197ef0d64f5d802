#include "wick/core/ops/join.h"

#include <algorithm>

#include "wick/core/apply.h"
#include "wick/core/base/detail/checked.h"
#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/index.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/slice.h"
#include "wick/core/ops/sort.h"
#include "wick/kernels/index.h"

namespace wick {

namespace {

// Whether cat leaves `shape` out, whatever the rank of the others.
bool is_nothing(const Shape& shape) { return shape == Shape{0}; }

bool all_channels_last(std::span<const Tensor> tensors) {
  bool all = true, any = false;
  for (const Tensor& x : tensors) {
    if (is_nothing(x.shape())) continue;
    all &= x.is_contiguous(MemoryFormat::kChannelsLast);
    any |= !x.is_contiguous();
  }
  return all && any;
}

struct Cat {
  static constexpr OpInfo info{.name = "cat", .autocast = {Autocast::kPromote, Autocast::kPromote}};
  int64_t axis;
  static constexpr auto fields = std::tuple{field("axis", &Cat::axis)};

  Tensor forward(Saved&, std::span<const Tensor> tensors) const {
    WICK_CHECK(!tensors.empty(), "cat: no tensors");
    Shape shape;
    int a = 0;
    for (const Tensor& x : tensors) {
      if (is_nothing(x.shape())) continue;
      a = wrap_axis("cat", axis, x.rank());
      WICK_CHECK(shape.empty() || shape.rank() == x.rank(), "cat: ranks differ: got shapes ", shape,
                 " and ", x.shape());
      const int64_t before = shape.empty() ? 0 : shape[a];
      shape = x.shape();
      shape[a] = checked_add("cat", before, shape[a]);
    }
    if (shape.empty()) shape = {0};
    const auto format =
        all_channels_last(tensors) ? MemoryFormat::kChannelsLast : MemoryFormat::kContiguous;
    Tensor y = empty(shape, tensors[0].dtype(), tensors[0].device(), format);
    int64_t start = 0;
    for (const Tensor& x : tensors) {
      if (is_nothing(x.shape())) continue;
      const int64_t length = x.shape()[a];
      if (x.numel() > 0) y.narrow(a, start, length).copy_(x);
      start += length;
    }
    return y;
  }
  Gradients backward(const Saved& saved, std::span<const Tensor> grads) const {
    const int a = static_cast<int>(axis);
    Gradients result;
    int64_t start = 0;
    for (int i = 0; i < saved.num_inputs(); ++i) {
      const TensorMeta& in = saved.input(i);
      if (is_nothing(in.shape)) {
        result.push_back(zeros(in.shape, in.dtype, in.device));
        continue;
      }
      const int64_t length = in.shape[a];
      result.push_back(grads[0].narrow(a, start, length));
      start += length;
    }
    return result;
  }
};

// x with other of its elements before and behind along `axis`: those at `places`.
struct PadByIndex {
  static constexpr OpInfo info{.name = "pad", .autocast = {.cpu = Autocast::kToFloat32}};
  int64_t axis;
  static constexpr auto fields = std::tuple{field("axis", &PadByIndex::axis)};

  Tensor forward(Saved& saved, const Tensor& x, const Tensor& places) const {
    saved.save(places);
    return index_select(x, axis, places);
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    const Tensor none = zeros(saved.input(0).shape, dy.dtype(), dy.device());
    return {index_add(none, axis, saved[0], dy), {}};
  }
};

struct Triangle {
  static constexpr OpInfo info{.name = "triangle"};
  int64_t diagonal;
  bool upper;
  static constexpr auto fields =
      std::tuple{field("diagonal", &Triangle::diagonal), field("upper", &Triangle::upper)};

  Tensor forward(Saved&, const Tensor& x) const {
    const int64_t offset = std::clamp(diagonal, -kMaxNumel, kMaxNumel);
    const Tensor from = x.contiguous();
    Tensor y = empty(x.shape(), x.dtype(), x.device());
    const int64_t rows = x.size(-2), columns = x.size(-1);
    const Shape matrices{rows * columns == 0 ? 0 : x.numel() / (rows * columns), rows, columns};
    WICK_DISPATCH(x.device(), triangle(from.view(matrices).view_for_kernel(),
                                       y.view(matrices).view_for_kernel(), offset, upper));
    return y;
  }
  Gradients backward(const Saved&, const Tensor& dy) const { return {apply(*this, dy)}; }
};

Tensor triangle_of(const char* name, const Tensor& x, int64_t diagonal, bool upper) {
  WICK_CHECK(x.rank() >= 2, name, ": too few axes: got shape ", x.shape(), ", expected 2 or more");
  // Diagonals beyond the matrix leave all or nothing, however far.
  return apply(Triangle{std::clamp(diagonal, -kMaxNumel, kMaxNumel), upper}, x);
}

Tensor pad_axis(const Tensor& x, int axis, int64_t before, int64_t after, PadMode mode) {
  const int64_t n = x.shape()[axis];
  const int64_t most = mode == PadMode::kReflect ? n - 1 : n;
  WICK_CHECK(before <= most && after <= most, "pad: margin too wide: got ", before, " and ", after,
             " for axis ", axis, " of shape ", x.shape(), ", expected at most ", most);
  if (before == 0 && after == 0) return x;
  if (mode == PadMode::kCircular) {
    return cat({x.narrow(axis, n - before, before), x, x.narrow(axis, 0, after)}, axis);
  }
  // Which element of x stands at each place of the result.
  const Tensor places = arange(-before, n + after, 1, kInt64, x.device());
  return apply(PadByIndex{axis}, x, n - 1 - abs(n - 1 - abs(places)));
}

// Margins below 0 take away of what stands at the other end: also of the other margin.
Tensor replicate_axis(const Tensor& x, int axis, int64_t before, int64_t after) {
  const int64_t n = x.shape()[axis];
  WICK_CHECK(before + n + after >= 0 && (n > 0 || (before <= 0 && after <= 0)),
             "pad: nothing to replicate, or less than nothing left: got ", before, " and ", after,
             " for axis ", axis, " of shape ", x.shape());
  if (before <= 0 && after <= 0) return x.narrow(axis, -before, n + before + after);
  const Tensor places = arange(-before, n + after, 1, kInt64, x.device());
  return apply(PadByIndex{axis}, x, clamp(places, 0, n - 1));
}

}  // namespace

Tensor cat(const std::vector<Tensor>& tensors, int64_t axis) {
  check_defined("cat", tensors);
  WICK_CHECK(!tensors.empty(), "cat: nothing to join: got no tensors, expected one or more");
  std::vector<Tensor> parts = tensors;
  const auto first = std::find_if(tensors.begin(), tensors.end(),
                                  [](const Tensor& x) { return !is_nothing(x.shape()); });
  const bool nothing = first == tensors.end();
  const Shape shape = nothing ? Shape{0} : first->shape();
  WICK_CHECK(
      shape.rank() > 0,
      "cat: no axis to join along: got tensors of shape [], expected 1 axis or more: use stack");
  const int a = nothing ? 0 : wrap_axis("cat", axis, shape.rank());
  Dtype dtype = parts[0].dtype();
  for (const Tensor& x : parts) {
    dtype = promote(dtype, x.dtype());
    if (is_nothing(x.shape())) continue;
    bool agrees = x.rank() == shape.rank();
    for (int i = 0; agrees && i < shape.rank(); ++i) agrees = i == a || x.shape()[i] == shape[i];
    WICK_CHECK(agrees, "cat: shapes differ on an axis other than ", axis, ": got ", shape, " and ",
               x.shape(), ", expected equal sizes there");
  }
  for (Tensor& x : parts) x = x.to(dtype);
  return wick::apply(Cat{a}, std::span<const Tensor>(parts));
}

Tensor stack(const std::vector<Tensor>& tensors, int64_t axis) {
  WICK_CHECK(!tensors.empty(), "stack: nothing to join: got no tensors, expected one or more");
  const int a = wrap_axis("stack", axis, tensors[0].rank() + 1);
  std::vector<Tensor> parts;
  for (const Tensor& x : tensors) {
    WICK_CHECK(x.shape() == tensors[0].shape(), "stack: shapes differ: got ", tensors[0].shape(),
               " and ", x.shape(), ", expected equal ones");
    parts.push_back(x.unsqueeze(a));
  }
  return cat(parts, a);
}

Tensor pad(const Tensor& x, const std::vector<int64_t>& pads, double value, PadMode mode) {
  const int padded = static_cast<int>(pads.size() / 2);
  WICK_CHECK(pads.size() % 2 == 0 && padded <= x.rank(), "pad: got ", pads.size(),
             " sizes, expected two for each of at most ", x.rank(), " axes");
  for (const int64_t size : pads) {
    WICK_CHECK(size >= -kMaxNumel && size <= kMaxNumel, "pad: size out of range: got ", size,
               ", expected at most 2^58");
  }
  Tensor y = x;
  bool is_own = false;  // not a view of x
  Shape shape = x.shape(), start = Shape::filled(x.rank(), 0);
  for (int i = 0; i < padded; ++i) {
    const int axis = x.rank() - 1 - i;
    const int64_t before = pads[static_cast<size_t>(2 * i)];
    const int64_t after = pads[static_cast<size_t>(2 * i + 1)];
    if (mode == PadMode::kReplicate) {
      y = replicate_axis(y, axis, before, after);
      is_own |= before > 0 || after > 0;
      continue;
    }
    const int64_t left = std::max<int64_t>(-before, 0), right = std::max<int64_t>(-after, 0);
    WICK_CHECK(left + right <= shape[axis], "pad: crops too much: got ", left, " and ", right,
               " elements, expected at most ", shape[axis], " for axis ", axis, " of shape ",
               x.shape());
    if (left + right > 0) y = y.narrow(axis, left, shape[axis] - left - right);
    start[axis] = std::max<int64_t>(before, 0);
    shape[axis] += before + after;
    if (mode == PadMode::kConstant || before + after + left + right == 0) continue;
    y = pad_axis(y, axis, start[axis], std::max<int64_t>(after, 0), mode);
    is_own |= before > 0 || after > 0;
  }
  if (mode != PadMode::kConstant || y.shape() == shape) return is_own ? y : y.clone();
  return place(y, shape, start, Shape::filled(x.rank(), 1), value);
}

Tensor repeat(const Tensor& x, const Shape& times) {
  WICK_CHECK(times.rank() >= x.rank(), "repeat: got ", times, " for a tensor of shape ", x.shape(),
             ", expected a number for each axis");
  const int added = times.rank() - x.rank();
  Shape shape = x.shape();
  for (int i = 0; i < added; ++i) shape.insert(0, 1);
  Tensor y = x;
  for (int axis = times.rank() - 1; axis >= 0; --axis) {
    WICK_CHECK(times[axis] >= 0, "repeat: negative number: got ", times, ", expected 0 or more");
    if (times[axis] == 1) continue;
    int64_t outer = 1, inner = 1;
    for (int i = 0; i < shape.rank(); ++i) (i < axis ? outer : inner) *= shape[i];
    y = y.reshape({outer, 1, inner}).expand({outer, times[axis], inner});
    shape[axis] = checked_mul("repeat", shape[axis], times[axis]);
  }
  y = y.reshape(shape);
  // Repeating single elements can be a view.
  return y.address() == x.address() ? y.clone() : y;
}

Tensor repeat_interleave(const Tensor& x, int64_t times, std::optional<int64_t> axis) {
  check_defined("repeat_interleave", x);
  const char* op = "repeat_interleave";
  WICK_CHECK(times >= 0, op, ": negative number: got ", times, ", expected 0 or more");
  if (!axis) return repeat_interleave(x.reshape({-1}), times, 0);
  const int a = wrap_axis(op, *axis, x.rank());
  if (x.rank() == 0) return repeat_interleave(x.reshape({1}), times, 0);
  Shape each = x.shape(), shape = x.shape();
  each.insert(a + 1, times);
  shape[a] = checked_mul(op, shape[a], times);
  return x.unsqueeze(a + 1).expand(each).reshape(shape).clone();
}

Tensor repeat_interleave(const Tensor& x, const Tensor& times, std::optional<int64_t> axis) {
  check_defined("repeat_interleave", x, times);
  const char* op = "repeat_interleave";
  if (!axis) return repeat_interleave(x.reshape({-1}), times, 0);
  if (x.rank() == 0) return repeat_interleave(x.reshape({1}), times, axis);
  const int a = wrap_axis(op, *axis, x.rank());
  WICK_CHECK(times.dtype() == kInt64 || times.dtype() == kInt32, op,
             ": times must be int64 or int32: got ", times.dtype());
  const int64_t n = x.size(a);
  WICK_CHECK(times.rank() <= 1 && (times.numel() == 1 || times.numel() == n), op,
             ": times does not fit: got shape ", times.shape(), ", expected [", n, "]");
  const Tensor each = times.to(kInt64).reshape({times.numel()}).expand({n});
  WICK_CHECK(n == 0 || amin(each).item<int64_t>() >= 0, op, ": negative number: got ",
             amin(each).item<int64_t>(), ", expected 0 or more");
  // A place in the result is of the slice before which as many slices have ended.
  const int64_t total = sum(each).item<int64_t>();
  const Tensor ended = scatter_add(zeros({total + 1}, kInt64, x.device()), 0, cumsum(each, 0),
                                   ones({n}, kInt64, x.device()));
  return index_select(x, a, cumsum(ended, 0).narrow(0, 0, total));
}

Tensor tril(const Tensor& x, int64_t diagonal) {
  check_defined("tril", x);
  return triangle_of("tril", x, diagonal, false);
}
Tensor triu(const Tensor& x, int64_t diagonal) {
  check_defined("triu", x);
  return triangle_of("triu", x, diagonal, true);
}

Tensor flip(const Tensor& x, const Shape& axes) {
  Tensor y = x;
  Shape flipped;
  for (const int64_t given : axes) {
    const int axis = wrap_axis("flip", given, x.rank());
    WICK_CHECK(std::find(flipped.begin(), flipped.end(), axis) == flipped.end(),
               "flip: an axis comes twice: got ", axes, ", expected each at most once");
    flipped.push_back(axis);
    const int64_t n = x.size(axis);
    y = index_select(y, axis, arange(n - 1, -1, -1, kInt64, x.device()));
  }
  return axes.empty() ? x.clone() : y;
}

Tensor roll(const Tensor& x, int64_t shift, int64_t axis) {
  const int64_t n = x.size(axis);
  if (n == 0) return x.clone();
  const int64_t by = (shift % n + n) % n;
  if (by == 0) return x.clone();
  return cat({x.narrow(axis, n - by, by), x.narrow(axis, 0, n - by)}, axis);
}

namespace {

template <bool kLower>
Tensor triangle_indices(const char* op, int64_t rows, int64_t columns, int64_t diagonal,
                        Device device) {
  WICK_CHECK(rows >= 0 && columns >= 0, op, ": negative size: got ", rows, " x ", columns);
  std::vector<int64_t> at[2];
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t begin = kLower ? 0 : std::clamp<int64_t>(r + diagonal, 0, columns);
    const int64_t end = kLower ? std::clamp<int64_t>(r + diagonal + 1, 0, columns) : columns;
    for (int64_t c = begin; c < end; ++c) {
      at[0].push_back(r);
      at[1].push_back(c);
    }
  }
  return stack({tensor(at[0]), tensor(at[1])}).to(device);
}

}  // namespace

Tensor tril_indices(int64_t rows, int64_t columns, int64_t diagonal, Device device) {
  return triangle_indices<true>("tril_indices", rows, columns, diagonal, device);
}
Tensor triu_indices(int64_t rows, int64_t columns, int64_t diagonal, Device device) {
  return triangle_indices<false>("triu_indices", rows, columns, diagonal, device);
}

}  // namespace wick
