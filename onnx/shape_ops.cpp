#include <algorithm>

#include "wick/core/core.h"
#include "wick/onnx/detail/call.h"

// Ops that arrange elements, and what they compute shapes with.
namespace wick::onnx::detail {

namespace {

using Results = std::vector<Tensor>;

Results shape_op(Call& call) {
  const Shape shape = call[0].shape();
  const int64_t rank = shape.rank();
  const auto place = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const int64_t first = place(call.integer("start", 0)), last = place(call.integer("end", rank));
  std::vector<int64_t> sizes;
  for (int64_t i = first; i < last; ++i) sizes.push_back(shape[static_cast<int>(i)]);
  return one(tensor(sizes));
}

Results size_op(Call& call) { return one(scalar_tensor(call[0].numel(), kInt64)); }

Results constant_op(Call& call) {
  if (const auto* value = call.find<Tensor>("value")) return one(*value);
  if (const auto* value = call.find<float>("value_float")) return one(scalar_tensor(*value));
  if (const auto* value = call.find<int64_t>("value_int")) {
    return one(scalar_tensor(*value, kInt64));
  }
  if (const auto* value = call.find<std::vector<int64_t>>("value_ints")) return one(tensor(*value));
  if (const auto* value = call.find<std::vector<float>>("value_floats")) return one(tensor(*value));
  wick::detail::fail("a constant has no value of a kind that Wick reads");
}

Results constant_of_shape_op(Call& call) {
  const Shape shape(call.integers_of(0));
  checked_numel("ConstantOfShape", shape);
  const auto* value = call.find<Tensor>("value");
  if (value == nullptr) return one(zeros(shape));
  WICK_CHECK(value->numel() == 1, "attribute value is not one number: got shape ", value->shape());
  return one(value->reshape({}).expand(shape).contiguous());
}

Results range_op(Call& call) {
  const double start = call.number_of(0), limit = call.number_of(1), step = call.number_of(2);
  WICK_CHECK(step != 0 && std::abs((limit - start) / step) < 1e9,
             "a range of no known length: got ", start, " to ", limit, " by ", step);
  const Dtype dtype = call.host(0).dtype();
  if (is_floating(dtype)) return one(arange(start, limit, step, dtype));
  const auto whole = [](double x) { return static_cast<int64_t>(x); };
  return one(arange(whole(start), whole(limit), whole(step), dtype));
}

Results reshape_op(Call& call) {
  const Tensor x = call[0];
  std::vector<int64_t> sizes = call.integers_of(1);
  const bool keeps = call.integer("allowzero", 0) == 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != 0 || !keeps) continue;
    WICK_CHECK(i < static_cast<size_t>(x.rank()), "size 0 stands for axis ", i, " of ", x.shape());
    sizes[i] = x.shape()[static_cast<int>(i)];
  }
  return one(x.reshape(Shape(sizes)));
}

Results flatten_op(Call& call) {
  const Tensor x = call[0];
  const int64_t axis = call.integer("axis", 1);
  const int64_t at = axis < 0 ? axis + x.rank() : axis;
  WICK_CHECK(at >= 0 && at <= x.rank(), "attribute axis: got ", axis, " for ", x.shape());
  int64_t rows = 1, columns = 1;
  for (int i = 0; i < x.rank(); ++i) (i < at ? rows : columns) *= x.shape()[i];
  return one(x.reshape({rows, columns}));
}

Results transpose_op(Call& call) {
  Shape axes(call.integers("perm"));
  if (axes.empty()) {
    for (int i = call[0].rank(); i > 0; --i) axes.push_back(i - 1);
  }
  return one(call[0].permute(axes));
}

Results squeeze_op(Call& call) {
  const std::vector<int64_t> axes = call.list("axes", 1);
  if (axes.empty()) return one(call[0].squeeze());
  for (const int64_t axis : axes) {
    const int at = wrap_axis("Squeeze", axis, call[0].rank());
    WICK_CHECK(call[0].shape()[at] == 1, "axis ", axis, " is not of size 1: got shape ",
               call[0].shape());
  }
  return one(squeeze(call[0], Shape(axes)));
}

