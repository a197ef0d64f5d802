#include "wick/core/ops/view.h"

#include "wick/core/apply.h"
#include "wick/core/base/detail/checked.h"

namespace wick {

namespace {
// Error unless a view lies within the `elements` of its memory. Views are made often: no division.
void check_within(int64_t offset, const Shape& shape, const Strides& strides, int64_t elements) {
  bool fits = shape.rank() == strides.rank() && offset >= 0 && offset <= kMaxNumel;
  bool is_empty = false;
  int64_t last = offset, numel = 1;
  for (int axis = 0; fits && axis < shape.rank(); ++axis) {
    const int64_t size = shape[axis];
    int64_t span = 0;
    is_empty |= size == 0;
    fits = size >= 0 && strides[axis] >= 0 &&
           (size < 2 || (!__builtin_mul_overflow(size - 1, strides[axis], &span) &&
                         !__builtin_add_overflow(last, span, &last) &&
                         !__builtin_mul_overflow(numel, size, &numel) && numel <= kMaxNumel));
  }
  WICK_CHECK(fits && (is_empty || last < elements), detail::current_op(),
             ": a view reaches beyond its memory: got shape ", shape, " and strides ", strides,
             " from element ", offset, " on, expected at most ", elements, " elements");
}
}  // namespace

Tensor detail::make_view(const Tensor& x, int64_t offset, const Shape& shape,
                         const Strides& strides) {
  const TensorImpl& base = *x.impl();
  if (base.rows) sparse_tensor_used("view", base.shape);
  offset = checked_add("view", base.offset, offset);
  const auto elements = static_cast<int64_t>(base.storage->bytes()) / size_of(base.dtype);
  check_within(offset, shape, strides, elements);
  auto impl = make_ref<TensorImpl>(base.storage, offset, shape, strides, base.dtype);
  impl->is_view = true;
  impl->views_history = base.views_history || x.requires_grad();
  impl->is_detached = base.is_detached;
  impl->view_version = base.storage->version();
  impl->is_inference |= base.is_inference;
  return Tensor(std::move(impl));
}

namespace {

using detail::make_view;

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
    WICK_CHECK(checked_numel("reshape", shape) == x.numel(), "reshape: sizes do not fit: got ",
               shape, " for a tensor of shape ", x.shape());
    const auto strides = reshaped_strides(x.shape(), x.strides(), shape);
    WICK_CHECK(strides, "reshape: a view needs a copy first: got shape ", x.shape(),
               " with strides ", x.strides(), ", expected one that ", shape, " can walk");
    return make_view(x, 0, shape, *strides);
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    return {dy.reshape(saved.input(0).shape)};
  }
};

// `axes` counted from the front. Error unless they are the axes of x, each once.
Shape checked_order(const Shape& axes, const Tensor& x) {
  Shape order = axes;
  bool seen[kMaxRank] = {};
  bool valid = axes.rank() == x.rank();
  for (int i = 0; valid && i < x.rank(); ++i) {
    const int axis = wrap_axis("permute", axes[i], x.rank());
    valid = !seen[axis];
    seen[axis] = true;
    order[i] = axis;
  }
  WICK_CHECK(valid, "permute: wrong axes: got ", axes, ", expected each of the ", x.rank(),
             " axes of shape ", x.shape(), " once");
  return order;
}

struct Permute {
  static constexpr OpInfo info{.name = "permute", .view = true};
  Shape axes;
  static constexpr auto fields = std::tuple{field("axes", &Permute::axes)};

  Tensor forward(Saved&, const Tensor& x) const {
    const Shape order = checked_order(axes, x);
    Shape shape = order;
    Strides strides = order;
    for (int i = 0; i < order.rank(); ++i) {
      shape[i] = x.shape()[static_cast<int>(order[i])];
      strides[i] = x.strides()[static_cast<int>(order[i])];
    }
    return make_view(x, 0, shape, strides);
  }
  Gradients backward(const Saved&, const Tensor& dy) const {
    Shape inverse = axes;
    for (int i = 0; i < axes.rank(); ++i) inverse[static_cast<int>(axes[i])] = i;
    return {dy.permute(inverse)};
  }
};

