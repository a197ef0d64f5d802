#include <algorithm>
#include <cmath>

#include "wick/core/core.h"
#include "wick/onnx/detail/call.h"

// Ops that pick elements by their place, and ops that add a margin or resize.
namespace wick::onnx::detail {

namespace {

using Results = std::vector<Tensor>;

// A negative index counts from the end. Indices that the host knows are changed; others are taken
// as they are.
Tensor counted_from_front(Call& call, size_t i, int64_t size) {
  if (!call.is_on_host(i)) return call[i];
  const HostScope scope;
  const Tensor& index = call.host(i);
  if (index.numel() == 0 || index.min().to(kInt64).item<int64_t>() >= 0) return call[i];
  return where(lt(index, 0), index + size, index).to(call[i].device());
}

Results gather_op(Call& call) {
  const Tensor x = call[0];
  WICK_CHECK(x.rank() > 0, "input 0 has no axis");
  const int axis = wrap_axis("Gather", call.integer("axis", 0), x.rank());
  if (call.is_on_host(1) && call.host(1).rank() == 0) {
    return one(x.select(axis, static_cast<int64_t>(call.number_of(1))));
  }
  const Tensor index = counted_from_front(call, 1, x.shape()[axis]);
  if (axis == 0 && x.rank() == 2 && is_floating(x.dtype())) return one(embedding(x, index));
  Shape shape;
  for (int i = 0; i < axis; ++i) shape.push_back(x.shape()[i]);
  for (const int64_t size : index.shape()) shape.push_back(size);
  for (int i = axis + 1; i < x.rank(); ++i) shape.push_back(x.shape()[i]);
  return one(index_select(x, axis, index.reshape({index.numel()})).reshape(shape));
}

Results gather_elements_op(Call& call) {
  const int axis = wrap_axis("GatherElements", call.integer("axis", 0), call[0].rank());
  return one(gather(call[0], axis, counted_from_front(call, 1, call[0].shape()[axis])));
}

// x[start:end:step] of one axis, where the step may be negative, as in Python.
Tensor sliced(const Tensor& x, int axis, int64_t start, int64_t end, int64_t step) {
  const int64_t size = x.shape()[axis];
  WICK_CHECK(step != 0 && step > INT64_MIN, "a step: got ", step);
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  const auto place = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? std::max(at, -size - 1) + size : at, low, high);
  };
  const int64_t first = place(start), last = place(end);
  if (step > 0) return x.slice(axis, first, std::max(first, last), std::min(step, size + 1));
  std::vector<int64_t> picked;
  for (int64_t i = first; i > last; i -= std::min(-step, size + 1)) picked.push_back(i);
  return index_select(x, axis, tensor(picked).to(x.device()));
}

Results slice_op(Call& call) {
  Tensor x = call[0];
  const std::vector<int64_t> starts = call.list("starts", 1), ends = call.list("ends", 2);
  std::vector<int64_t> axes = call.list("axes", 3), steps = call.list("steps", 4);
  if (axes.empty()) {
    for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  }
  if (steps.empty()) steps.assign(starts.size(), 1);
  WICK_CHECK(
      ends.size() == starts.size() && axes.size() == starts.size() && steps.size() == starts.size(),
      "starts, ends, axes and steps differ in length: got ", starts.size(), ", ", ends.size(), ", ",
      axes.size(), " and ", steps.size());
  for (size_t i = 0; i < starts.size(); ++i) {
    x = sliced(x, wrap_axis("Slice", axes[i], x.rank()), starts[i], ends[i], steps[i]);
  }
  return one(x);
}

Results trilu_op(Call& call) {
  const std::vector<int64_t> k = call.has(1) ? call.integers_of(1) : std::vector<int64_t>{0};
  WICK_CHECK(k.size() == 1, "the diagonal is not one number: got ", k.size(), " numbers");
  return one(call.integer("upper", 1) != 0 ? triu(call[0], k[0]) : tril(call[0], k[0]));
}

