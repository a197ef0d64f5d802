#include "wick/tests/harness/gradcheck.h"

#include <random>
#include <unordered_set>

#include "wick/core/autograd.h"
#include "wick/tests/harness/host_array.h"

namespace wick::testing {
namespace {

// Between gradients that should be equal but for the order of additions.
constexpr double kSameRtol = 1e-9;
constexpr double kSameAtol = 1e-11;

HostArray random_normal(const Shape& shape, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  HostArray array{shape, std::vector<double>(static_cast<size_t>(shape.numel()))};
  for (double& value : array.values) value = normal(random);
  return array;
}

double dot(const HostArray& a, const HostArray& b) {
  double sum = 0;
  for (size_t i = 0; i < a.values.size(); ++i) sum += a.values[i] * b.values[i];
  return sum;
}

HostArray scaled(const HostArray& array, double factor) {
  HostArray result = array;
  for (double& value : result.values) value *= factor;
  return result;
}

// One check of one function at one point.
class Gradcheck {
 public:
  Gradcheck(const TensorFunction& function, const Tensors& inputs, const std::vector<bool>& wants,
            const GradcheckOptions& options)
      : function_(function), wants_(wants), options_(options) {
    for (const Tensor& input : inputs) {
      points_.push_back(input.defined() ? read(input) : HostArray{});
      dtypes_.push_back(input.defined() ? input.dtype() : kFloat64);
      defined_.push_back(input.defined());
    }
  }

  std::string run() {
    {
      const NoGrad no_grad;
      for (const Tensor& out : function_(make_inputs({}))) {
        weights_.push_back(is_floating(out.dtype()) ? random_normal(out.shape(), random_)
                                                    : HostArray{});
      }
    }
    const std::vector<HostArray> analytic = gradients(wants_, weights_);
    std::string wrong = same("a second backward", gradients(wants_, weights_), analytic, 0, 0);
    if (wrong.empty()) wrong = check_linear(analytic);
    if (wrong.empty()) wrong = check_single_inputs(analytic);
    if (wrong.empty()) wrong = check_single_outputs(analytic);
    for (size_t i = 0; i < points_.size() && wrong.empty(); ++i) {
      if (wants_[i]) wrong = check_numeric(i, analytic[i]);
    }
    return wrong;
  }

 private:
  Tensors make_inputs(const std::vector<bool>& requires_grad) const {
    Tensors inputs;
    for (size_t i = 0; i < points_.size(); ++i) {
      inputs.push_back(defined_[i] ? make_tensor(points_[i], dtypes_[i]) : Tensor());
      if (i < requires_grad.size() && requires_grad[i]) inputs[i].set_requires_grad();
    }
    return inputs;
  }

  // One per input; zeros where there is none. `weights` without shape stand for unused outputs.
  std::vector<HostArray> gradients(const std::vector<bool>& wants,
                                   const std::vector<HostArray>& weights) const {
    const Tensors inputs = make_inputs(wants);
    const Tensors all = function_(inputs);
    Tensors outputs, incoming, wanted;
    for (size_t i = 0; i < all.size(); ++i) {
      if (weights[i].values.empty() && weights[i].shape.numel() > 0) continue;
      if (!all[i].requires_grad()) continue;
      outputs.push_back(all[i]);
      incoming.push_back(make_tensor(weights[i], kFloat64));
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (wants[i]) wanted.push_back(inputs[i]);
    }
    Tensors found(wanted.size());
    if (!outputs.empty()) found = grad(outputs, wanted, incoming, false, false, true);
    std::vector<HostArray> result(inputs.size());
    for (size_t i = 0, next = 0; i < inputs.size(); ++i) {
      if (!wants[i]) continue;
      const Tensor& gradient = found[next++];
      result[i] = gradient.defined() ? read(gradient) : scaled(points_[i], 0);
    }
    return result;
  }

