#include "wick/core/ops/slice.h"

#include <algorithm>

#include "wick/core/apply.h"
#include "wick/core/base/detail/checked.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/view.h"

namespace wick {

namespace {

using detail::make_view;

Tensor strided_slice(const Tensor& x, int64_t along, int64_t start, int64_t length, int64_t step) {
  const int axis = wrap_axis("slice", along, x.rank());
  Shape shape = x.shape();
  Strides strides = x.strides();
  const int64_t n = x.rank() > 0 ? shape[axis] : 0;
  WICK_CHECK(start >= 0 && length >= 0 && step > 0 &&
                 (length == 0 || (start < n && length - 1 <= (n - 1 - start) / step)),
             "slice: out of range: got ", length, " elements from ", start, " on, ", step,
             " apart, for axis ", along, " of shape ", x.shape());
  const int64_t offset = length == 0 ? 0 : start * strides[axis];
  shape[axis] = length;
  if (length > 1) strides[axis] *= step;  // else the step may be of any size
  return make_view(x, offset, shape, strides);
}

struct StridedSlice {
  static constexpr OpInfo info{.name = "slice", .view = true};
  int64_t axis, start, length, step;
  static constexpr auto fields =
      std::tuple{field("axis", &StridedSlice::axis), field("start", &StridedSlice::start),
                 field("length", &StridedSlice::length), field("step", &StridedSlice::step)};

  Tensor forward(Saved&, const Tensor& x) const {
    return strided_slice(x, axis, start, length, step);
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    Shape starts = Shape::filled(dy.rank(), 0), steps = Shape::filled(dy.rank(), 1);
    starts[static_cast<int>(axis)] = start;
    steps[static_cast<int>(axis)] = step;
    return {place(dy, saved.input(0).shape, starts, steps)};
  }
};

struct Place {
  static constexpr OpInfo info{.name = "place"};
  Shape shape, start, step;
  double value;
  static constexpr auto fields =
      std::tuple{field("shape", &Place::shape), field("start", &Place::start),
                 field("step", &Place::step), field("value", &Place::value)};

  Tensor forward(Saved&, const Tensor& x) const {
    WICK_CHECK(shape.rank() == x.rank() && start.rank() == x.rank() && step.rank() == x.rank(),
               "place: wrong number of axes: got ", shape, ", ", start, " and ", step,
               " for a tensor of shape ", x.shape());
    const bool channels_last = !x.is_contiguous() && x.is_contiguous(MemoryFormat::kChannelsLast);
    Tensor y = empty(shape, x.dtype(), x.device(),
                     channels_last ? MemoryFormat::kChannelsLast : MemoryFormat::kContiguous);
    if (x.numel() != y.numel()) y.fill_(value);
    Tensor target = y;
    for (int i = 0; i < x.rank(); ++i) {
      target = strided_slice(target, i, start[i], x.shape()[i], step[i]);
    }
    target.copy_(x);
    return y;
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    Tensor dx = dy;
    for (int i = 0; i < dy.rank(); ++i) {
      const int64_t length = saved.input(0).shape[i];
      if (length != dy.shape()[i]) dx = apply(StridedSlice{i, start[i], length, step[i]}, dx);
    }
    return {dx};
  }
};

struct Split {
  static constexpr OpInfo info{.name = "split", .view = true};
  int64_t axis;
  std::vector<int64_t> sizes;
  static constexpr auto fields =
      std::tuple{field("axis", &Split::axis), field("sizes", &Split::sizes)};

  std::vector<Tensor> forward(Saved&, const Tensor& x) const {
    std::vector<Tensor> parts;
    int64_t start = 0;
    for (const int64_t size : sizes) {
      parts.push_back(strided_slice(x, axis, start, size, 1));
      start += size;
    }
    return parts;
  }
  Gradients backward(const Saved& saved, std::span<const Tensor> grads) const {
    const TensorMeta& x = saved.input(0);
    std::vector<Tensor> parts(grads.begin(), grads.end());
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].defined()) continue;
      Shape shape = x.shape;
      shape[static_cast<int>(axis)] = sizes[i];
      parts[i] = zeros(shape, x.dtype, x.device);
    }
    return {cat(parts, axis)};
  }
};