PadMode pad_mode(const std::string& mode) {
  if (mode == "constant") return PadMode::kConstant;
  if (mode == "reflect") return PadMode::kReflect;
  if (mode == "edge") return PadMode::kReplicate;
  WICK_CHECK(mode == "wrap", "attribute mode: got ", mode,
             ", expected constant, reflect, edge or wrap");
  return PadMode::kCircular;
}

// ONNX lists what is before each axis and then what is after. Wick goes from the last axis to the
// first that has a margin.
Results pad_op(Call& call) {
  const Tensor x = call[0];
  const std::vector<int64_t> pads = call.list("pads", 1);
  std::vector<int64_t> axes = call.has(3) ? call.integers_of(3) : std::vector<int64_t>();
  if (axes.empty()) {
    for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
  }
  WICK_CHECK(pads.size() == 2 * axes.size(), "pads: got ", pads.size(), " entries, expected ",
             2 * axes.size());
  std::vector<int64_t> before(static_cast<size_t>(x.rank())), after(before);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto at = static_cast<size_t>(wrap_axis("Pad", axes[i], x.rank()));
    before[at] = pads[i], after[at] = pads[i + axes.size()];
  }
  size_t first = 0;
  while (first < before.size() && before[first] == 0 && after[first] == 0) ++first;
  if (first == before.size()) return one(x);
  std::vector<int64_t> margins;
  for (size_t i = before.size(); i > first; --i) {
    margins.push_back(before[i - 1]);
    margins.push_back(after[i - 1]);
  }
  const double value = call.has(2) ? call.number_of(2) : 0;
  return one(pad(x, margins, value, pad_mode(call.text("mode", "constant"))));
}

// What resizing may have beside modes, and Wick's has not.
void refuse_other_filters(Call& call, int rank) {
  call.expect("antialias", 0);
  call.expect("exclude_outside", 0);
  const double slope = call.real("cubic_coeff_a", -0.75);
  WICK_CHECK(slope == -0.75 || call.text("mode", "nearest") != "cubic",
             "attribute cubic_coeff_a: got ", slope, ", expected -0.75");
  const std::string policy = call.text("keep_aspect_ratio_policy", "stretch");
  WICK_CHECK(policy == "stretch", "attribute keep_aspect_ratio_policy: got ", policy,
             ", expected stretch");
  const std::vector<int64_t> axes = call.integers("axes");
  for (size_t i = 0; i < axes.size(); ++i) {
    WICK_CHECK(wrap_axis("Resize", axes[i], rank) == static_cast<int>(i), "attribute axes: got ",
               Shape(axes), ", expected all axes in their order");
  }
}

// The form of nearest elements that takes the former of two that are equally near.
bool prefers_floor(Call& call) {
  return call.text("mode", "nearest") == "nearest" &&
         call.text("coordinate_transformation_mode", "half_pixel") == "half_pixel" &&
         call.text("nearest_mode", "round_prefer_floor") == "round_prefer_floor";
}

// Resizes the axes from 2 on so. Elements of the result are `steps` of x apart.
Tensor nearest_before(const Tensor& x, const Shape& size, const std::vector<double>& steps) {
  Tensor y = x;
  for (int i = 0; i < size.rank(); ++i) {
    const int64_t count = x.size(i + 2);
    WICK_CHECK(size[i] >= 1 && count >= 1, "sizes: got ", size, " for ", x.shape(),
               ", expected 1 or more");
    std::vector<int64_t> places;
    for (int64_t k = 0; k < size[i]; ++k) {
      const double centre = (static_cast<double>(k) + 0.5) * steps[static_cast<size_t>(i)];
      places.push_back(
          std::clamp<int64_t>(static_cast<int64_t>(std::ceil(centre - 1)), 0, count - 1));
    }
    y = y.index_select(i + 2, tensor(places).to(x.device()));
  }
  return y;
}

