// Views, shapes and joined tensors.
#include "wick/core/ops/arrange.h"
#include "wick/core/ops/pieces.h"
#include "wick/core/ops/slice.h"
#include "wick/core/ops/unfold.h"
#include "wick/core/ops/view.h"
#include "wick/tests/golden/opinfo.h"

namespace wick::golden {
namespace {

Tensor copied(const Tensor& x, const std::optional<Argument>&) { return x.clone(); }
Tensor like(const Tensor& x, const Tensor& other) { return x.reshape(other.shape()); }
Tensor adjoint(const Tensor& x) { return x.transpose(-2, -1); }

const Spelling kReshape = call(&Tensor::reshape, "input shape");
const Spelling kExpand = call(&Tensor::expand, "input size");
const Spelling kPermute = call(&Tensor::permute, "input dims");
const Spelling kDiagonal = call(&Tensor::diagonal, "input offset=0 dim1=0 dim2=1");
const Spelling kTranspose = call(&Tensor::transpose, "input dim0 dim1");
const Spelling kUnsqueeze = call(&Tensor::unsqueeze, "input dim");
const Spelling kUnbind = call(&Tensor::unbind, "input dim=0");
const Spelling kSqueeze = call(&Tensor::squeeze, "input dim=null");
const Spelling kSqueezeAxes = call<Tensor(const Tensor&, const Shape&)>(squeeze, "input dim");
const Spelling kTranspose2d = call(&Tensor::t, "input");
const Spelling kChunk = call(&Tensor::chunk, "input chunks dim=0");
const Spelling kSplitSize =
    call(static_cast<Tensors (Tensor::*)(int64_t, int64_t) const>(&Tensor::split),
         "input split_size dim=0");
const Spelling kSplitSizes = call(
    static_cast<Tensors (Tensor::*)(const std::vector<int64_t>&, int64_t) const>(&Tensor::split),
    "input split_size dim=0");
const Spelling kUnfold =
    call<Tensor(const Tensor&, int64_t, int64_t, int64_t)>(unfold, "input dimension size step");
const Spelling kNarrow = call(&Tensor::narrow, "input dim start length");
const Spelling kNarrowFrom = call(
    +[](const Tensor& x, int64_t axis, const Tensor& start, int64_t length) {
      return x.narrow(axis, start.item<int64_t>(), length);
    },
    "input dim start length");

const Opinfo views({
    {"T", {call(adjoint, "input"), kTranspose2d}},
    {"H", {call(adjoint, "input"), kTranspose2d}},
    {"mT", {call(adjoint, "input")}},
    {"mH", {call(adjoint, "input")}},
    {"t", {kTranspose2d}},
    {"t_copy", {kTranspose2d}},
    {"alias_copy",
     {call(
         +[](const Tensor& x) { return x.clone(); }, "input")}},
    {"broadcast_to", {kExpand}},
    {"chunk", {kChunk}},
    {"unsafe_chunk", {kChunk}},
    {"diagonal", {kDiagonal}},
    {"diagonal_copy", {kDiagonal}},
    {"expand", {kExpand}},
    {"expand_copy", {kExpand}},
    {"expand_as",
     {call(
         +[](const Tensor& x, const Tensor& other) { return x.expand(other.shape()); },
         "input other")}},
    {"flatten", {call(&Tensor::flatten, "input start_dim=0 end_dim=-1")}},
    {"movedim", {call(movedim, "input source destination")}},
    {"narrow", {kNarrow, kNarrowFrom}},
    {"narrow_copy", {kNarrow}},
    {"permute", {kPermute}},
    {"permute_copy", {kPermute}},
    {"ravel",
     {call(
         +[](const Tensor& x) { return x.reshape({-1}); }, "input")}},
    {"reshape", {kReshape}},
    {"reshape_as", {call(like, "input other")}},
    {"view", {call(&Tensor::view, "input shape")}},
    {"view_as", {call(like, "input other")}},
    {"view_copy", {call(&Tensor::view, "input shape")}},
    {"select", {call(&Tensor::select, "input dim index")}},
    {"slice",
     {call(
         +[](const Tensor& x, int64_t axis, std::optional<int64_t> start,
             std::optional<int64_t> stop, int64_t step) {
           return x.slice(axis, start.value_or(0), stop.value_or(INT64_MAX), step);
         },
         "input dim=0 start=null end=null step=1")}},
    {"split", {kSplitSize, kSplitSizes}},
    {"unsafe_split", {kSplitSize}},
    {"split_with_sizes", {kSplitSizes}},
    {"split_with_sizes_copy", {kSplitSizes}},
    {"squeeze", {kSqueeze, kSqueezeAxes}},
    {"squeeze_copy", {kSqueeze, kSqueezeAxes}},
    {"transpose", {kTranspose}},
    {"transpose_copy", {kTranspose}},
    {"unbind", {kUnbind}},
    {"unbind_copy", {kUnbind}},
    {"unflatten", {call(unflatten, "input dim sizes")}},
    {"unfold", {kUnfold}},
    {"unfold_copy", {kUnfold}},
    {"unsqueeze", {kUnsqueeze}},
    {"unsqueeze_copy", {kUnsqueeze}},
    {"nn.functional.pixel_shuffle", {call(pixel_shuffle, "input upscale_factor")}},
    {"nn.functional.pixel_unshuffle", {call(pixel_unshuffle, "input downscale_factor")}},
    {"nn.functional.channel_shuffle", {call(channel_shuffle, "input groups")}},
});

using ByNumber = Tensors(const Tensor&, int64_t);
using ByStarts = Tensors(const Tensor&, const std::vector<int64_t>&);

const Opinfo in_pieces({
    {"tensor_split",
     {call<Tensors(const Tensor&, int64_t, int64_t)>(tensor_split, "input sections dim=0"),
      call<Tensors(const Tensor&, const std::vector<int64_t>&, int64_t)>(tensor_split,
                                                                         "input indices dim=0")}},
    {"hsplit", {call<ByNumber>(hsplit, "input sections"), call<ByStarts>(hsplit, "input indices")}},
    {"vsplit", {call<ByNumber>(vsplit, "input sections"), call<ByStarts>(vsplit, "input indices")}},
    {"dsplit", {call<ByNumber>(dsplit, "input sections"), call<ByStarts>(dsplit, "input indices")}},
    {"slice_scatter",
     {call(
         +[](const Tensor& x, const Tensor& source, int64_t axis, std::optional<int64_t> start,
             std::optional<int64_t> stop, int64_t step) {
           return slice_scatter(x, source, axis, start.value_or(0), stop.value_or(INT64_MAX), step);
         },
         "input src dim=0 start=null end=null step=1")}},
    {"select_scatter", {call(select_scatter, "input src dim index")}},
    {"diagonal_scatter", {call(diagonal_scatter, "input src offset=0 dim1=0 dim2=1")}},
});

// What takes one tensor or a list of them.
std::vector<Spelling> of_each(Unary* function) {
  return {call(function, "input"), {"tensors", [function](const std::vector<Argument>& a) {
                                      Tensors all;
                                      for (const Tensor& x : read<Tensors>(a[0]))
                                        all.push_back(function(x));
                                      return all;
                                    }}};
}

const Opinfo arranged({
    {"atleast_1d", of_each(atleast_1d)},
    {"atleast_2d", of_each(atleast_2d)},
    {"atleast_3d", of_each(atleast_3d)},
    {"block_diag", {call(block_diag, "tensors...")}},
    {"broadcast_tensors", {call(broadcast_tensors, "tensors...")}},
    {"broadcast_shapes",
     {call(
         +[](const std::vector<Shape>& shapes) {
           Shape all;
           for (const Shape& shape : shapes) all = broadcast_shapes("shapes", all, shape);
           return all;
         },
         "shapes...")}},
    {"cartesian_prod", {call(cartesian_prod, "tensors...")}},
    {"cat", {call(cat, "tensors dim=0")}},
    {"column_stack", {call(column_stack, "tensors")}},
    {"combinations", {call(combinations, "input r=2 with_replacement=false")}},
    {"diag", {call(diag, "input diagonal=0")}},
    {"diag_embed", {call(diag_embed, "input offset=0 dim1=-2 dim2=-1")}},
    {"diagflat", {call(diagflat, "input offset=0")}},
    {"dstack", {call(dstack, "tensors")}},
    {"flip", {call(flip, "input dims")}},
    {"fliplr", {call(fliplr, "input")}},
    {"flipud", {call(flipud, "input")}},
    {"hstack", {call(hstack, "tensors")}},
    {"meshgrid", {call(meshgrid, "tensors !indexing=\"ij\""), call(meshgrid, "tensors...")}},
    {"repeat",
     {call(static_cast<Tensor (*)(const Tensor&, const Shape&)>(repeat), "input repeats")}},
    {"repeat_interleave",
     {call<Tensor(const Tensor&, int64_t, std::optional<int64_t>)>(repeat_interleave,
                                                                   "input repeats dim=null"),
      call<Tensor(const Tensor&, const Tensor&, std::optional<int64_t>)>(
          repeat_interleave, "input repeats dim=null !output_size=null")}},
    {"roll",
     {call<Tensor(const Tensor&, int64_t)>(roll, "input shifts"),
      call<Tensor(const Tensor&, const Shape&, const Shape&)>(roll, "input shifts dims")}},
    {"rot90", {call(rot90, "input k=1 dims=[0,1]")}},
    {"item",
     {call(
         +[](const Tensor& x) { return scalar_tensor(x.item(), kFloat64); }, "input")}},
    {"sum_to_size",
     {call(sum_to_size, "input size"),
      call(
          +[](const Tensor& x, const std::vector<int64_t>& size) { return sum_to_size(x, size); },
          "input size...")}},
    {"stack", {call(stack, "tensors dim=0")}},
    {"tile", {call(tile, "input dims")}},
    {"trace", {call(trace, "input")}},
    {"tril", {call<Tensor(const Tensor&, int64_t)>(tril, "input diagonal=0")}},
    {"triu", {call<Tensor(const Tensor&, int64_t)>(triu, "input diagonal=0")}},
    {"vstack", {call(vstack, "tensors")}},
    {"constant_pad_nd",
     {call(
         +[](const Tensor& x, const std::vector<int64_t>& pads, double value) {
           return pad(x, pads, value);
         },
         "input pad value=0")}},
    {"nn.functional.pad",
     {call(
         +[](const Tensor& x, const std::vector<int64_t>& pads, PadMode mode,
             std::optional<double> value) { return pad(x, pads, value.value_or(0), mode); },
         "input pad mode=\"constant\" value=null")}},
});

// The format that memory is laid out in changes no result.
constexpr const char* kFormat = "input memory_format=null";

const Opinfo conversions({
    {"clone", {call(copied, kFormat)}},
    {"contiguous", {call(copied, kFormat)}},
    {"bfloat16",
     {call(
         +[](const Tensor& x, const std::optional<Argument>&) { return x.to(kBFloat16); },
         kFormat)}},
    {"bool",
     {call(
         +[](const Tensor& x, const std::optional<Argument>&) { return x.to(kBool); }, kFormat)}},
    {"byte",
     {call(
         +[](const Tensor& x, const std::optional<Argument>&) { return x.to(kUint8); }, kFormat)}},
    {"double",
     {call(
         +[](const Tensor& x, const std::optional<Argument>&) { return x.to(kFloat64); },
         kFormat)}},
    {"float",
     {call(
         +[](const Tensor& x, const std::optional<Argument>&) { return x.to(kFloat32); },
         kFormat)}},
    {"half",
     {call(
         +[](const Tensor& x, const std::optional<Argument>&) { return x.to(kFloat16); },
         kFormat)}},
    {"int",
     {call(
         +[](const Tensor& x, const std::optional<Argument>&) { return x.to(kInt32); }, kFormat)}},
    {"long",
     {call(
         +[](const Tensor& x, const std::optional<Argument>&) { return x.to(kInt64); }, kFormat)}},
    {"to",
     {call(
          +[](const Tensor& x, const std::string&, Dtype dtype, bool, bool,
              const std::optional<Argument>&) { return x.to(dtype); },
          "input device dtype non_blocking=false copy=false memory_format=null"),
      call(
          +[](const Tensor& x, Dtype dtype, bool, bool, const std::optional<Argument>&) {
            return x.to(dtype);
          },
          "input dtype non_blocking=false copy=false memory_format=null"),
      call(
          +[](const Tensor& x, const Tensor& other, bool, bool, const std::optional<Argument>&) {
            return x.to(other.dtype());
          },
          "input other non_blocking=false copy=false memory_format=null")}},
});

}  // namespace
}  // namespace wick::golden
