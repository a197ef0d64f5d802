#include "wick/core/index.h"

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
  WICK_CHECK(taken <= rank(), "index: too many indices: got ", taken, " for shape ", shape());

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

}  // namespace wick
