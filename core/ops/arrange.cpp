#include "wick/core/ops/arrange.h"

#include <algorithm>

#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/slice.h"
#include "wick/core/ops/view.h"

namespace wick {

namespace {

// Which of `rank` axes `axes` names; an error for one named twice.
uint32_t named_axes(const char* op, const Shape& axes, int rank) {
  uint32_t named = 0;
  for (const int64_t axis : axes) {
    const uint32_t bit = 1u << wrap_axis(op, axis, rank);
    WICK_CHECK((named & bit) == 0, op, ": an axis comes twice: got ", axes,
               ", expected each at most once");
    named |= bit;
  }
  return named;
}

// At least `rank` axes: those of vectors and numbers as a row.
Tensor as_rows(const Tensor& x, int rank) {
  Tensor y = x;
  if (y.rank() == 0) y = y.reshape({1});
  if (rank >= 2 && y.rank() == 1) y = y.unsqueeze(0);
  if (rank >= 3 && y.rank() == 2) y = y.unsqueeze(2);
  return y;
}

std::vector<Tensor> all_as_rows(const std::vector<Tensor>& tensors, int rank) {
  std::vector<Tensor> rows;
  for (const Tensor& x : tensors) rows.push_back(as_rows(x, rank));
  return rows;
}

}  // namespace

Tensor squeeze(const Tensor& x, const Shape& axes) {
  const uint32_t named = named_axes("squeeze", axes, x.rank());
  Tensor y = x;
  for (int axis = x.rank() - 1; axis >= 0; --axis) {
    if ((named >> axis & 1) != 0) y = y.squeeze(axis);
  }
  return y;
}

Tensor unsqueeze(const Tensor& x, const Shape& axes) {
  const int rank = x.rank() + axes.rank();
  const uint32_t named = named_axes("unsqueeze", axes, rank);
  Tensor y = x;
  for (int axis = 0; axis < rank; ++axis) {
    if ((named >> axis & 1) != 0) y = y.unsqueeze(axis);
  }
  return y;
}

Tensor swapaxes(const Tensor& x, int64_t axis0, int64_t axis1) {
  check_defined("swapaxes", x);
  return x.transpose(axis0, axis1);
}

Tensor roll(const Tensor& x, const Shape& shifts, const Shape& axes) {
  WICK_CHECK(shifts.rank() == axes.rank() && shifts.rank() > 0,
             "roll: a shift for each axis is needed: got ", shifts, " and ", axes);
  Tensor y = x;
  for (int i = 0; i < axes.rank(); ++i) y = roll(y, shifts[i], axes[i]);
  return y;
}
Tensor roll(const Tensor& x, int64_t shift) {
  return roll(x.reshape({x.numel()}), shift, 0).reshape(x.shape());
}

Tensor rot90(const Tensor& x, int64_t times, const Shape& axes) {
  WICK_CHECK(axes.rank() == 2, "rot90: two axes are needed: got ", axes);
  named_axes("rot90", axes, x.rank());
  switch ((times % 4 + 4) % 4) {
    case 1: return flip(x, axes[1]).transpose(axes[0], axes[1]);
    case 2: return flip(x, axes);
    case 3: return flip(x, axes[0]).transpose(axes[0], axes[1]);
    default: return x.clone();
  }
}
Tensor fliplr(const Tensor& x) {
  WICK_CHECK(x.rank() >= 2, "fliplr: too few axes: got shape ", x.shape(), ", expected 2 or more");
  return flip(x, 1);
}
Tensor flipud(const Tensor& x) {
  check_defined("flipud", x);
  return flip(x, 0);
}

Tensor diag_embed(const Tensor& x, int64_t offset, int64_t axis0, int64_t axis1) {
  WICK_CHECK(x.rank() > 0, "diag_embed: no axis: got shape [], expected 1 axis or more");
  const int rank = x.rank() + 1;
  const int a = wrap_axis("diag_embed", axis0, rank), b = wrap_axis("diag_embed", axis1, rank);
  WICK_CHECK(a != b, "diag_embed: the axes are the same: got ", axis0, " and ", axis1);
  // Each element at the start of a row, which is one longer than the matrix is wide: cut into rows
  // of its width, the elements stand on the diagonal.
  const int64_t n = x.size(-1), margin = std::abs(offset), size = n + margin;
  Tensor rows = pad(x.unsqueeze(-1), {0, size});  // [..., n, size + 1]
  Shape shape = x.shape();
  shape[shape.rank() - 1] = n * (size + 1);
  rows = rows.reshape(shape);
  const int64_t before = offset >= 0 ? offset : -offset * size;
  rows = pad(rows, {before, size * size - before - n * (size + 1)});
  shape[shape.rank() - 1] = size;
  shape.push_back(size);
  return rows.reshape(shape).movedim({-2, -1}, {a, b});
}

Tensor diag(const Tensor& x, int64_t offset) {
  WICK_CHECK(x.rank() == 1 || x.rank() == 2, "diag: wrong number of axes: got shape ", x.shape(),
             ", expected a vector or a matrix");
  return x.rank() == 1 ? diag_embed(x, offset) : diagonal(x, offset).clone();
}

Tensor trace(const Tensor& x) {
  WICK_CHECK(x.rank() == 2, "trace: wrong number of axes: got shape ", x.shape(),
             ", expected a matrix");
  return sum(diagonal(x));
}

Tensor tile(const Tensor& x, const Shape& times) {
  Shape all = times;
  while (all.rank() < x.rank()) all.insert(0, 1);
  return repeat(x, all);
}

Tensor hstack(const std::vector<Tensor>& tensors) {
  check_defined("hstack", tensors);
  const std::vector<Tensor> rows = all_as_rows(tensors, 1);
  return cat(rows, !rows.empty() && rows[0].rank() == 1 ? 0 : 1);
}
Tensor vstack(const std::vector<Tensor>& tensors) {
  check_defined("vstack", tensors);
  return cat(all_as_rows(tensors, 2), 0);
}
Tensor dstack(const std::vector<Tensor>& tensors) {
  check_defined("dstack", tensors);
  return cat(all_as_rows(tensors, 3), 2);
}
Tensor column_stack(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> columns;
  for (const Tensor& x : tensors) {
    columns.push_back(x.rank() <= 1 ? x.reshape({x.numel(), 1}) : x);
  }
  return cat(columns, 1);
}

Tensor cartesian_prod(const std::vector<Tensor>& vectors) {
  check_defined("cartesian_prod", vectors);
  WICK_CHECK(!vectors.empty(), "cartesian_prod: got no vectors, expected one or more");
  if (vectors.size() == 1) return vectors[0].clone();
  std::vector<Tensor> columns;
  for (const Tensor& axis : meshgrid(vectors)) columns.push_back(axis.reshape({axis.numel()}));
  return stack(columns, 1);
}

Tensor diagflat(const Tensor& x, int64_t offset) { return diag(x.reshape({x.numel()}), offset); }

Tensor block_diag(const std::vector<Tensor>& matrices) {
  check_defined("block_diag", matrices);
  WICK_CHECK(!matrices.empty(), "block_diag: no matrices");
  const std::vector<Tensor> blocks = all_as_rows(matrices, 2);
  int64_t columns = 0, before = 0;
  for (const Tensor& block : blocks) {
    WICK_CHECK(block.rank() == 2, "block_diag: wrong number of axes: got shape ", block.shape(),
               ", expected a matrix");
    columns += block.size(1);
  }
  std::vector<Tensor> rows;
  for (const Tensor& block : blocks) {
    rows.push_back(pad(block, {before, columns - before - block.size(1)}));
    before += block.size(1);
  }
  return cat(rows, 0);
}

Tensor atleast_1d(const Tensor& x) {
  check_defined("atleast_1d", x);
  return as_rows(x, 1);
}
Tensor atleast_2d(const Tensor& x) {
  check_defined("atleast_2d", x);
  return as_rows(x, 2);
}
Tensor atleast_3d(const Tensor& x) {
  check_defined("atleast_3d", x);
  return as_rows(x, 3);
}

std::vector<Tensor> broadcast_tensors(const std::vector<Tensor>& tensors) {
  Shape shape;
  for (const Tensor& x : tensors) shape = broadcast_shapes("broadcast_tensors", shape, x.shape());
  std::vector<Tensor> all;
  for (const Tensor& x : tensors) all.push_back(x.expand(shape));
  return all;
}

Tensor sum_to_size(const Tensor& x, const Shape& shape) {
  const char* op = "sum_to_size";
  const int more = x.rank(op) - shape.rank();
  Shape axes;
  bool fits = more >= 0;
  for (int axis = 0; fits && axis < x.rank(); ++axis) {
    const int64_t wanted = axis < more ? 1 : shape[axis - more];
    fits = wanted == 1 || wanted == x.size(axis);
    if (axis < more || wanted != x.size(axis)) axes.push_back(axis);
  }
  WICK_CHECK(fits, op, ": shapes do not fit: got ", x.shape(), ", expected one that ", shape,
             " broadcasts to");
  return axes.empty() ? x : sum(x, axes, true).reshape(shape);
}

Tensor combinations(const Tensor& x, int64_t length, bool with_replacement) {
  WICK_CHECK(x.rank("combinations") == 1, "combinations: wrong number of axes: got shape ",
             x.shape(), ", expected a vector");
  WICK_CHECK(length >= 0, "combinations: length: got ", length, ", expected 0 or more");
  if (length == 0) return empty({0}, x.dtype(), x.device());
  const int64_t n = x.size(0);
  std::vector<int64_t> places, row(static_cast<size_t>(length));
  const auto first_after = [&](int64_t place) { return with_replacement ? place : place + 1; };
  // Rows in order: the last place that can go up does, and those behind it begin anew.
  for (int64_t i = 1; i < length; ++i) row[static_cast<size_t>(i)] = with_replacement ? 0 : i;
  for (bool more = with_replacement ? n > 0 : length <= n; more;) {
    places.insert(places.end(), row.begin(), row.end());
    int64_t i = length - 1;
    while (i >= 0 && row[static_cast<size_t>(i)] == (with_replacement ? n - 1 : n - length + i)) {
      --i;
    }
    more = i >= 0;
    if (!more) break;
    ++row[static_cast<size_t>(i)];
    for (++i; i < length; ++i) {
      row[static_cast<size_t>(i)] = first_after(row[static_cast<size_t>(i - 1)]);
    }
  }
  const Tensor index = tensor(places).to(x.device());
  return x.index_select(0, index).reshape({static_cast<int64_t>(places.size()) / length, length});
}

}  // namespace wick
