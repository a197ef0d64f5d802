#include "wick/core/ops/view.h"

#include <algorithm>

#include "wick/core/apply.h"
#include "wick/core/ops/join.h"

namespace wick {

namespace {

Tensor make_view(const Tensor& x, int64_t offset, const Shape& shape, const Strides& strides) {
  const TensorImpl& base = *x.impl();
  auto impl = make_ref<TensorImpl>(base.storage, base.offset + offset, shape, strides, base.dtype);
  impl->is_view = true;
  impl->is_inference |= base.is_inference;
  return Tensor(std::move(impl));
}

// Strides that walk a tensor of `shape` and `strides` in row-major order as one of `wanted`, which
// has as many elements; nothing where a copy is needed.
std::optional<Strides> reshaped_strides(const Shape& shape, const Strides& strides,
                                        const Shape& wanted) {
  if (shape.numel() == 0) return contiguous_strides(wanted);
  // From the last axis on: the longest runs of axes that one stride walks.
  Shape sizes, steps;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] == 1) continue;
    const int last = sizes.rank() - 1;
    if (last >= 0 && strides[i] == sizes[last] * steps[last]) {
      sizes[last] *= shape[i];
    } else {
      sizes.push_back(shape[i]);
      steps.push_back(strides[i]);
    }
  }
  Strides result = wanted;
  int64_t left = 1, step = 1;
  int run = 0;
  for (int i = wanted.rank() - 1; i >= 0; --i) {
    if (left == 1 && run < sizes.rank()) {
      left = sizes[run];
      step = steps[run++];
    }
    if (left % wanted[i] != 0) return {};
    result[i] = step;
    left /= wanted[i];
    step *= wanted[i];
  }
  return result;
}

struct Reshape {
  static constexpr OpInfo info{.name = "reshape", .view = true};
  Shape shape;
  static constexpr auto fields = std::tuple{field("shape", &Reshape::shape)};

  Tensor forward(Saved&, const Tensor& x) const {
    const auto strides = reshaped_strides(x.shape(), x.strides(), shape);
    WICK_CHECK(strides, "reshape: a view needs a copy first: got shape ", x.shape(),
               " with strides ", x.strides(), ", expected one that ", shape, " can walk");
    return make_view(x, 0, shape, *strides);
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    return {dy.reshape(saved.input(0).shape)};
  }
};

struct Permute {
  static constexpr OpInfo info{.name = "permute", .view = true};
  Shape axes;
  static constexpr auto fields = std::tuple{field("axes", &Permute::axes)};

  Tensor forward(Saved&, const Tensor& x) const {
    Shape shape = axes;
    Strides strides = axes;
    for (int i = 0; i < axes.rank(); ++i) {
      shape[i] = x.shape()[static_cast<int>(axes[i])];
      strides[i] = x.strides()[static_cast<int>(axes[i])];
    }
    return make_view(x, 0, shape, strides);
  }
  Gradients backward(const Saved&, const Tensor& dy) const {
    Shape inverse = axes;
    for (int i = 0; i < axes.rank(); ++i) inverse[static_cast<int>(axes[i])] = i;
    return {dy.permute(inverse)};
  }
};

struct Expand {
  static constexpr OpInfo info{.name = "expand", .view = true};
  Shape shape;
  static constexpr auto fields = std::tuple{field("shape", &Expand::shape)};

  Tensor forward(Saved&, const Tensor& x) const {
    Strides strides = Strides::filled(shape.rank(), 0);
    const int added = shape.rank() - x.rank();
    for (int i = 0; i < x.rank(); ++i) {
      if (x.shape()[i] == shape[added + i]) strides[added + i] = x.strides()[i];
    }
    return make_view(x, 0, shape, strides);
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    return {sum_to(dy, saved.input(0).shape)};
  }
};

Tensor strided_slice(const Tensor& x, int axis, int64_t start, int64_t length, int64_t step) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  const int64_t offset = length == 0 ? 0 : start * strides[axis];
  shape[axis] = length;
  strides[axis] *= step;
  return make_view(x, offset, shape, strides);
}

struct StridedSlice {
  static constexpr OpInfo info{.name = "slice", .view = true};
  int64_t axis, start, length, step;
  static constexpr auto fields =
      std::tuple{field("axis", &StridedSlice::axis), field("start", &StridedSlice::start),
                 field("length", &StridedSlice::length), field("step", &StridedSlice::step)};

