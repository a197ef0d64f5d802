#include <algorithm>

#include "wick/core/core.h"
#include "wick/core/ops/scatter_reduce.h"
#include "wick/onnx/detail/call.h"

// Ops whose indices are coordinates: the last axis of an index has one entry for each of the first
// axes of the tensor. And the parts of a sequence.
namespace wick::onnx::detail {

namespace {

using Results = std::vector<Tensor>;

// The coordinates of input 1 along each of the first axes of `x`, from the front where the host
// knows them.
std::vector<Tensor> coordinates(Call& call, const Tensor& x) {
  const Shape shape = call[1].shape();
  const int last = shape.rank() - 1;
  WICK_CHECK(last >= 0 && shape[last] >= 1 && shape[last] <= x.rank(),
             "input 1 has no coordinates of input 0: got shapes ", shape, " and ", x.shape());
  std::vector<Tensor> found;
  for (int64_t axis = 0; axis < shape[last]; ++axis) {
    if (!call.is_on_host(1)) {
      found.push_back(call[1].select(last, axis));
      continue;
    }
    const HostScope scope;
    const Tensor at = call.host(1).select(last, axis);
    const int64_t size = x.size(axis);
    WICK_CHECK(at.numel() == 0 || (at.min().to(kInt64).item<int64_t>() >= -size &&
                                   at.max().to(kInt64).item<int64_t>() < size),
               "a coordinate along axis ", axis, " is out of range: expected -", size, " to ",
               size - 1);
    found.push_back(where(lt(at, 0), at + size, at).to(x.device()));
  }
  return found;
}

Results gather_nd_op(Call& call) {
  call.expect("batch_dims", 0);
  const Tensor x = call[0];
  const std::vector<Tensor> at = coordinates(call, x);
  Tensor place = at[0];
  Shape rows{x.size(0)};
  for (size_t axis = 1; axis < at.size(); ++axis) {
    const int64_t size = x.size(static_cast<int64_t>(axis));
    place = place * size + at[axis];
    rows[0] *= size;
  }
  Shape shape = place.shape();
  for (int axis = static_cast<int>(at.size()); axis < x.rank(); ++axis) {
    rows.push_back(x.shape()[axis]);
    shape.push_back(x.shape()[axis]);
  }
  return one(index_select(x.reshape(rows), 0, place.reshape({place.numel()})).reshape(shape));
}

Results scatter_nd_op(Call& call) {
  const std::string reduction = call.text("reduction", "none");
  WICK_CHECK(reduction == "none" || reduction == "add", "attribute reduction: got ", reduction,
             ", expected none or add");
  const Tensor x = call[0];
  const std::vector<Tensor> at = coordinates(call, x);
  Shape wanted = at[0].shape();
  for (int axis = static_cast<int>(at.size()); axis < x.rank(); ++axis) {
    wanted.push_back(x.shape()[axis]);
  }
  WICK_CHECK(call[2].shape() == wanted, "input 2 has a wrong shape: got ", call[2].shape(),
             ", expected ", wanted);
  return one(index_put(x, at, call[2], reduction == "add"));
}

// The part at place `input 2` of input 0, split as input 1 says: what the reader makes of a
// SequenceAt of a SplitToSequence.
Results sequence_at_op(Call& call) {
  const Tensor x = call[0];
  const int axis = wrap_axis("SplitToSequence", call.integer("axis", 0), x.rank());
  const int64_t size = x.shape()[axis];
  const bool has_sizes = call.has(1) && call.host(1).rank() == 1;
  const int64_t each = !has_sizes && call.has(1) ? call.integers_of(1)[0] : 1;
  WICK_CHECK(each > 0, "the size of a part: got ", each, ", expected 1 or more");
  std::vector<int64_t> sizes = has_sizes ? call.integers_of(1) : std::vector<int64_t>();
  for (int64_t left = size; !has_sizes && left > 0; left -= each) {
    sizes.push_back(std::min(left, each));
  }
  const auto count = static_cast<int64_t>(sizes.size());
  const auto given = static_cast<int64_t>(call.number_of(2));
  const int64_t place = given < 0 ? given + count : given;
  WICK_CHECK(place >= 0 && place < count, "a place in a sequence: got ", given, " of ", count,
             " parts");
  const Tensor part = split(x, sizes, axis)[static_cast<size_t>(place)];
  const bool keeps = call.has(1) || call.integer("keepdims", 1) != 0;
  return one(keeps ? part : part.squeeze(axis));
}

constexpr OpEntry kCoordinateOps[] = {
    {"GatherND", 2, 2, gather_nd_op},
    {"ScatterND", 3, 3, scatter_nd_op},
    {"SplitToSequence", 1, 2, sequence_at_op, 1},
    {"SequenceAt", 2, 2, sequence_at_op, 1},
};

}  // namespace

std::span<const OpEntry> coordinate_ops() { return kCoordinateOps; }

}  // namespace wick::onnx::detail
