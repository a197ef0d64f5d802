#include "wick/optim/muon.h"

#include <algorithm>
#include <cmath>

#include "wick/core/amp.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/ops/reduce.h"
#include "wick/kernels/optim/muon.h"
#include "wick/optim/detail/run_rule.h"
#include "wick/optim/registry.h"

namespace wick::optim {

namespace {

using Group = ParamGroup<MuonOptions>;
using rules::muon::Stage;

bool is_matrix(const Tensor& param) { return param.rank() >= 2; }

void check_shape(const Shape& shape) {
  WICK_CHECK(shape.rank() >= 2, "muon: a parameter of a group with use_muon: got shape ", shape,
             ", expected two axes or more");
}

void check_shapes(const std::vector<Tensor>& params, bool use_muon) {
  for (const Tensor& param : params) {
    if (use_muon && param.defined()) check_shape(param.shape());
  }
}

std::vector<Group> check_groups(std::vector<Group> groups) {
  for (const Group& group : groups) check_shapes(group.params, group.options.use_muon);
  return groups;
}

std::vector<Group> those_with_parameters(std::vector<Group> groups) {
  std::erase_if(groups, [](const Group& group) { return group.params.empty(); });
  return groups;
}

std::vector<Group> by_axes(const std::vector<Tensor>& params, const MuonOptions& options) {
  if (!options.use_muon || params.empty()) return {{params, options}};
  Group matrices{{}, options}, rest{{}, options};
  rest.options.use_muon = false;
  rest.options.lr = options.adamw_lr;
  rest.options.weight_decay = options.adamw_weight_decay;
  for (const Tensor& param : params) (is_matrix(param) ? matrices : rest).params.push_back(param);
  return those_with_parameters({matrices, rest});
}

// One rate and decay for all, of AdamW's size. The last matrix, which is the output layer of a
// model, is AdamW's where there are others.
std::unique_ptr<Optimizer> make_muon(const std::vector<Tensor>& params, double lr, double decay) {
  MuonOptions options{.lr = lr, .weight_decay = decay, .adjust_lr_fn = AdjustLr::kMatchRmsAdamw};
  Group matrices{{}, options};
  options.use_muon = false;
  Group rest{{}, options};
  const auto count = std::count_if(params.begin(), params.end(), is_matrix);
  int64_t seen = 0;
  for (const Tensor& param : params) {
    const bool is_output = is_matrix(param) && ++seen == count && count > 1;
    (is_matrix(param) && !is_output ? matrices : rest).params.push_back(param);
  }
  return std::make_unique<Muon>(those_with_parameters({matrices, rest}));
}

double ratio_of(const MuonOptions& o, const Tensor& matrix) {
  const auto rows = static_cast<double>(matrix.size(0));
  const auto columns = static_cast<double>(matrix.size(1));
  switch (o.adjust_lr_fn) {
    case AdjustLr::kMatchRmsAdamw: return 0.2 * std::sqrt(std::max(rows, columns));
    case AdjustLr::kSpectralUnclamped: return std::sqrt(rows / columns);
    case AdjustLr::kOriginal: break;
  }
  return std::sqrt(std::max(1.0, rows / columns));
}

Tensor orthogonal(const Tensor& matrix, const MuonOptions& o) {
  const bool is_tall = matrix.size(0) > matrix.size(1);
  Tensor x = is_tall ? matrix.t() : matrix;
  x = x / norm(x).clamp(o.eps, {});
  if (x.device().is_cuda() && x.dtype() == kFloat32) x = x.to(kBFloat16);
  for (int i = 0; i < o.ns_steps; ++i) {
    const Tensor gram = matmul(x, x.t());
    x = addmm(x, addmm(gram, gram, gram, o.ns_b, o.ns_c), x, o.ns_a);
  }
  return is_tall ? x.t() : x;
}

rules::muon::Args args_of(const MuonOptions& o, Stage stage) {
  const OptimArgs common{o.lr, o.weight_decay, /*maximize=*/false, /*decoupled=*/true};
  return {{common, o.adamw_beta1, o.adamw_beta2, o.adamw_eps}, o.momentum, o.nesterov, stage};
}

[[maybe_unused]] const bool muon_offered = [] {
  register_optimizer({"muon", 0, 0, make_muon, [](const std::vector<Tensor>& params) {
                        return std::make_unique<Muon>(params);
                      }});
  return true;
}();

}  // namespace

void MuonOptions::check() const {
  WICK_CHECK(ns_steps < 100, "muon: ns_steps: got ", ns_steps, ", expected less than 100");
}

bool MuonOptions::check_value(std::string_view name, double value) {
  if (name == "ns_a" || name == "ns_b" || name == "ns_c") {
    WICK_CHECK(std::isfinite(value), "muon: ", name, ": got ", value, ", expected a finite value");
    return true;
  }
  if (name == "adjust_lr_fn") {
    WICK_CHECK(value == 0 || value == 1 || value == 2, "muon: adjust_lr_fn: got ", value,
               ", expected 0, 1 or 2");
    return true;
  }
  if (name != "adamw_beta1" && name != "adamw_beta2") return false;
  check_below_one("muon", name, value);
  return true;
}

Muon::Muon(const std::vector<Tensor>& params, const MuonOptions& options)
    : Muon(by_axes(params, options)) {}

Muon::Muon(std::vector<ParamGroup<MuonOptions>> groups)
    : OptimizerOf("muon", check_groups(std::move(groups)),
                  {"exp_avg", "exp_avg_sq", "momentum_buffer"}) {}

void Muon::add_param_group(std::vector<Tensor> params, const Hyperparameters& values) {
  bool use_muon = options().use_muon;
  for (const auto& [name, value] : values) {
    if (name == "use_muon") use_muon = value != 0;
  }
  check_shapes(params, use_muon);
  OptimizerOf::add_param_group(std::move(params), values);
}

void Muon::prepare_update(int group, const std::vector<OptimTensor>& tensors,
                          const OptimStep& step) {
  const MuonOptions& o = options(group);
  if (!o.use_muon) return;
  const Device device = tensors[0].param.device;
  // Not the tensors' own: nothing is counted here.
  const Tensor numbers = zeros({static_cast<int64_t>(tensors.size()), 2}, kFloat64, device);
  std::vector<Tensor> directions;
  std::vector<OptimTensor> with_directions = tensors;
  for (OptimTensor& each : with_directions) {
    const View& param = each.param;
    check_shape(param.shape);
    const Dtype dtype = param.dtype == kFloat64 ? kFloat64 : kFloat32;
    each.numbers = numbers[static_cast<int64_t>(directions.size())].data<double>();
    directions.push_back(empty_strided(param.shape, param.strides, dtype, device).zero_());
    each.state[0] = directions.back().view_for_kernel();
  }
  rules::muon::Args args = args_of(o, Stage::kDirection);
  args.weight_decay = 0;
  run_rule(with_directions, args, step);
  const amp::Autocast off(device, {}, /*enabled=*/false);
  for (const Tensor& x : directions) {
    if (x.numel() == 0) continue;
    const Tensor matrix = x.reshape({x.size(0), -1});
    x.copy_(orthogonal(matrix, o).reshape(x.shape())).mul_(ratio_of(o, matrix));
  }
  orthogonal_[tensors[0].param.data] = std::move(directions);
}

void Muon::update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) {
  const MuonOptions& o = options(group);
  if (!o.use_muon) return run_rule(tensors, args_of(o, Stage::kAdamw), step);
  const auto updates = orthogonal_.extract(tensors[0].param.data);
  std::vector<OptimTensor> with_updates = tensors;
  for (size_t i = 0; i < tensors.size(); ++i) {
    with_updates[i].state[0] = updates.mapped()[i].view_for_kernel();
  }
  run_rule(with_updates, args_of(o, Stage::kUpdate), step);
}

}  // namespace wick::optim
