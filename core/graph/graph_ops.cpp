#include "wick/core/graph/detail/graph_ops.h"

namespace wick::graph {

Tensor Alias::forward(Saved&, const Tensor& base) const {
  const auto elements = static_cast<int64_t>(base.impl()->storage->bytes()) / size_of(base.dtype());
  WICK_CHECK(shape.rank() == strides.rank() && offset >= 0,
             "alias: shape, strides and offset do not go together: got ", shape, ", ", strides,
             " and ", offset);
  int64_t last = offset;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    WICK_CHECK(shape[axis] >= 0 && strides[axis] >= 0, "alias: a size or stride is negative: got ",
               shape, " and ", strides);
    if (shape[axis] > 0) last += (shape[axis] - 1) * strides[axis];
  }
  WICK_CHECK(shape.numel() == 0 || last < elements, "alias: it reaches beyond its memory: got ",
             last, ", expected an element below ", elements);
  return wick::detail::make_view(base, offset - base.impl()->offset, shape, strides);
}

std::vector<Tensor> Empty::forward(Saved&, std::span<const Tensor>) const {
  return {empty_strided(shape, strides, dtype, device)};
}

const OpType& alias_type() {
  static constexpr OpType type = wick::detail::make_op_type<Alias>();
  return type;
}

const OpType& empty_type() {
  static constexpr OpType type = wick::detail::make_op_type<Empty>();
  return type;
}

}  // namespace wick::graph
