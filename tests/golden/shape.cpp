#include <map>

#include "wick/core/ops/index.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/view.h"
#include "wick/tests/golden/golden.h"

namespace wick::golden {
namespace {

Tensor flatten(const Tensor& x) { return x.reshape({-1}); }

Tensors in_order(const Inputs& in, Args& a) {
  Tensors tensors;
  if (a.has("order")) {
    for (const std::string& name : a.texts("order")) tensors.push_back(in[name]);
  } else {
    for (size_t i = 0; i < in.size(); ++i) tensors.push_back(in[i]);
  }
  return tensors;
}

Tensors squeezed(const Inputs& in, Args& a) {
  if (!a.has("dim")) return {in[0].squeeze()};
  return {in[0].squeeze(a.integer("dim"))};
}

Tensors slice_step(const Inputs& in, Args& a) {
  const int64_t axis = a.integer("dim", 0);
  return {in[0].slice(axis, a.integer("start", 0), a.integer("stop", in[0].size(axis)),
                      a.integer("step", 1))};
}

Tensors padded(const Inputs& in, Args& a) {
  const std::vector<int64_t> pads = a.integers("pad");
  const std::string mode = a.text("mode", "constant");
  const std::map<std::string, PadMode> modes = {{"constant", PadMode::kConstant},
                                                {"reflect", PadMode::kReflect},
                                                {"replicate", PadMode::kReplicate},
                                                {"circular", PadMode::kCircular}};
  WICK_CHECK(modes.count(mode) == 1, "argument 'mode': unknown: got ", mode);
  return {pad(in[0], pads, a.number("value", 0), modes.at(mode))};
}

Tensors rows_by_index(const Inputs& in, Args& a) {
  std::optional<int64_t> padding;
  if (a.has("padding_idx")) padding = a.integer("padding_idx");
  return {embedding(in[0], in[1], padding)};
}

const Family shape_family(
    "shape",
    op_runner({
        {"reshape",
         [](const Inputs& in, Args& a) { return Tensors{in[0].reshape(a.shape("shape"))}; }},
        {"view", [](const Inputs& in, Args& a) { return Tensors{in[0].view(a.shape("shape"))}; }},
        {"permute",
         [](const Inputs& in, Args& a) { return Tensors{in[0].permute(a.shape("dims"))}; }},
        {"permute_reshape",
         [](const Inputs& in, Args& a) {
           return Tensors{flatten(in[0].permute(a.shape("dims")))};
         }},
        {"transpose",
         [](const Inputs& in, Args& a) {
           return Tensors{in[0].transpose(a.integer("dim0"), a.integer("dim1"))};
         }},
        {"flatten",
         [](const Inputs& in, Args& a) {
           return Tensors{in[0].flatten(a.integer("start_dim", 0), a.integer("end_dim", -1))};
         }},
        {"unsqueeze",
         [](const Inputs& in, Args& a) { return Tensors{in[0].unsqueeze(a.integer("dim"))}; }},
        {"squeeze", squeezed},
        {"expand",
         [](const Inputs& in, Args& a) { return Tensors{in[0].expand(a.shape("shape"))}; }},
        {"narrow",
         [](const Inputs& in, Args& a) {
           return Tensors{in[0].narrow(a.integer("dim"), a.integer("start"), a.integer("length"))};
         }},
        {"slice_step", slice_step},
        {"cat", [](const Inputs& in,
                   Args& a) { return Tensors{cat(in_order(in, a), a.integer("dim", 0))}; }},
        {"stack", [](const Inputs& in,
                     Args& a) { return Tensors{stack(in_order(in, a), a.integer("dim", 0))}; }},
        {"chunk", [](const Inputs& in,
                     Args& a) { return in[0].chunk(a.integer("chunks"), a.integer("dim", 0)); }},
        {"index_select",
         [](const Inputs& in, Args& a) {
           return Tensors{index_select(in[0], a.integer("dim"), in[1])};
         }},
        {"gather",
         [](const Inputs& in, Args& a) { return Tensors{gather(in[0], a.integer("dim"), in[1])}; }},
        {"pad", padded},
        {"embedding", rows_by_index},
        {"masked_fill",
         [](const Inputs& in, Args& a) {
           return Tensors{in[0].masked_fill(in[1], a.scalar("value"))};
         }},
        {"tril",
         [](const Inputs& in, Args& a) { return Tensors{tril(in[0], a.integer("diagonal", 0))}; }},
        {"triu",
         [](const Inputs& in, Args& a) { return Tensors{triu(in[0], a.integer("diagonal", 0))}; }},
    }));

}  // namespace
}  // namespace wick::golden