// The axes of a diagonal, counted from the front.
std::pair<int, int> checked_axes(const Tensor& x, int64_t axis0, int64_t axis1) {
  WICK_CHECK(x.rank("diagonal") >= 2, "diagonal: too few axes: got shape ", x.shape(),
             ", expected 2 axes or more");
  const int a = wrap_axis("diagonal", axis0, x.rank()), b = wrap_axis("diagonal", axis1, x.rank());
  WICK_CHECK(a != b, "diagonal: axes are the same: got ", axis0, " and ", axis1, ", expected two");
  return {a, b};
}

Tensor diagonal_view(const Tensor& x, int64_t beside, int64_t first_axis, int64_t second_axis) {
  const auto [axis0, axis1] = checked_axes(x, first_axis, second_axis);
  // Diagonals beyond the matrix are empty, however far.
  const int64_t offset = std::clamp(beside, -kMaxNumel, kMaxNumel);
  const int64_t first0 = std::max<int64_t>(-offset, 0), first1 = std::max<int64_t>(offset, 0);
  const int64_t length =
      std::max<int64_t>(std::min(x.shape()[axis0] - first0, x.shape()[axis1] - first1), 0);
  const int64_t stride0 = x.strides()[axis0], stride1 = x.strides()[axis1];
  Shape shape;
  Strides strides;
  for (int i = 0; i < x.rank(); ++i) {
    if (i == axis0 || i == axis1) continue;
    shape.push_back(x.shape()[i]);
    strides.push_back(x.strides()[i]);
  }
  shape.push_back(length);
  strides.push_back(stride0 + stride1);
  return make_view(x, length == 0 ? 0 : first0 * stride0 + first1 * stride1, shape, strides);
}

struct Diagonal {
  static constexpr OpInfo info{.name = "diagonal", .view = true};
  int64_t offset, axis0, axis1;
  static constexpr auto fields =
      std::tuple{field("offset", &Diagonal::offset), field("axis0", &Diagonal::axis0),
                 field("axis1", &Diagonal::axis1)};

  Tensor forward(Saved&, const Tensor& x) const { return diagonal_view(x, offset, axis0, axis1); }
  Gradients backward(const Saved& saved, const Tensor& dy) const;
};

// The diagonal `x` in a tensor of zeros.
struct PlaceDiagonal {
  static constexpr OpInfo info{.name = "place_diagonal"};
  Shape shape;
  int64_t offset, axis0, axis1;  // as of Diagonal
  static constexpr auto fields =
      std::tuple{field("shape", &PlaceDiagonal::shape), field("offset", &PlaceDiagonal::offset),
                 field("axis0", &PlaceDiagonal::axis0), field("axis1", &PlaceDiagonal::axis1)};

  Tensor forward(Saved&, const Tensor& x) const {
    Tensor y = zeros(shape, x.dtype(), x.device());
    diagonal_view(y, offset, axis0, axis1).copy_(x);
    return y;
  }
  Gradients backward(const Saved&, const Tensor& dy) const {
    return {apply(Diagonal{offset, axis0, axis1}, dy)};
  }
};

Gradients Diagonal::backward(const Saved& saved, const Tensor& dy) const {
  return {apply(PlaceDiagonal{saved.input(0).shape, offset, axis0, axis1}, dy)};
}

void check_parts(const char* op, int64_t parts) {
  constexpr int64_t kMost = int64_t{1} << 24;
  WICK_CHECK(parts <= kMost, op, ": too many parts: got ", parts, ", expected at most ", kMost);
}
}  // namespace

Tensor Tensor::narrow(int64_t axis, int64_t start, int64_t length) const {
  WICK_CHECK(rank() > 0, "narrow: no axis to cut: got shape [], expected 1 axis or more");
  const int a = wrap_axis("narrow", axis, rank());
  const int64_t n = shape()[a];
  const int64_t first = start < 0 ? start + n : start;
  WICK_CHECK(first >= 0 && length >= 0 && first <= n && length <= n - first,
             "narrow: out of range: got start ", start, " and length ", length, " for axis ", axis,
             " of shape ", shape(), ", expected a part of its ", n, " elements");
  return apply(StridedSlice{a, first, length, 1}, *this);
}

