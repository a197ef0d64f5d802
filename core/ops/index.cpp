#include "wick/core/ops/index.h"

#include <algorithm>
#include <atomic>

#include "wick/core/apply.h"
#include "wick/core/base/detail/checked.h"
#include "wick/core/base/parallel.h"
#include "wick/core/detail/op_recorder.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/detail/checked_index.h"
#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/view.h"
#include "wick/core/sparse_rows.h"
#include "wick/kernels/index.h"

namespace wick {

namespace {

// Error if an entry of a contiguous int64 tensor is outside [low, high).
void check_entries(std::string_view op, const Tensor& checked, int64_t low, int64_t high) {
  const int64_t* at = checked.data<int64_t>();
  // The sign bit is set by an index below or above the range, and neither sum can hide it.
  const auto signs = [=](int64_t i) {
    const uint64_t u = static_cast<uint64_t>(i);
    return (u - static_cast<uint64_t>(low)) | (static_cast<uint64_t>(high) - 1 - u);
  };
  const auto outside = [=](int64_t i) { return signs(i) >> 63 != 0; };
  std::atomic<bool> all_inside = true;
  parallel_for(checked.numel(), 65536, [&](int64_t begin, int64_t end) {
    uint64_t found = 0;
    for (int64_t i = begin; i < end; ++i) found |= signs(at[i]);
    if (found >> 63 != 0) all_inside = false;
  });
  WICK_CHECK(all_inside, op, ": index out of range: got ",
             *std::find_if(at, at + checked.numel(), outside), ", expected one in [", low, ", ",
             high - 1, "]");
}

// The check as an op, so that each run of a graph checks its own indices.
struct CheckIndex {
  static constexpr OpInfo info{.name = "check_index", .view = true, .differentiable = false};
  std::string op;
  int64_t low, high;
  static constexpr auto fields =
      std::tuple{field("op", &CheckIndex::op), field("low", &CheckIndex::low),
                 field("high", &CheckIndex::high)};

  Tensor forward(Saved&, const Tensor& index) const {
    check_entries(op, index, low, high);
    return detail::make_view(index, 0, index.shape(), index.strides());
  }
};

}  // namespace

Tensor checked_index(const char* op, const Tensor& index, int64_t low, int64_t high) {
  WICK_CHECK(index.dtype(op) == kInt64 || index.dtype() == kInt32, op,
             ": indices must be int64 or int32: got ", to_string(index.dtype()));
  const Tensor checked = index.to(kInt64).contiguous();
  if (!checked.device().is_cpu()) return checked;
  if (op_recorder() != nullptr) return apply(CheckIndex{op, low, high}, checked);
  check_entries(op, checked, low, high);
  return checked;
}

namespace {

// Error if a graph gives an op indices that its kernel cannot take: `skip` is taken beside those of
// [0, size).
void check_replayed(const char* op, const Tensor& index, int64_t size, int64_t skip = -1) {
  WICK_CHECK(index.dtype() == kInt64 && (skip == -1 || (skip >= 0 && skip < size)), op,
             ": wrong indices: got ", index.dtype(), " and ", skip,
             " left out, expected int64, and", " none or one in [0, ", size, ") left out");
  if (replays_op() && index.device().is_cpu() && index.numel() > 0) {
    check_entries(op, index.contiguous(), 0, size);
  }
}

// x as [outer, n, inner] around `axis`, contiguous.
Tensor around_axis(const Tensor& x, int axis) {
  Shape three{1, x.shape()[axis], 1};
  for (int i = 0; i < x.rank(); ++i) {
    if (i != axis) three[i < axis ? 0 : 2] *= x.shape()[i];
  }
  return x.contiguous().view(three);
}

// Checks the shapes of gather (no source) and scatter; rank 0 counts as one axis.
void check_along(const char* op, const Shape& shape, int axis, const Tensor& index,
                 const Tensor& source) {
  bool fits = index.rank(op) == shape.rank();
  for (int i = 0; fits && i < shape.rank(); ++i) {
    fits = i == axis || index.shape()[i] <= shape[i];
  }
  WICK_CHECK(fits || index.numel() == 0, op, ": index does not fit: got index ", index.shape(),
             " for a tensor of shape ", shape, ", expected as many axes and, but for axis ", axis,
             ", no larger sizes");
  if (!source.defined()) return;
  fits = source.rank() == index.rank();
  for (int i = 0; fits && i < index.rank(); ++i) fits = index.shape()[i] <= source.shape()[i];
  WICK_CHECK(fits, op, ": index does not fit: got index ", index.shape(), " for a source of shape ",
             source.shape());
}

Shape with_size(Shape shape, int axis, int64_t size) {
  shape[axis] = size;
  return shape;
}

// A copy of `base`, or zeros of `shape` where there is none, in the type that sums are kept in.
Tensor to_add_to(const Tensor& base, const Shape& shape, const Tensor& like) {
  const Dtype dtype = is_reduced(like.dtype()) ? kFloat32 : like.dtype();
  if (!base.defined()) return zeros(shape, dtype, like.device());
  Tensor y = empty(shape, dtype, like.device());
  y.copy_(base);
  return y;
}

// The index `skip` selects zeros.
struct IndexSelect {
  static constexpr OpInfo info{.name = "index_select"};
  int64_t axis;
  int64_t skip = -1;
  int64_t padding = -1;  // this index gets no gradient
  bool sparse = false;   // the gradient is a sparse tensor
  static constexpr auto fields =
      std::tuple{field("axis", &IndexSelect::axis), field("skip", &IndexSelect::skip),
                 field("padding", &IndexSelect::padding), field("sparse", &IndexSelect::sparse)};

