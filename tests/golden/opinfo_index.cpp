// Reading and writing by index, and products of tensors.
#include "wick/core/ops/einsum.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/index.h"
#include "wick/core/ops/matmul.h"
#include "wick/tests/golden/opinfo.h"

namespace wick::golden {
namespace {

using AxisIndexSource = Tensor(const Tensor&, int64_t, const Tensor&, const Tensor&);
using AxisIndexValue = Tensor(const Tensor&, int64_t, const Tensor&, Scalar);

Tensors all_of(const Unique& found, bool inverse, bool counts) {
  Tensors list = {found.values};
  if (inverse) list.push_back(found.inverse);
  if (counts) list.push_back(found.counts);
  return list;
}

const Opinfo indexed({
    {"argwhere", {call(argwhere, "input")}},
    {"gather", {call(gather, "input dim index")}},
    {"index_add",
     {call(
         +[](const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source,
             Scalar alpha) { return index_add(x, axis, index, source * alpha); },
         "input dim index source alpha=1")}},
    {"index_copy", {call(index_copy, "input dim index source")}},
    {"index_fill", {call(index_fill, "input dim index value")}},
    {"index_select", {call(index_select, "input dim index")}},
    {"masked_scatter", {call(masked_scatter, "input mask source")}},
    {"masked_select", {call(masked_select, "input mask")}},
    {"nonzero", {call(nonzero, "input !as_tuple=false")}},
    {"scatter",
     {call<AxisIndexSource>(scatter, "input dim index src"),
      call<AxisIndexValue>(scatter, "input dim index value"),
      call(
          +[](const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source,
              ScatterReduction reduce) { return scatter_reduce(x, axis, index, source, reduce); },
          "input dim index src reduce")}},
    {"scatter_add", {call(scatter_add, "input dim index src")}},
    {"scatter_reduce", {call(scatter_reduce, "input dim index src reduce include_self=true")}},
    {"index_put",
     {call(
         +[](const Tensor& x, const Tensors& indices, const Tensor& values, bool accumulate) {
           return index_put(x, indices, values, accumulate);
         },
         "input indices values accumulate=false")}},
    {"index_reduce", {call(index_reduce, "input dim index source reduce include_self=true")}},
    {"put", {call(put, "input index source accumulate=false")}},
    {"take", {call(take, "input index")}},
    {"take_along_dim",
     {call(take_along_axis, "input indices dim"), call(
                                                      +[](const Tensor& x, const Tensor& index) {
                                                        return take_along_axis(x.reshape({-1}),
                                                                               index.reshape({-1}),
                                                                               0);
                                                      },
                                                      "input indices")}},
    {"unique",
     {call(
          +[](const Tensor& x, bool, bool inverse, bool counts) {
            return all_of(unique(x), inverse, counts);
          },
          "input sorted=true return_inverse=false return_counts=false !dim=null"),
      call(
          +[](const Tensor& x, bool, bool inverse, bool counts, int64_t axis) {
            return all_of(unique(x, axis), inverse, counts);
          },
          "input sorted=true return_inverse=false return_counts=false dim")}},
    {"unique_consecutive",
     {call(
          +[](const Tensor& x, bool inverse, bool counts) {
            return all_of(unique_consecutive(x), inverse, counts);
          },
          "input return_inverse=false return_counts=false !dim=null"),
      call(
          +[](const Tensor& x, bool inverse, bool counts, int64_t axis) {
            return all_of(unique_consecutive(x, axis), inverse, counts);
          },
          "input return_inverse=false return_counts=false dim")}},
    {"unravel_index", {call(unravel_index, "indices shape")}},
    {"nn.functional.one_hot", {call(one_hot, "input num_classes=-1")}},
});

const Opinfo products({
    {"addbmm", {call(addbmm, "input batch1 batch2 beta=1 alpha=1")}},
    {"addmm", {call(addmm, "input mat1 mat2 beta=1 alpha=1")}},
    {"addmv", {call(addmv, "input mat vec beta=1 alpha=1")}},
    {"addr", {call(addr, "input vec1 vec2 beta=1 alpha=1")}},
    {"baddbmm", {call(baddbmm, "input batch1 batch2 beta=1 alpha=1")}},
    {"bmm", {call(bmm, "input mat2")}},
    {"cdist",
     {call(
         +[](const Tensor& x, const Tensor& y, double p, const std::optional<Argument>&) {
           return cdist(x, y, p);
         },
         "x1 x2 p=2.0 compute_mode=null")}},
    {"cross",
     {call(
         +[](const Tensor& a, const Tensor& b, std::optional<int64_t> axis) {
           return cross(a, b, axis.value_or(-1));
         },
         "input other dim=null")}},
    {"linalg.cross", {call(cross, "input other dim=-1")}},
    {"linalg.vecdot",
     {call(
         +[](const Tensor& a, const Tensor& b, int64_t axis) { return (a * b).sum(axis); },
         "x y dim=-1")}},
    {"linalg.multi_dot",
     {call(
         +[](const Tensors& factors) {
           Tensor product = factors.at(0);
           for (size_t i = 1; i < factors.size(); ++i) product = matmul(product, factors[i]);
           return product;
         },
         "tensors")}},
    {"dot", {call(dot, "input tensor")}},
    {"vdot", {call(vdot, "input other")}},
    {"einsum",
     {call(
         +[](const Tensors& operands, const std::string& equation) {
           return einsum(equation, operands);
         },
         "operands equation")}},
    {"inner", {call(inner, "input other")}},
    {"kron", {call(kron, "input other")}},
    {"matmul", {call(matmul, "input other")}},
    {"__rmatmul__",
     {call(
         +[](const Tensor& x, const Tensor& y) { return matmul(y, x); }, "input other")}},
    {"mm", {call(mm, "input mat2")}},
    {"mv", {call(mv, "input vec")}},
    {"outer", {call(outer, "input vec2")}},
    {"renorm", {call(renorm, "input p dim maxnorm")}},
    {"tensordot",
     {call<Tensor(const Tensor&, const Tensor&, int64_t)>(tensordot, "a b dims=2"),
      call(
          +[](const Tensor& a, const Tensor& b, const std::vector<Shape>& axes) {
            return tensordot(a, b, axes.at(0), axes.at(1));
          },
          "a b dims")}},
    {"nn.functional.bilinear", {call(bilinear, "input1 input2 weight bias=null")}},
    {"nn.functional.linear",
     {call(
         +[](const Tensor& x, const Tensor& weight, const Tensor& bias) {
           return linear(x, weight, bias);
         },
         "input weight bias=null")}},
    {"nn.functional.pdist", {call(pdist, "input p=2.0")}},
});

}  // namespace
}  // namespace wick::golden