Tensor Tensor::select(int64_t axis, int64_t index) const {
  WICK_CHECK(rank() > 0, "select: no axis to choose from: got shape [], expected 1 axis or more");
  const int a = wrap_axis("select", axis, rank());
  const int64_t n = shape()[a];
  WICK_CHECK(index >= -n && index < n, "select: index out of range: got ", index, " for axis ",
             axis, " of shape ", shape(), ", expected one in [", -n, ", ", n - 1, "]");
  return narrow(a, index, 1).squeeze(a);
}

Tensor Tensor::slice(int64_t axis, int64_t start, int64_t stop, int64_t step) const {
  WICK_CHECK(rank() > 0, "slice: no axis to cut: got shape [], expected 1 axis or more");
  WICK_CHECK(step > 0, "slice: step must be positive: got ", step, ", expected 1 or more");
  const int a = wrap_axis("slice", axis, rank());
  const int64_t n = shape()[a];
  const int64_t first = std::clamp<int64_t>(start < 0 ? start + n : start, 0, n);
  const int64_t last = std::clamp<int64_t>(stop < 0 ? stop + n : stop, first, n);
  const int64_t length = (last - first) / step + ((last - first) % step != 0);
  return apply(StridedSlice{a, first, length, step}, *this);
}

Tensor place(const Tensor& x, const Shape& shape, const Shape& start, const Shape& step,
             double value) {
  const int rank = x.rank();
  bool fits = shape.rank() == rank && start.rank() == rank && step.rank() == rank;
  for (int i = 0; fits && i < rank; ++i) {
    const int64_t n = x.shape()[i];
    const int64_t span = n == 0 ? 0 : checked_add("place", checked_mul("place", n - 1, step[i]), 1);
    fits = start[i] >= 0 && step[i] > 0 && span <= shape[i] && start[i] <= shape[i] - span;
  }
  WICK_CHECK(fits, "place: does not fit: got a tensor of shape ", x.shape(), " at ", start,
             " with steps ", step, ", expected it within ", shape);
  return apply(Place{shape, start, step, value}, x);
}

std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t axis) {
  WICK_CHECK(x.rank() > 0, "split: no axis to cut: got shape [], expected 1 axis or more");
  const int a = wrap_axis("split", axis, x.rank());
  int64_t total = 0;
  for (const int64_t size : sizes) {
    WICK_CHECK(size >= 0, "split: negative size: got ", size, ", expected 0 or more");
    total = checked_add("split", total, size);
  }
  WICK_CHECK(total == x.shape()[a] && !sizes.empty(), "split: sizes do not add up: got a sum of ",
             total, ", expected ", x.shape()[a], " for axis ", axis, " of shape ", x.shape());
  return apply(Split{a, sizes}, x);
}

std::vector<Tensor> Tensor::split(int64_t split_size, int64_t axis) const {
  WICK_CHECK(split_size > 0, "split: size must be positive: got ", split_size,
             ", expected 1 or more");
  const int64_t n = size(axis);
  check_parts("split", n / split_size);
  std::vector<int64_t> sizes;
  for (int64_t left = n; left > 0; left -= sizes.back()) {
    sizes.push_back(std::min(split_size, left));
  }
  if (sizes.empty()) sizes.push_back(0);
  return wick::split(*this, sizes, axis);
}

std::vector<Tensor> Tensor::chunk(int64_t chunks, int64_t axis) const {
  WICK_CHECK(chunks > 0, "chunk: number of chunks must be positive: got ", chunks,
             ", expected 1 or more");
  const int64_t n = size(axis);
  if (n == 0) {
    check_parts("chunk", chunks);
    return wick::split(*this, std::vector<int64_t>(static_cast<size_t>(chunks), 0), axis);
  }
  return split(n / chunks + (n % chunks != 0), axis);
}

std::vector<Tensor> unbind(const Tensor& x, int64_t axis) {
  WICK_CHECK(x.rank() > 0, "unbind: no axis to take apart: got shape [], expected 1 axis or more");
  const int a = wrap_axis("unbind", axis, x.rank());
  std::vector<Tensor> parts;
  if (x.shape()[a] > 0) parts = x.split(1, a);
  for (Tensor& part : parts) part = part.squeeze(a);
  return parts;
}

Tensor diagonal(const Tensor& x, int64_t offset, int64_t axis0, int64_t axis1) {
  const auto [a, b] = checked_axes(x, axis0, axis1);
  return apply(Diagonal{offset, a, b}, x);
}

}  // namespace wick