  Tensor forward(Saved& saved, const Tensor& x, const Tensor& index) const {
    saved.save(index);
    const int a = wrap_axis(info.name, axis, x.rank());
    check_replayed(info.name, index, x.size(a), skip);
    Tensor y = empty(with_size(x.shape(), a, index.numel()), x.dtype(), x.device());
    WICK_DISPATCH(x.device(),
                  index_select(around_axis(x, a).view_for_kernel(), index.view_for_kernel(),
                               around_axis(y, a).view_for_kernel(), skip));
    return y;
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const;
};

// x may be undefined, which stands for zeros. For the index `skip` nothing is added.
struct IndexAdd {
  static constexpr OpInfo info{.name = "index_add"};
  int64_t axis;
  Shape shape;
  int64_t skip = -1;
  static constexpr auto fields =
      std::tuple{field("axis", &IndexAdd::axis), field("shape", &IndexAdd::shape),
                 field("skip", &IndexAdd::skip)};

  Tensor forward(Saved& saved, const Tensor& x, const Tensor& index, const Tensor& source) const {
    saved.save(index);
    const int a = wrap_axis(info.name, axis, shape.rank());
    WICK_CHECK(source.shape() == with_size(shape, a, index.numel()), info.name,
               ": source has the wrong shape: got ", source.shape(), ", expected ",
               with_size(shape, a, index.numel()));
    check_replayed(info.name, index, shape[a], skip);
    const Tensor y = to_add_to(x, shape, source);
    const Tensor from = around_axis(source.to(y.dtype()), a);
    WICK_DISPATCH(y.device(), index_add(around_axis(y, a).view_for_kernel(),
                                        index.view_for_kernel(), from.view_for_kernel(), skip));
    return y.to(source.dtype());
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    return {dy, {}, apply(IndexSelect{axis, skip, skip}, dy, saved[0])};
  }
};

Gradients IndexSelect::backward(const Saved& saved, const Tensor& dy) const {
  if (sparse) {
    Tensor rows = saved[0], values = dy;
    if (padding >= 0) {
      const Tensor kept = nonzero(rows != padding).reshape({-1});
      rows = index_select(rows, 0, kept);
      values = index_select(dy, 0, kept);
    }
    return {sparse_tensor(rows, values, saved.input(0).shape), {}};
  }
  return {apply(IndexAdd{axis, saved.input(0).shape, padding}, Tensor(), saved[0], dy), {}};
}

struct Gather {
  static constexpr OpInfo info{.name = "gather"};
  int64_t axis;
  static constexpr auto fields = std::tuple{field("axis", &Gather::axis)};