// `wanted` with its -1 worked out. Error unless x expands to it.
Shape checked_expansion(const Tensor& x, const Shape& wanted) {
  const int added = wanted.rank() - x.rank();
  Shape resolved = wanted;
  bool fits = added >= 0;
  for (int i = 0; fits && i < wanted.rank(); ++i) {
    const int64_t size = i < added ? 1 : x.shape()[i - added];
    if (wanted[i] == -1 && i >= added) resolved[i] = size;
    fits = resolved[i] == size || (size == 1 && resolved[i] >= 0);
  }
  WICK_CHECK(fits, "expand: sizes do not fit: got ", wanted, " for a tensor of shape ", x.shape(),
             ", expected its own where they are not 1");
  checked_numel("expand", resolved);
  return resolved;
}

struct Expand {
  static constexpr OpInfo info{.name = "expand", .view = true};
  Shape shape;
  static constexpr auto fields = std::tuple{field("shape", &Expand::shape)};

  Tensor forward(Saved&, const Tensor& x) const {
    const Shape wider = checked_expansion(x, shape);
    Strides strides = Strides::filled(wider.rank(), 0);
    const int added = wider.rank() - x.rank();
    for (int i = 0; i < x.rank(); ++i) {
      if (x.shape()[i] == wider[added + i]) strides[added + i] = x.strides()[i];
    }
    return make_view(x, 0, wider, strides);
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    return {sum_to(dy, saved.input(0).shape)};
  }
};

// `wanted` with its -1 worked out: the sizes that the elements of `from` take on.
Shape resolve(const char* op, const Shape& wanted, const Shape& from) {
  Shape result = wanted;
  int unknown = -1;
  for (int i = 0; i < wanted.rank(); ++i) {
    WICK_CHECK(wanted[i] >= -1 && !(wanted[i] == -1 && unknown >= 0), op, ": bad sizes: got ",
               wanted, ", expected sizes of 0 or more, one of them -1 at most");
    if (wanted[i] != -1) continue;
    unknown = i;
    result[i] = 1;
  }
  const int64_t known = checked_numel(op, result);
  if (unknown >= 0 && known > 0) result[unknown] = from.numel() / known;
  WICK_CHECK((unknown < 0 || known > 0) && result.numel() == from.numel(), op,
             ": sizes do not fit: got ", wanted, " for a tensor of shape ", from, " with ",
             from.numel(), " elements");
  return result;
}

}  // namespace

// --- Shapes -------------------------------------------------------------------------------------

Tensor Tensor::reshape(const Shape& wanted) const {
  const Shape resolved = resolve("reshape", wanted, shape());
  const bool viewable = reshaped_strides(shape(), strides(), resolved).has_value();
  return apply(Reshape{resolved}, viewable ? *this : contiguous());
}

Tensor Tensor::view(const Shape& wanted) const {
  const Shape resolved = resolve("view", wanted, shape());
  WICK_CHECK(reshaped_strides(shape(), strides(), resolved), "view: needs a copy: got shape ",
             shape(), " with strides ", strides(), ", expected one that can be walked as ",
             resolved, ": use reshape");
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
  WICK_CHECK(x.rank() > 0,
             "unflatten: no axis to take apart: got shape [], expected 1 axis or more");
  const int a = wrap_axis("unflatten", axis, x.rank());
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != a) {
      shape.push_back(x.shape()[i]);
      continue;
    }
    for (const int64_t size : resolve("unflatten", sizes, {x.shape()[i]})) shape.push_back(size);
  }
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
  return apply(Expand{checked_expansion(*this, wanted)}, *this);
}