  std::string same(const std::string& what, const std::vector<HostArray>& got,
                   const std::vector<HostArray>& want, double rtol, double atol) const {
    for (size_t i = 0; i < want.size(); ++i) {
      if (!wants_[i]) continue;
      const std::string wrong = difference(got[i], want[i], rtol, atol);
      if (!wrong.empty()) return concat("gradient of input ", i, " with ", what, ": ", wrong);
    }
    return "";
  }

  std::string check_linear(const std::vector<HostArray>& analytic) const {
    for (const double factor : {0.0, -3.0}) {
      std::vector<HostArray> weights;
      for (const HostArray& weight : weights_) weights.push_back(scaled(weight, factor));
      std::vector<HostArray> want;
      for (const HostArray& gradient : analytic) want.push_back(scaled(gradient, factor));
      const std::string wrong = same(concat("incoming gradients times ", factor),
                                     gradients(wants_, weights), want, kSameRtol, kSameAtol);
      if (!wrong.empty()) return wrong;
    }
    return "";
  }

  std::string check_single_inputs(const std::vector<HostArray>& analytic) const {
    for (size_t i = 0; i < points_.size(); ++i) {
      if (!wants_[i]) continue;
      std::vector<bool> only(points_.size());
      only[i] = true;
      const HostArray alone = gradients(only, weights_)[i];
      const std::string wrong = difference(alone, analytic[i], kSameRtol, kSameAtol);
      if (!wrong.empty()) return concat("gradient of input ", i, " alone: ", wrong);
    }
    return "";
  }

  std::string check_single_outputs(const std::vector<HostArray>& analytic) const {
    if (weights_.size() < 2) return "";
    std::vector<HostArray> total;
    for (const HostArray& gradient : analytic) total.push_back(scaled(gradient, 0));
    for (size_t out = 0; out < weights_.size(); ++out) {
      std::vector<HostArray> only(weights_.size());
      only[out] = weights_[out];
      const std::vector<HostArray> part = gradients(wants_, only);
      for (size_t i = 0; i < part.size(); ++i) {
        for (size_t j = 0; j < part[i].values.size(); ++j) total[i].values[j] += part[i].values[j];
      }
    }
    return same("one output at a time, summed", total, analytic, kSameRtol, kSameAtol);
  }

  double weighted_output() const {
    const NoGrad no_grad;
    const Tensors outputs = function_(make_inputs({}));
    double sum = 0;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!weights_[i].values.empty()) sum += dot(read(outputs[i]), weights_[i]);
    }
    return sum;
  }

  // The derivative along `direction` of input `i`.
  double central_difference(size_t i, const HostArray& direction) {
    const HostArray centre = points_[i];
    double value[2];
    for (const int side : {0, 1}) {
      const double step = side == 0 ? -options_.eps : options_.eps;
      for (size_t j = 0; j < centre.values.size(); ++j) {
        points_[i].values[j] = centre.values[j] + step * direction.values[j];
      }
      value[side] = weighted_output();
    }
    points_[i] = centre;
    return (value[1] - value[0]) / (2 * options_.eps);
  }

  std::string check_numeric(size_t i, const HostArray& analytic) {
    const int64_t n = points_[i].shape.numel();
    HostArray numeric{points_[i].shape, {}};
    if (n > options_.full_up_to) {
      const HostArray direction = random_normal(points_[i].shape, random_);
      return compare(i, {{}, {dot(analytic, direction)}}, {{}, {central_difference(i, direction)}});
    }
    HostArray direction = scaled(points_[i], 0);
    for (size_t j = 0; j < static_cast<size_t>(n); ++j) {
      direction.values.assign(direction.values.size(), 0);
      direction.values[j] = 1;
      numeric.values.push_back(central_difference(i, direction));
    }
    return compare(i, analytic, numeric);
  }

  std::string compare(size_t i, const HostArray& analytic, const HostArray& numeric) const {
    const std::string wrong = difference(analytic, numeric, options_.rtol, options_.atol);
    return wrong.empty() ? "" : concat("gradient of input ", i, ": ", wrong);
  }