  Tensor forward(Saved& saved, const Tensor& x, const Tensor& index) const {
    saved.save(index);
    const int a = wrap_axis(info.name, axis, x.rank());
    check_along(info.name, x.shape(), a, index, {});
    check_replayed(info.name, index, x.size(a));
    Tensor y = empty(index.shape(), x.dtype(), x.device());
    WICK_DISPATCH(x.device(),
                  gather(x.view_for_kernel(), index.view_for_kernel(), y.view_for_kernel(), a));
    return y;
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const;
};

// x may be undefined, which stands for zeros.
struct ScatterAdd {
  static constexpr OpInfo info{.name = "scatter_add",
                               .autocast = {Autocast::kPromote, Autocast::kAsIs}};
  int64_t axis;
  Shape shape;
  static constexpr auto fields =
      std::tuple{field("axis", &ScatterAdd::axis), field("shape", &ScatterAdd::shape)};

  Tensor forward(Saved& saved, const Tensor& x, const Tensor& index, const Tensor& source) const {
    saved.save(index);
    const int a = wrap_axis(info.name, axis, shape.rank());
    check_along(info.name, shape, a, index, source);
    check_replayed(info.name, index, shape[a]);
    const Tensor y = to_add_to(x, shape, source);
    WICK_DISPATCH(y.device(), scatter_add(y.view_for_kernel(), index.view_for_kernel(),
                                          source.to(y.dtype()).view_for_kernel(), a));
    return y.to(source.dtype());
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    return {dy, {}, apply(Gather{axis}, dy, saved[0])};
  }
};

Gradients Gather::backward(const Saved& saved, const Tensor& dy) const {
  return {apply(ScatterAdd{axis, saved.input(0).shape}, Tensor(), saved[0], dy), {}};
}

struct Scatter {
  static constexpr OpInfo info{.name = "scatter"};
  int64_t axis;
  static constexpr auto fields = std::tuple{field("axis", &Scatter::axis)};

  Tensor forward(Saved& saved, const Tensor& x, const Tensor& index, const Tensor& source) const {
    saved.save(index);
    const int a = wrap_axis(info.name, axis, x.rank());
    check_along(info.name, x.shape(), a, index, source);
    check_replayed(info.name, index, x.size(a));
    const Tensor y = x.clone(MemoryFormat::kContiguous);
    WICK_DISPATCH(x.device(), scatter(y.view_for_kernel(), index.view_for_kernel(),
                                      source.view_for_kernel(), a));
    return y;
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    const Tensor index = saved[0];
    const Tensor none = zeros(index.shape(), dy.dtype(), dy.device());
    return {apply(*this, dy, index, none), {}, apply(Gather{axis}, dy, index)};
  }
};

struct Nonzero {
  static constexpr OpInfo info{.name = "nonzero", .differentiable = false, .shape_from_data = true};