std::vector<Tensor> meshgrid(const std::vector<Tensor>& vectors) {
  Shape grid;
  for (const Tensor& x : vectors) {
    WICK_CHECK(x.rank() <= 1, "meshgrid: too many axes: got shape ", x.shape(),
               ", expected vectors");
    grid.push_back(x.numel());
  }
  std::vector<Tensor> result;
  for (size_t i = 0; i < vectors.size(); ++i) {
    Shape own = Shape::filled(grid.rank(), 1);
    own[static_cast<int>(i)] = vectors[i].numel();
    result.push_back(vectors[i].reshape(own).expand(grid));
  }
  return result;
}

// --- Pixels and channels
// --------------------------------------------------------------------------

namespace {
// How many images [C, H, W] x holds, and x's shape with others in their place.
int64_t images_of(const Tensor& x) {
  int64_t images = 1;
  for (int axis = 0; axis + 3 < x.rank(); ++axis) images *= x.size(axis);
  return images;
}
Shape with_image(const Tensor& x, const Shape& image) {
  Shape shape = x.shape();
  for (int axis = 0; axis < 3; ++axis) shape[x.rank() - 3 + axis] = image[axis];
  return shape;
}
}  // namespace

Tensor pixel_shuffle(const Tensor& x, int64_t upscale_factor) {
  const int64_t r = upscale_factor;
  WICK_CHECK(r >= 1 && x.rank("pixel_shuffle") >= 3 && x.size(-3) % (r * r) == 0,
             "pixel_shuffle: factor ", r, " does not fit: got shape ", x.shape(),
             ", expected [..., C r^2, H, W]");
  const int64_t c = x.size(-3) / (r * r), h = x.size(-2), w = x.size(-1);
  const int64_t n = images_of(x);
  const Tensor y = x.reshape({n, c, r, r, h, w}).permute({0, 1, 4, 2, 5, 3});
  return y.reshape(with_image(x, {c, h * r, w * r}));
}

Tensor pixel_unshuffle(const Tensor& x, int64_t downscale_factor) {
  const int64_t r = downscale_factor;
  WICK_CHECK(r >= 1 && x.rank("pixel_unshuffle") >= 3 && x.size(-2) % r == 0 && x.size(-1) % r == 0,
             "pixel_unshuffle: factor ", r, " does not fit: got shape ", x.shape(),
             ", expected [..., C, H r, W r]");
  const int64_t c = x.size(-3), h = x.size(-2) / r, w = x.size(-1) / r;
  const int64_t n = images_of(x);
  const Tensor y = x.reshape({n, c, h, r, w, r}).permute({0, 1, 3, 5, 2, 4});
  return y.reshape(with_image(x, {c * r * r, h, w}));
}

// --- Order of axes ------------------------------------------------------------------------------

Tensor movedim(const Tensor& x, const Shape& from, const Shape& to) {
  WICK_CHECK(from.rank() == to.rank(), "movedim: different numbers of axes: got ", from, " to ", to,
             ", expected as many");
  Shape order = Shape::filled(x.rank(), -1);  // which axis goes to each place
  bool moved[kMaxRank] = {};
  for (int i = 0; i < from.rank(); ++i) {
    const int source = wrap_axis("movedim", from[i], x.rank());
    const int place = wrap_axis("movedim", to[i], x.rank());
    WICK_CHECK(!moved[source] && order[place] < 0, "movedim: an axis comes twice: got ", from,
               " to ", to, ", expected each at most once");
    moved[source] = true;
    order[place] = source;
  }
  int next = 0;
  for (int place = 0; place < x.rank(); ++place) {
    if (order[place] >= 0) continue;
    while (moved[next]) ++next;
    order[place] = next++;
  }
  return x.permute(order);
}

Tensor Tensor::permute(const Shape& axes) const {
  return apply(Permute{checked_order(axes, *this)}, *this);
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

Tensor channel_shuffle(const Tensor& x, int64_t groups) {
  WICK_CHECK(x.rank() >= 3 && groups >= 1 && x.size(1) % groups == 0,
             "channel_shuffle: groups do not divide the channels: got shape ", x.shape(),
             ", groups ", groups, ", expected [N, C, ...]");
  return x.unflatten(1, {groups, x.size(1) / groups}).transpose(1, 2).flatten(1, 2);
}

}  // namespace wick