  const TensorFunction& function_;
  const std::vector<bool>& wants_;
  GradcheckOptions options_;
  std::vector<HostArray> points_;
  std::vector<Dtype> dtypes_;
  std::vector<bool> defined_;
  std::vector<HostArray> weights_;
  std::mt19937_64 random_{20240607};
};

}  // namespace

std::string gradcheck(const TensorFunction& function, const Tensors& inputs,
                      const std::vector<bool>& wants, const GradcheckOptions& options) {
  return Gradcheck(function, inputs, wants, options).run();
}

namespace {

// The gradients of a function, as a function of its inputs and the incoming gradients.
class GradientFunction {
 public:
  GradientFunction(const TensorFunction& function, const Tensors& inputs,
                   const std::vector<bool>& wants)
      : function_(function), inputs_(inputs.size()), wants_(wants) {
    Tensors tracked = inputs;
    for (size_t i = 0; i < inputs_; ++i) {
      if (wants_[i]) tracked[i] = inputs[i].detach().set_requires_grad();
    }
    std::mt19937_64 random(20240608);
    const Tensors outputs = function_(tracked);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].requires_grad()) continue;
      used_.push_back(i);
      incoming_.push_back(make_tensor(random_normal(outputs[i].shape(), random), kFloat64));
    }
  }

  const Tensors& incoming() const { return incoming_; }

  Tensors operator()(const Tensors& x, bool create_graph) const {
    const EnableGrad enable;
    const auto middle = x.begin() + static_cast<std::ptrdiff_t>(inputs_);
    Tensors in(x.begin(), middle);
    Tensors wanted, outputs;
    for (size_t i = 0; i < inputs_; ++i) {
      if (!wants_[i]) continue;
      if (!in[i].requires_grad()) in[i] = in[i].detach().set_requires_grad();
      wanted.push_back(in[i]);
    }
    const Tensors all = function_(in);
    for (const size_t i : used_) outputs.push_back(all[i]);
    Tensors found(wanted.size());
    if (!outputs.empty()) {
      found = grad(outputs, wanted, Tensors(middle, x.end()), false, create_graph, true);
    }
    for (size_t i = 0; i < found.size(); ++i) {
      if (!found[i].defined()) found[i] = make_tensor(scaled(read(wanted[i]), 0), kFloat64);
    }
    return found;
  }

 private:
  const TensorFunction& function_;
  size_t inputs_;
  const std::vector<bool>& wants_;
  std::vector<size_t> used_;  // outputs that have gradients
  Tensors incoming_;
};

}  // namespace

std::string gradgradcheck(const TensorFunction& function, const Tensors& inputs,
                          const std::vector<bool>& wants, const GradcheckOptions& options) {
  const GradientFunction gradient(function, inputs, wants);
  Tensors all = inputs;
  std::vector<bool> all_wants = wants;
  for (const Tensor& incoming : gradient.incoming()) {
    all.push_back(incoming);
    all_wants.push_back(true);
  }
  const Tensors plain = gradient(all, false);
  const Tensors recorded = gradient(all, true);
  for (size_t i = 0; i < plain.size(); ++i) {
    const std::string wrong = difference(read(recorded[i]), read(plain[i]), kSameRtol, kSameAtol);
    if (!wrong.empty()) return concat("with create_graph, gradient ", i, ": ", wrong);
  }
  const TensorFunction recorded_gradient = [&](const Tensors& x) { return gradient(x, true); };
  return Gradcheck(recorded_gradient, all, all_wants, options).run();
}

std::vector<std::string> graph_ops(const Tensors& outputs) {
  std::vector<std::string> names;
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> waiting;
  for (const Tensor& output : outputs) {
    if (output.defined() && output.grad_fn() != nullptr) waiting.push_back(output.grad_fn());
  }
  while (!waiting.empty()) {
    const Node* node = waiting.back();
    waiting.pop_back();
    if (!seen.insert(node).second) continue;
    const std::string name = node->name();
    names.push_back(name.substr(0, name.find('(')));
    for (const Edge& edge : node->next()) {
      if (edge.node) waiting.push_back(edge.node.get());
    }
  }
  return names;
}

}  // namespace wick::testing