  Tensor forward(Saved&, const Tensor& x) const {
    const Tensor mask = x.to(kBool).contiguous();
    const int64_t chunks = (x.numel() + kNonzeroChunk - 1) / kNonzeroChunk;
    const Tensor starts = empty({chunks + 1}, kInt64, x.device());
    WICK_DISPATCH(x.device(), count_nonzero(mask.view_for_kernel(), starts.view_for_kernel()));
    const int64_t count = starts.select(0, chunks).item<int64_t>();
    Tensor y = empty({count, x.rank()}, kInt64, x.device());
    WICK_DISPATCH(x.device(),
                  nonzero(mask.view_for_kernel(), starts.view_for_kernel(), y.view_for_kernel()));
    return y;
  }
};

Tensor scatter_with(const char* op, const Tensor& x, int64_t axis, const Tensor& index,
                    const Tensor& source, bool add) {
  if (x.rank(op) == 0 && index.rank(op) == 0 && source.rank(op) == 0) {
    const Tensor one =
        scatter_with(op, x.reshape({1}), axis, index.reshape({1}), source.reshape({1}), add);
    return one.reshape({});
  }
  const int a = wrap_axis(op, axis, x.rank());
  check_along(op, x.shape(), a, index, source);
  WICK_CHECK(source.dtype() == x.dtype(), op, ": dtypes differ: got ", to_string(x.dtype()),
             " and ", to_string(source.dtype()));
  if (index.numel() == 0) return x.clone();
  const Tensor checked = checked_index(op, index, 0, x.shape()[a]);
  Tensor part = source;
  for (int i = 0; i < x.rank(); ++i) {
    if (index.shape()[i] < part.shape()[i]) part = part.narrow(i, 0, index.shape()[i]);
  }
  if (add) return apply(ScatterAdd{a, x.shape()}, x, checked, part);
  return apply(Scatter{a}, x, checked, part);
}

}  // namespace

Tensor index_select(const Tensor& x, int64_t axis, const Tensor& index) {
  WICK_CHECK(index.rank() <= 1, "index_select: index needs one axis: got shape ", index.shape());
  if (x.rank() == 0) return index_select(x.reshape({1}), axis, index).reshape({});
  const int a = wrap_axis("index_select", axis, x.rank());
  return apply(IndexSelect{a}, x,
               checked_index("index_select", index, 0, x.shape()[a]).reshape({-1}));
}

Tensor index_add(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source) {
  WICK_CHECK(x.rank() > 0 && index.rank() <= 1,
             "index_add: index needs one axis, x at least one: ", "got shapes ", index.shape(),
             " and ", x.shape());
  const int a = wrap_axis("index_add", axis, x.rank());
  const Shape expected = with_size(x.shape(), a, index.numel());
  WICK_CHECK(source.shape() == expected, "index_add: source has the wrong shape: got ",
             source.shape(), ", expected ", expected);
  WICK_CHECK(source.dtype() == x.dtype(), "index_add: dtypes differ: got ", to_string(x.dtype()),
             " and ", to_string(source.dtype()));
  const Tensor checked = checked_index("index_add", index, 0, x.shape()[a]).reshape({-1});
  return apply(IndexAdd{a, x.shape()}, x, checked, source);
}

Tensor gather(const Tensor& x, int64_t axis, const Tensor& index) {
  if (x.rank() <= 1 && index.rank() <= 1 && x.rank() * index.rank() == 0) {
    return gather(x.reshape({-1}), axis, index.reshape({-1})).reshape(index.shape());
  }
  const int a = wrap_axis("gather", axis, x.rank());
  check_along("gather", x.shape("gather"), a, index, {});
  return apply(Gather{a}, x,
               checked_index("gather", index, 0, index.numel() == 0 ? 1 : x.shape()[a]));
}

Tensor scatter(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source) {
  check_defined("scatter", x, index, source);
  return scatter_with("scatter", x, axis, index, source, false);
}
Tensor scatter_add(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source) {
  check_defined("scatter_add", x, index, source);
  WICK_CHECK(x.dtype() != kBool, "scatter_add: bool tensors cannot be added");
  return scatter_with("scatter_add", x, axis, index, source, true);
}

Tensor take_along_axis(const Tensor& x, const Tensor& index, int64_t axis) {
  WICK_CHECK(index.rank() == x.rank(), "take_along_axis: wrong number of axes: got index ",
             index.shape(), " for a tensor of shape ", x.shape(), ", expected as many");
  const int a = wrap_axis("take_along_axis", axis, x.rank());
  const int64_t size = x.rank() == 0 ? 1 : x.shape()[a];
  const Tensor from = where(lt(index, 0), index + size, index);
  if (x.rank() == 0) return gather(x, 0, from);
  const Shape others = broadcast_shapes("take_along_axis", with_size(x.shape(), a, 1),
                                        with_size(index.shape(), a, 1));
  return gather(x.expand(with_size(others, a, size)), a,
                from.expand(with_size(others, a, index.shape()[a])));
}

Tensor embedding(const Tensor& weight, const Tensor& index, std::optional<int64_t> padding_idx,
                 bool sparse) {
  WICK_CHECK(weight.rank() == 2, "embedding: weight needs 2 axes: got shape ", weight.shape());
  const int64_t rows = weight.shape()[0];
  int64_t padding = -1;
  if (padding_idx) {
    WICK_CHECK(*padding_idx >= -rows && *padding_idx < rows,
               "embedding: padding_idx out of range: got ", *padding_idx, ", expected one in [",
               -rows, ", ", rows - 1, "]");
    padding = *padding_idx < 0 ? *padding_idx + rows : *padding_idx;
  }
  Shape shape = index.shape();
  shape.push_back(weight.shape()[1]);
  const Tensor flat = checked_index("embedding", index, 0, rows).reshape({index.numel()});
  return apply(IndexSelect{0, -1, padding, sparse}, weight, flat).reshape(shape);
}

Tensor nonzero(const Tensor& x) { return apply(Nonzero{}, x); }

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  WICK_CHECK(mask.dtype() == kBool, "masked_select: mask must be bool: got ",
             to_string(mask.dtype()));
  const Shape shape = broadcast_shapes("masked_select", x.shape(), mask.shape());
  const Tensor where = nonzero(mask.expand(shape).reshape({-1})).reshape({-1});
  return apply(IndexSelect{0}, x.expand(shape).reshape({-1}), where);
}

Tensor one_hot(const Tensor& index, int64_t classes) {
  WICK_CHECK(
      classes >= 0 || index.numel() > 0,
      "one_hot: the number of classes is unknown: got no indices and no number, expected either");
  const int64_t count =
      classes >= 0 ? classes : checked_add("one_hot", index.amax().item<int64_t>(), 1);
  const Tensor at = checked_index("one_hot", index, 0, count).unsqueeze(-1);
  Shape shape = index.shape();
  shape.push_back(count);
  return scatter(zeros(shape, kInt64, index.device()), -1, at,
                 ones(at.shape(), kInt64, index.device()));
}

IndexedTensor Tensor::operator[](const Tensor& index) const {
  const bool by_mask = index.dtype() == kBool;
  const int used = by_mask ? index.rank() : 1;
  bool fits = used <= rank();
  for (int i = 0; by_mask && fits && i < used; ++i) fits = index.shape()[i] == shape()[i];
  WICK_CHECK(fits, "index: the indices do not fit: got ", index.dtype(), " ", index.shape(),
             " for a tensor of shape ", shape(),
             by_mask ? ", expected its first axes" : ", expected an axis to index");
  Shape rows, result;
  if (by_mask) {
    rows.push_back(index.numel());
  } else {
    rows.push_back(shape()[0]);
    result = index.shape();
  }
  for (int i = used; i < rank(); ++i) {
    rows.push_back(shape()[i]);
    if (!by_mask) result.push_back(shape()[i]);
  }
  if (by_mask) {
    const Tensor where = wick::nonzero(index.reshape(index.numel())).reshape({-1});
    return {apply(IndexSelect{0}, reshape(rows), where), *this, index};
  }
  const int64_t n = shape()[0];
  Tensor at = checked_index("index", index, -n, n).reshape({index.numel()});
  at = where(at < 0, at + n, at);
  return {apply(IndexSelect{0}, *this, at).reshape(result), *this, index};
}

}  // namespace wick
