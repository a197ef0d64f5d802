#include "wick/core/index.h"

#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/tensor.h"

namespace wick {

Tensor Tensor::operator[](int64_t index) const { return select(0, index); }

Tensor Tensor::operator[](std::initializer_list<Index> indices) const {
  int taken = 0;
  bool ellipsis = false;
  for (const Index& index : indices) {
    taken += index.kind() == Index::Kind::kInteger || index.kind() == Index::Kind::kSlice;
    if (index.kind() != Index::Kind::kEllipsis) continue;
    WICK_CHECK(!ellipsis, "index: at most one Ellipsis is allowed");
    ellipsis = true;
  }
  WICK_CHECK(taken <= rank(), "index: too many indices: got ", taken, " for shape ", shape(),
             ", expected at most ", rank());

  Tensor x = *this;
  int axis = 0;
  for (const Index& index : indices) {
    switch (index.kind()) {
      case Index::Kind::kInteger: x = x.select(axis, index.integer()); break;
      case Index::Kind::kSlice: {
        const Slice& s = index.slice();
        x = x.slice(axis, s.start.value_or(0), s.stop.value_or(x.size(axis)), s.step);
        ++axis;
        break;
      }
      case Index::Kind::kNone: x = x.unsqueeze(axis++); break;
      case Index::Kind::kEllipsis: axis += rank() - taken; break;
    }
  }
  return x;
}

const Tensor& IndexedTensor::operator=(Scalar value) && {
  if (index_.dtype() != kBool) return assign(full({}, value, dtype(), device()));
  Shape mask = index_.shape();
  while (mask.rank() < base_.rank()) mask.push_back(1);
  return base_.masked_fill_(index_.reshape(mask), value);
}

const Tensor& IndexedTensor::assign(const Tensor& source) const {
  const bool by_mask = index_.dtype() == kBool;
  // The indexed axes as one, and the rest as another.
  const int indexed = by_mask ? index_.rank() : 1;
  const Shape& whole = base_.shape();
  int64_t count = 1, rest = 1;
  for (int i = 0; i < whole.rank(); ++i) (i < indexed ? count : rest) *= whole[i];
  const Tensor x = base_.reshape({count, rest});
  Tensor rows = index_;
  if (by_mask) {
    rows = index_.reshape(index_.numel()).nonzero();
  } else {
    rows = index_.to(kInt64).reshape({index_.numel(), 1});
    rows = where(rows < 0, rows + count, rows);
  }
  const int64_t n = rows.size(0);
  const Tensor values = source.to(base_.dtype()).expand(shape()).reshape({n, rest});
  return base_.copy_(x.scatter(0, rows.expand({n, rest}), values).reshape(whole));
}

}  // namespace wick
