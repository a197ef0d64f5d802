#include <cmath>
#include <random>

#include "wick/core/autograd.h"
#include "wick/core/create.h"
#include "wick/core/gradcheck.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/reduce.h"

namespace wick {

namespace {

// Between float64 gradients that should be equal but for the order of additions.
constexpr double kSame = 1e-9;

Tensor random_like(const Tensor& like, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  std::vector<double> values(static_cast<size_t>(like.numel()));
  for (double& value : values) value = normal(random);
  return tensor(values, like.shape()).to(like.dtype()).to(like.device());
}

bool is_wanted(const Tensor& x) { return x.defined() && x.requires_grad(); }

double max_distance(const Tensor& a, const Tensor& b) {
  return a.numel() == 0 ? 0 : (a.detach() - b.detach()).abs().max().item();
}

// The gradients of a function, as a function of its inputs and the incoming gradients.
class GradientFunction {
 public:
  GradientFunction(const TensorFunction& function, const std::vector<Tensor>& inputs,
                   const std::vector<Tensor>& incoming)
      : function_(function), inputs_(inputs.size()), incoming_(incoming) {
    for (const Tensor& x : inputs) wants_.push_back(is_wanted(x));
    const std::vector<Tensor> outputs = function_(inputs);
    std::mt19937_64 random(20240608);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!is_wanted(outputs[i])) continue;
      used_.push_back(i);
      if (!incoming.empty()) continue;
      incoming_.push_back(random_like(outputs[i], random).set_requires_grad());
    }
    WICK_CHECK(incoming_.size() == used_.size(),
               "gradgradcheck: wrong number of grad_outputs: got ", incoming_.size(), ", expected ",
               used_.size(), ", one per output that requires a gradient");
  }

  const std::vector<Tensor>& incoming() const { return incoming_; }

  std::vector<Tensor> operator()(const std::vector<Tensor>& x, bool create_graph) const {
    const EnableGrad enable;
    const auto middle = x.begin() + static_cast<std::ptrdiff_t>(inputs_);
    std::vector<Tensor> in(x.begin(), middle);
    std::vector<Tensor> wanted, outputs;
    for (size_t i = 0; i < inputs_; ++i) {
      if (!wants_[i]) continue;
      if (!in[i].requires_grad()) in[i] = in[i].detach().set_requires_grad();
      wanted.push_back(in[i]);
    }
    const std::vector<Tensor> all = function_(in);
    for (const size_t i : used_) outputs.push_back(all.at(i));
    std::vector<Tensor> found(wanted.size());
    if (!outputs.empty()) {
      found = grad(outputs, wanted, {middle, x.end()}, false, create_graph, true);
    }
    for (size_t i = 0; i < found.size(); ++i) {
      if (!found[i].defined()) found[i] = zeros_like(wanted[i].detach());
    }
    return found;
  }

 private:
  const TensorFunction& function_;
  size_t inputs_;
  std::vector<bool> wants_;
  std::vector<size_t> used_;  // outputs that have gradients
  std::vector<Tensor> incoming_;
};

}  // namespace

bool gradgradcheck(const TensorFunction& function, const std::vector<Tensor>& inputs,
                   const std::vector<Tensor>& grad_outputs, const GradcheckOptions& options) {
  const GradientFunction gradient(function, inputs, grad_outputs);
  std::vector<Tensor> all = inputs;
  all.insert(all.end(), gradient.incoming().begin(), gradient.incoming().end());
  const std::vector<Tensor> plain = gradient(all, false);
  const std::vector<Tensor> recorded = gradient(all, true);
  for (size_t i = 0; i < plain.size(); ++i) {
    const double distance = max_distance(recorded[i], plain[i]);
    const double allowed = plain[i].dtype() == kFloat64 ? kSame : options.atol;
    if (distance <= allowed * (1 + max_distance(plain[i], zeros_like(plain[i])))) continue;
    if (!options.raise_exception) return false;
    throw GradcheckError(concat("gradgradcheck: gradient ", i,
                                " is another with create_graph: got ", "one that is ", distance,
                                " away, expected the same"));
  }
  const TensorFunction recorded_gradient = [&gradient](const std::vector<Tensor>& x) {
    return gradient(x, true);
  };
  return gradcheck(recorded_gradient, all, options);
}

}  // namespace wick