Results unsqueeze_op(Call& call) { return one(unsqueeze(call[0], Shape(call.list("axes", 1)))); }

Results expand_op(Call& call) {
  const Shape wanted(call.integers_of(1));
  checked_numel("Expand", wanted);
  return one(call[0].expand(broadcast_shapes("Expand", call[0].shape(), wanted)));
}

Results tile_op(Call& call) { return one(repeat(call[0], Shape(call.integers_of(1)))); }

Results concat_op(Call& call) {
  std::vector<Tensor> parts;
  for (size_t i = 0; i < call.num_inputs(); ++i) parts.push_back(call[i]);
  return one(cat(parts, call.integer("axis")));
}

Results split_op(Call& call) {
  const Tensor x = call[0];
  const int axis = wrap_axis("Split", call.integer("axis", 0), x.rank());
  std::vector<int64_t> sizes = call.list("split", 1);
  if (sizes.empty()) {
    const auto parts =
        static_cast<int64_t>(call.integer("num_outputs", static_cast<int64_t>(call.num_outputs())));
    WICK_CHECK(parts == static_cast<int64_t>(call.num_outputs()), "attribute num_outputs: got ",
               parts, ", expected ", call.num_outputs());
    const int64_t each = (x.shape()[axis] + parts - 1) / parts;
    for (int64_t left = x.shape()[axis]; sizes.size() < call.num_outputs(); left -= each) {
      sizes.push_back(std::clamp<int64_t>(left, 0, each));
    }
  }
  return split(x, sizes, axis);
}

// The axis before a slice, and the axis after its block, change places with the block's.
Results depth_to_space_op(Call& call) {
  const std::string mode = call.text("mode", "DCR");
  WICK_CHECK(mode == "CRD" || mode == "DCR", "attribute mode: got ", mode);
  const int64_t size = call.integer("blocksize");
  const Tensor x = call[0];
  WICK_CHECK(x.rank() == 4 && size > 0, "got shape ", x.shape(), " and blocksize ", size);
  if (mode == "CRD") return one(pixel_shuffle(x, size));
  const Shape s = x.shape();
  return one(x.reshape({s[0], size, size, -1, s[2], s[3]})
                 .permute({0, 3, 4, 1, 5, 2})
                 .reshape({s[0], -1, s[2] * size, s[3] * size}));
}

Results space_to_depth_op(Call& call) {
  const int64_t size = call.integer("blocksize");
  const Tensor x = call[0];
  WICK_CHECK(x.rank() == 4 && size > 0, "got shape ", x.shape(), " and blocksize ", size);
  const Shape s = x.shape();
  return one(x.reshape({s[0], s[1], s[2] / size, size, s[3] / size, size})
                 .permute({0, 3, 5, 1, 2, 4})
                 .reshape({s[0], s[1] * size * size, s[2] / size, s[3] / size}));
}

constexpr OpEntry kShapeOps[] = {
    {"Shape", 1, 1, shape_op},
    {"Size", 1, 1, size_op},
    {"Constant", 0, 0, constant_op},
    {"ConstantOfShape", 1, 1, constant_of_shape_op, 0},
    {"Range", 3, 3, range_op, 0},
    {"Reshape", 2, 2, reshape_op, 1},
    {"Flatten", 1, 1, flatten_op},
    {"Transpose", 1, 1, transpose_op},
    {"Squeeze", 1, 2, squeeze_op, 1},
    {"Unsqueeze", 1, 2, unsqueeze_op, 1},
    {"Expand", 2, 2, expand_op, 1},
    {"Tile", 2, 2, tile_op, 1},
    {"Concat", 1, kAny, concat_op},
    {"Split", 1, 2, split_op, 1},
    {"DepthToSpace", 1, 1, depth_to_space_op},
    {"SpaceToDepth", 1, 1, space_to_depth_op},
};

}  // namespace

std::span<const OpEntry> shape_ops() { return kShapeOps; }

}  // namespace wick::onnx::detail
