#include "wick/core/sparse_rows.h"

#include <array>

#include "wick/core/apply.h"
#include "wick/core/ops/count.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/index.h"
#include "wick/core/ops/join.h"

namespace wick {

namespace {

// The rows in order, each once, and the sums of their values.
struct CoalesceRows {
  static constexpr OpInfo info{
      .name = "coalesce_rows", .differentiable = false, .is_gradient = true};
  int64_t count;  // of rows that there are
  static constexpr auto fields = std::tuple{field("count", &CoalesceRows::count)};

  std::array<Tensor, 2> forward(Saved&, const Tensor& rows, const Tensor& values) const {
    const Unique found = unique(rows);
    const Tensor none =
        zeros({found.values.numel(), values.size(1)}, values.dtype(), rows.device());
    return {found.values, index_add(none, 0, found.inverse, values)};
  }
};

Tensor with_rows(Tensor rows, Tensor values, const Shape& shape) {
  auto memory = make_ref<Storage>(nullptr, 0, rows.device(), std::function<void()>());
  auto impl =
      make_ref<TensorImpl>(std::move(memory), 0, shape, contiguous_strides(shape), values.dtype());
  impl->rows = std::make_shared<const SparseRows>(SparseRows{std::move(rows), std::move(values)});
  return Tensor(std::move(impl));
}

}  // namespace

void detail::sparse_tensor_used(const char* user, const Shape& shape) {
  const char* op = current_op();
  fail(*op != 0 ? op : user, ": a tensor is sparse: got one of shape ", shape,
       " of which only some rows are known, expected a dense one, as to_dense() makes of it");
}

Tensor sparse_tensor(const Tensor& rows, const Tensor& values, const Shape& shape) {
  WICK_CHECK(
      shape.rank() == 2 && rows.rank() == 1 && values.shape() == Shape({rows.numel(), shape[1]}),
      "sparse_tensor: shapes do not fit: got rows ", rows.shape(), " and values ", values.shape(),
      " for a table ", shape, ", expected [n] and [n, width] for [rows, width]");
  WICK_CHECK(rows.dtype() == kInt64 && is_floating(values.dtype()),
             "sparse_tensor: wrong dtypes: got rows of ", rows.dtype(), " and values of ",
             values.dtype(), ", expected int64 and a floating one");
  const std::array<Tensor, 2> unique_rows = apply(CoalesceRows{shape[0]}, rows, values);
  if (rows.device().is_cpu() && unique_rows[0].numel() > 0) {
    const int64_t first = unique_rows[0][0].item<int64_t>(),
                  last = unique_rows[0][-1].item<int64_t>();
    WICK_CHECK(first >= 0 && last < shape[0], "sparse_tensor: row out of range: got ",
               first < 0 ? first : last, ", expected one in [0, ", shape[0] - 1, "]");
  }
  return with_rows(unique_rows[0], unique_rows[1], shape);
}

const SparseRows& sparse_rows(const Tensor& x) {
  WICK_CHECK(x.is_sparse(), "sparse_rows: the tensor is dense: got one of shape ", x.shape(),
             ", expected the gradient of an embedding with sparse = true");
  return *x.impl()->rows;
}

Tensor Tensor::to_dense() const {
  if (!is_sparse()) return *this;
  const SparseRows& sparse = *impl()->rows;
  return wick::index_add(zeros(shape(), dtype(), device()), 0, sparse.rows, sparse.values);
}

Tensor gradient_elements(const Tensor& gradient) {
  return gradient.defined() && gradient.is_sparse() ? sparse_rows(gradient).values : gradient;
}

Tensor sum_of_gradients(const Tensor& a, const Tensor& b) {
  if (!a.is_sparse()) {
    if (!b.is_sparse()) return a + b;
    return index_add(a, 0, sparse_rows(b).rows, sparse_rows(b).values);
  }
  if (!b.is_sparse()) return sum_of_gradients(b, a);
  const SparseRows &x = sparse_rows(a), &y = sparse_rows(b);
  return sparse_tensor(cat({x.rows, y.rows}), cat({x.values, y.values}), a.shape());
}

void zero_gradient(const Tensor& leaf, bool set_to_none) {
  const NoGrad no_grad;
  if (set_to_none) {
    if (leaf.requires_grad() && leaf.is_leaf()) leaf.set_grad({});
    return;
  }
  const Tensor gradient = leaf.grad();
  if (!gradient.defined()) return;
  if (gradient.is_sparse()) {
    const SparseRows& sparse = sparse_rows(gradient);
    leaf.set_grad(
        with_rows(sparse.rows.slice(0, 0, 0), sparse.values.slice(0, 0, 0), gradient.shape()));
  } else {
    gradient.detach().zero_();
  }
}

}  // namespace wick