  Tensor forward(Saved&, const Tensor& x) const {
    return strided_slice(x, static_cast<int>(axis), start, length, step);
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
      parts.push_back(strided_slice(x, static_cast<int>(axis), start, size, 1));
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

Tensor diagonal_view(const Tensor& x, int64_t offset, int axis0, int axis1) {
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

  Tensor forward(Saved&, const Tensor& x) const {
    return diagonal_view(x, offset, static_cast<int>(axis0), static_cast<int>(axis1));
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const;
};

// The diagonal `x` in a tensor of zeros.
struct PlaceDiagonal {
  static constexpr OpInfo info{.name = "place_diagonal"};
  Shape shape;
  Diagonal where;

  Tensor forward(Saved&, const Tensor& x) const {
    Tensor y = zeros(shape, x.dtype(), x.device());
    diagonal_view(y, where.offset, static_cast<int>(where.axis0), static_cast<int>(where.axis1))
        .copy_(x);
    return y;
  }
  Gradients backward(const Saved&, const Tensor& dy) const { return {apply(where, dy)}; }
};

Gradients Diagonal::backward(const Saved& saved, const Tensor& dy) const {
  return {apply(PlaceDiagonal{saved.input(0).shape, *this}, dy)};
}

// `shape` with its -1 worked out.
Shape resolve(const char* op, const Shape& shape, const Tensor& x) {
  Shape result = shape;
  int unknown = -1;
  int64_t known = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    WICK_CHECK(shape[i] >= -1 && !(shape[i] == -1 && unknown >= 0), op, ": bad sizes: got ", shape,
               ", expected sizes of 0 or more, one of them -1 at most");
    if (shape[i] == -1) {
      unknown = i;
    } else {
      known *= shape[i];
    }
  }
  if (unknown >= 0 && known > 0) result[unknown] = x.numel() / known;
  WICK_CHECK((unknown < 0 || known > 0) && result.numel() == x.numel(), op,
             ": sizes do not fit: got ", shape, " for a tensor of shape ", x.shape(), " with ",
             x.numel(), " elements");
  return result;
}

}  // namespace

// --- Shapes
// ---------------------------------------------------------------------------------------

Tensor Tensor::reshape(const Shape& wanted) const {
  const Shape resolved = resolve("reshape", wanted, *this);
  const bool viewable = reshaped_strides(shape(), strides(), resolved).has_value();
  return apply(Reshape{resolved}, viewable ? *this : contiguous());
}

Tensor Tensor::view(const Shape& wanted) const {
  const Shape resolved = resolve("view", wanted, *this);
  WICK_CHECK(reshaped_strides(shape(), strides(), resolved), "view: got shape ", shape(),
             " with strides ", strides(), ", which cannot be walked as ", resolved,
             " without a copy: use reshape");
  return apply(Reshape{resolved}, *this);
}

Tensor Tensor::flatten(int64_t start_axis, int64_t end_axis) const {
  if (rank() == 0) return reshape({1});
  const int first = wrap_axis("flatten", start_axis, rank());
  const int last = wrap_axis("flatten", end_axis, rank());
  WICK_CHECK(first <= last, "flatten: axes in the wrong order: got ", start_axis, " and ", end_axis,
             " for shape ", shape());
  Shape flat;
  for (int i = 0; i < rank(); ++i) {
    if (i > first && i <= last) {
      flat[first] *= shape()[i];
    } else {
      flat.push_back(shape()[i]);
    }
  }
  return reshape(flat);
}

Tensor unflatten(const Tensor& x, int64_t axis, const Shape& sizes) {
  const int a = wrap_axis("unflatten", axis, x.rank());
  Shape shape;
  int64_t known = 1;
  for (const int64_t size : sizes) known *= size == -1 ? 1 : size;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != a) {
      shape.push_back(x.shape()[i]);
      continue;
    }
    for (const int64_t size : sizes) {
      shape.push_back(size == -1 && known > 0 ? x.shape()[i] / known : size);
    }
  }
  WICK_CHECK(x.rank() > 0 && shape.numel() == x.numel(), "unflatten: sizes do not fit: got ", sizes,
             " for axis ", axis, " of shape ", x.shape());
  return x.reshape(shape);
}

Tensor Tensor::unsqueeze(int64_t axis) const {
  Shape wider = shape();
  wider.insert(wrap_axis("unsqueeze", axis, rank() + 1), 1);
  return reshape(wider);
}

Tensor Tensor::squeeze(std::optional<int64_t> axis) const {
  const int only = axis ? wrap_axis("squeeze", *axis, rank()) : -1;
  Shape narrower;
  for (int i = 0; i < rank(); ++i) {
    if (shape()[i] != 1 || (axis && i != only)) narrower.push_back(shape()[i]);
  }
  return reshape(narrower);
}

Tensor Tensor::expand(const Shape& wanted) const {
  const int added = wanted.rank() - rank();
  Shape resolved = wanted;
  bool fits = added >= 0;
  for (int i = 0; fits && i < wanted.rank(); ++i) {
    const int64_t size = i < added ? 1 : shape()[i - added];
    if (wanted[i] == -1 && i >= added) resolved[i] = size;
    fits = resolved[i] == size || (size == 1 && resolved[i] >= 0);
  }
  WICK_CHECK(fits, "expand: sizes do not fit: got ", wanted, " for a tensor of shape ", shape());
  return apply(Expand{resolved}, *this);
}

// --- Order of axes
// --------------------------------------------------------------------------------