// How elements between elements are found, as far as Wick has the same.
Interpolation interpolation(Call& call, int rank, bool* align_corners) {
  const std::string mode = call.text("mode", "nearest");
  const std::string where = call.text("coordinate_transformation_mode", "half_pixel");
  const std::string nearest = call.text("nearest_mode", "round_prefer_floor");
  *align_corners = where == "align_corners";
  if (mode == "nearest" && where == "asymmetric" && nearest == "floor") {
    return Interpolation::kNearest;
  }
  if (mode == "nearest" && where == "half_pixel" && nearest.starts_with("round_prefer")) {
    return Interpolation::kNearestExact;
  }
  const bool is_smooth = *align_corners || where == "half_pixel" || where == "pytorch_half_pixel";
  if (mode == "linear" && is_smooth && rank >= 3 && rank <= 5) {
    constexpr Interpolation kLinear[] = {Interpolation::kLinear, Interpolation::kBilinear,
                                         Interpolation::kTrilinear};
    return kLinear[rank - 3];
  }
  if (mode == "cubic" && is_smooth && rank == 4) return Interpolation::kBicubic;
  wick::detail::fail("no such way to resize a tensor of rank ", rank, ": got mode ", mode,
                     ", coordinates ", where, " and nearest mode ", nearest);
}

Results resize_op(Call& call) {
  const Tensor x = call[0];
  WICK_CHECK(x.rank() >= 3 && x.rank() <= 5, "input 0 is no signal, image or volume: got shape ",
             x.shape());
  const auto rank = static_cast<size_t>(x.rank());
  refuse_other_filters(call, x.rank());
  bool align_corners = false;
  const Interpolation how = interpolation(call, x.rank(), &align_corners);
  if (call.has(3)) {
    const std::vector<int64_t> sizes = call.integers_of(3);
    WICK_CHECK(sizes.size() == rank && sizes[0] == x.shape()[0] && sizes[1] == x.shape()[1],
               "sizes resize more than an image: got ", Shape(sizes), " for ", x.shape());
    Shape size;
    std::vector<double> steps;
    for (size_t i = 2; i < rank; ++i) {
      size.push_back(sizes[i]);
      steps.push_back(static_cast<double>(x.shape()[static_cast<int>(i)]) /
                      static_cast<double>(sizes[i]));
    }
    if (prefers_floor(call)) return one(nearest_before(x, size, steps));
    return one(interpolate(x, size, how, align_corners));
  }
  const std::vector<double> scales = call.reals_of(2);
  WICK_CHECK(scales.size() == rank && scales[0] == 1 && scales[1] == 1,
             "scales resize more than an image: got ", scales.size(), " for ", x.shape());
  if (prefers_floor(call)) {
    Shape size;
    std::vector<double> steps;
    for (size_t i = 2; i < rank; ++i) {
      const double length = static_cast<double>(x.shape()[static_cast<int>(i)]) * scales[i];
      WICK_CHECK(length >= 1 && length < 0x1p53, "scales: got ", scales[i], " for ", x.shape(),
                 ", expected at least one element");
      size.push_back(static_cast<int64_t>(length));
      steps.push_back(1 / scales[i]);
    }
    return one(nearest_before(x, size, steps));
  }
  return one(interpolate_by(x, {scales.begin() + 2, scales.end()}, how, align_corners));
}

constexpr OpEntry kIndexOps[] = {
    {"Gather", 2, 2, gather_op},  {"GatherElements", 2, 2, gather_elements_op},
    {"Slice", 1, 5, slice_op, 1}, {"Trilu", 1, 2, trilu_op, 1},
    {"Pad", 1, 4, pad_op, 1},     {"Resize", 1, 4, resize_op, 1},
};

}  // namespace

std::span<const OpEntry> index_ops() { return kIndexOps; }

}  // namespace wick::onnx::detail
