#include <algorithm>
#include <numeric>

#include "wick/core/core.h"
#include "wick/onnx/detail/writer.h"

// How ops that arrange, pick or reduce elements are written.
namespace wick::onnx::detail {

namespace {

std::vector<int64_t> listed(const Shape& shape) { return {shape.begin(), shape.end()}; }

// A view keeps the order of elements.
void reshape_writer(Emit& emit) {
  emit.finish("Reshape", {emit.in(0), emit.constant(listed(emit.result().shape))});
}
// The elements of a dense tensor as one axis, in the order of its memory.
std::string in_memory_order(Emit& emit, const graph::Value& x) {
  std::vector<int64_t> axes(static_cast<size_t>(x.shape.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  std::stable_sort(axes.begin(), axes.end(), [&](int64_t a, int64_t b) {
    return x.strides[static_cast<int>(a)] > x.strides[static_cast<int>(b)];
  });
  const std::string turned = emit.add("Transpose", {emit.in(0)}, {{"perm", axes}});
  return emit.add("Reshape", {turned, emit.constant(std::vector<int64_t>{-1})});
}

// A view of memory by offset and strides: the elements by their places.
void alias_writer(Emit& emit) {
  const graph::Value &from = emit.value(0), &to = emit.result();
  const int64_t offset = emit.integer("offset");
  const bool is_reshape = offset == 0 && from.shape.numel() == to.shape.numel() &&
                          is_contiguous(from.shape, from.strides) &&
                          is_contiguous(to.shape, to.strides);
  if (is_reshape) return reshape_writer(emit);
  WICK_CHECK(emit.is_whole(0) && is_dense(from.shape, from.strides),
             "a view of a part of memory: got strides ", to.strides, " of ", to.shape);
  std::vector<int64_t> places(static_cast<size_t>(to.shape.numel()));
  for (size_t i = 0; i < places.size(); ++i) {
    auto left = static_cast<int64_t>(i);
    places[i] = offset;
    for (int axis = to.shape.rank() - 1; axis >= 0; --axis) {
      places[i] += left % to.shape[axis] * to.strides[axis];
      left /= to.shape[axis];
    }
  }
  const std::string index = emit.constant(tensor(places, to.shape));
  emit.finish("Gather", {in_memory_order(emit, from), index});
}
void permute_writer(Emit& emit) {
  emit.finish("Transpose", {emit.in(0)}, {{"perm", emit.list("axes")}});
}
void expand_writer(Emit& emit) {
  emit.finish("Expand", {emit.in(0), emit.constant(listed(emit.result().shape))});
}

// What fills new memory.
void fill_writer(Emit& emit) {
  const graph::Value& to = emit.result();
  emit.finish("Expand", {emit.number(emit.real("value")), emit.constant(listed(to.shape))});
}
void copy_writer(Emit& emit) {
  const std::string from = emit.as(1, emit.result().dtype);
  emit.finish("Expand", {from, emit.constant(listed(emit.result().shape))});
}

void arange_writer(Emit& emit) {
  const graph::Value& to = emit.result();
  const Tensor steps = arange(to.shape.numel(), kFloat64) * emit.real("step");
  emit.finish("Identity", {emit.constant((steps + emit.real("start")).to(to.dtype))});
}

void slice_writer(Emit& emit) {
  const int64_t axis = emit.integer("axis"), start = emit.integer("start"),
                length = emit.integer("length"), step = emit.integer("step");
  const int64_t end = length == 0 ? start : start + (length - 1) * step + 1;
  const auto list = [&](int64_t x) { return emit.constant(std::vector<int64_t>{x}); };
  emit.finish("Slice", {emit.in(0), list(start), list(end), list(axis), list(step)});
}

void split_writer(Emit& emit) {
  emit.finish("Split", {emit.in(0), emit.constant(emit.list("sizes"))},
              {{"axis", emit.integer("axis")}});
}

void cat_writer(Emit& emit) {
  std::vector<std::string> inputs;
  for (size_t i = 0; i < emit.num_inputs(); ++i) inputs.push_back(emit.as_result(i));
  emit.finish("Concat", inputs, {{"axis", emit.integer("axis")}});
}

// x among other elements: with steps of 1, a margin.
void place_writer(Emit& emit) {
  const std::vector<int64_t> start = emit.list("start");
  std::vector<int64_t> pads = start;
  const Shape &from = emit.value(0).shape, &to = emit.result().shape;
  for (const int64_t step : emit.list("step")) {
    WICK_CHECK(step == 1, "a step: got ", step, ", expected 1");
  }
  for (int i = 0; i < to.rank(); ++i) {
    pads.push_back(to[i] - from[i] - start[static_cast<size_t>(i)]);
  }
  emit.finish("Pad", {emit.in(0), emit.constant(pads), emit.number(emit.real("value"))});
}

void by_index(Emit& emit) {
  emit.finish(emit.onnx(), {emit.in(0), emit.in(1)}, {{"axis", emit.integer("axis")}});
}
void triangle_writer(Emit& emit) {
  const std::string diagonal = emit.constant(scalar_tensor(emit.integer("diagonal"), kInt64));
  emit.finish("Trilu", {emit.in(0), diagonal}, {{"upper", int64_t{emit.truth("upper")}}});
}

void reduction(Emit& emit) {
  std::vector<Written> attributes{{"keepdims", int64_t{emit.truth("keepdim")}}};
  const std::vector<int64_t> axes = emit.list("axes");
  if (!axes.empty()) attributes.push_back({"axes", axes});
  emit.finish(emit.onnx(), {emit.as_result(0)}, attributes);
}
// ReduceSum alone has its axes as an input in opset 17.
void sum_writer(Emit& emit) {
  const std::vector<int64_t> axes = emit.list("axes");
  emit.finish("ReduceSum", {emit.as_result(0), axes.empty() ? "" : emit.constant(axes)},
              {{"keepdims", int64_t{emit.truth("keepdim")}}});
}
void norm_writer(Emit& emit) {
  WICK_CHECK(emit.real("ord") == 2, "ord: got ", emit.real("ord"), ", expected 2");
  reduction(emit);
}
// The mean of squared deviations, over n - correction.
void var_writer(Emit& emit) {
  const std::vector<int64_t> axes = emit.list("axes");
  std::vector<Written> all{{"keepdims", int64_t{1}}}, last;
  last.push_back({"keepdims", int64_t{emit.truth("keepdim")}});
  if (!axes.empty()) all.push_back({"axes", axes}), last.push_back({"axes", axes});
  const std::string x = emit.as_result(0);
  const std::string centred = emit.add("Sub", {x, emit.add("ReduceMean", {x}, all)});
  const std::string mean = emit.add("ReduceMean", {emit.add("Mul", {centred, centred})}, last);
  const auto count = static_cast<double>(emit.value(0).shape.numel()) /
                     static_cast<double>(emit.result().shape.numel());
  const double correction = emit.real("correction");
  emit.finish("Mul", {mean, emit.number(count / (count - correction))});
}
void arg_reduce_writer(Emit& emit) {
  emit.finish(emit.truth("largest") ? "ArgMax" : "ArgMin", {emit.in(0)},
              {{"axis", emit.integer("axis")}, {"keepdims", int64_t{1}}});
}
void along_axis(Emit& emit) {
  emit.finish(emit.onnx(), {emit.as_result(0)}, {{"axis", emit.integer("axis")}});
}
void cumsum_writer(Emit& emit) {
  emit.finish("CumSum",
              {emit.as_result(0), emit.constant(scalar_tensor(emit.integer("axis"), kInt64))},
              {{"reverse", int64_t{emit.truth("reverse")}}});
}

constexpr WriterEntry kArrangingWriters[] = {
    {"reshape", reshape_writer},
    {"alias", alias_writer},
    {"permute", permute_writer},
    {"expand", expand_writer},
    {"fill_", fill_writer},
    {"copy_", copy_writer},
    {"arange", arange_writer},
    {"slice", slice_writer},
    {"split", split_writer},
    {"cat", cat_writer},
    {"place", place_writer},
    {"pad", by_index, "Gather"},
    {"index_select", by_index, "Gather"},
    {"gather", by_index, "GatherElements"},
    {"triangle", triangle_writer},
    {"sum", sum_writer},
    {"mean", reduction, "ReduceMean"},
    {"prod", reduction, "ReduceProd"},
    {"amax", reduction, "ReduceMax"},
    {"amin", reduction, "ReduceMin"},
    {"logsumexp", reduction, "ReduceLogSumExp"},
    {"norm", norm_writer, "ReduceL2"},
    {"var", var_writer},
    {"arg_reduce", arg_reduce_writer},
    {"softmax", along_axis, "Softmax"},
    {"log_softmax", along_axis, "LogSoftmax"},
    {"cumsum", cumsum_writer},
};

}  // namespace

std::span<const WriterEntry> arranging_writers() { return kArrangingWriters; }

}  // namespace wick::onnx::detail