Tensor Tensor::permute(const Shape& axes) const {
  Shape order = axes;
  bool seen[kMaxRank] = {};
  bool valid = axes.rank() == rank();
  for (int i = 0; valid && i < rank(); ++i) {
    const int axis = wrap_axis("permute", axes[i], rank());
    valid = !seen[axis];
    seen[axis] = true;
    order[i] = axis;
  }
  WICK_CHECK(valid, "permute: got axes ", axes, ", expected each of the ", rank(),
             " axes of shape ", shape(), " once");
  return apply(Permute{order}, *this);
}

Tensor Tensor::transpose(int64_t axis0, int64_t axis1) const {
  const int a = wrap_axis("transpose", axis0, rank()), b = wrap_axis("transpose", axis1, rank());
  Shape order;
  for (int i = 0; i < rank(); ++i) order.push_back(i == a ? b : i == b ? a : i);
  return apply(Permute{order}, *this);
}

Tensor Tensor::t() const {
  WICK_CHECK(rank() <= 2, "t: needs at most 2 axes: got shape ", shape());
  return rank() < 2 ? *this : transpose(0, 1);
}

// --- Parts --------------------------------------------------------------------------------------

Tensor Tensor::narrow(int64_t axis, int64_t start, int64_t length) const {
  WICK_CHECK(rank() > 0, "narrow: needs at least one axis");
  const int a = wrap_axis("narrow", axis, rank());
  const int64_t n = shape()[a];
  const int64_t first = start < 0 ? start + n : start;
  WICK_CHECK(first >= 0 && length >= 0 && first <= n && length <= n - first,
             "narrow: out of range: got start ", start, " and length ", length, " for axis ", axis,
             " of shape ", shape());
  return apply(StridedSlice{a, first, length, 1}, *this);
}

Tensor Tensor::select(int64_t axis, int64_t index) const {
  WICK_CHECK(rank() > 0, "select: needs at least one axis");
  const int a = wrap_axis("select", axis, rank());
  const int64_t n = shape()[a];
  WICK_CHECK(index >= -n && index < n, "select: index out of range: got ", index, " for axis ",
             axis, " of shape ", shape(), ", expected one in [", -n, ", ", n - 1, "]");
  return narrow(a, index, 1).squeeze(a);
}

Tensor Tensor::slice(int64_t axis, int64_t start, int64_t stop, int64_t step) const {
  WICK_CHECK(rank() > 0, "slice: needs at least one axis");
  WICK_CHECK(step > 0, "slice: step must be positive: got ", step);
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
    const int64_t span = x.shape()[i] == 0 ? 0 : (x.shape()[i] - 1) * step[i] + 1;
    fits = start[i] >= 0 && step[i] > 0 && start[i] + span <= shape[i];
  }
  WICK_CHECK(fits, "place: got a tensor of shape ", x.shape(), " at ", start, " with steps ", step,
             ", which does not fit into ", shape);
  return apply(Place{shape, start, step, value}, x);
}

std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t axis) {
  WICK_CHECK(x.rank() > 0, "split: needs at least one axis");
  const int a = wrap_axis("split", axis, x.rank());
  int64_t total = 0;
  for (const int64_t size : sizes) {
    WICK_CHECK(size >= 0, "split: negative size: got ", size);
    total += size;
  }
  WICK_CHECK(total == x.shape()[a] && !sizes.empty(), "split: sizes add up to ", total,
             ", expected ", x.shape()[a], " for axis ", axis, " of shape ", x.shape());
  return apply(Split{a, sizes}, x);
}

std::vector<Tensor> Tensor::split(int64_t split_size, int64_t axis) const {
  WICK_CHECK(split_size > 0, "split: size must be positive: got ", split_size);
  const int64_t n = size(axis);
  std::vector<int64_t> sizes;
  for (int64_t done = 0; done < n; done += split_size)
    sizes.push_back(std::min(split_size, n - done));
  if (sizes.empty()) sizes.push_back(0);
  return wick::split(*this, sizes, axis);
}

std::vector<Tensor> Tensor::chunk(int64_t chunks, int64_t axis) const {
  WICK_CHECK(chunks > 0, "chunk: needs a positive number of chunks: got ", chunks);
  const int64_t n = size(axis);
  if (n == 0) return wick::split(*this, std::vector<int64_t>(static_cast<size_t>(chunks), 0), axis);
  return split((n + chunks - 1) / chunks, axis);
}

Tensor diagonal(const Tensor& x, int64_t offset, int64_t axis0, int64_t axis1) {
  WICK_CHECK(x.rank() >= 2, "diagonal: needs at least 2 axes: got shape ", x.shape());
  const int a = wrap_axis("diagonal", axis0, x.rank()), b = wrap_axis("diagonal", axis1, x.rank());
  WICK_CHECK(a != b, "diagonal: needs two different axes: got ", axis0, " and ", axis1);
  return apply(Diagonal{offset, a, b}, x);
}

}  // namespace wick
