#include "wick/core/gradcheck.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "wick/core/autograd.h"
#include "wick/core/create.h"

namespace wick {

namespace {

using Doubles = std::vector<double>;

// Between float64 gradients that should be equal but for the order of additions.
constexpr double kSameRtol = 1e-9;
constexpr double kSameAtol = 1e-11;

Doubles read(const Tensor& x) {
  return x.detach().to_dense().cpu().to(kFloat64).to_vector<double>();
}

// `values` as `like` would hold them.
Tensor write(const Doubles& values, const Tensor& like) {
  return tensor(values, like.shape()).to(like.dtype()).to(like.device());
}

Doubles random_normal(int64_t n, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  Doubles values(static_cast<size_t>(n));
  for (double& value : values) value = normal(random);
  return values;
}

double dot(const Doubles& a, const Doubles& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Doubles scaled(const Doubles& values, double factor) {
  Doubles result = values;
  for (double& value : result) value *= factor;
  return result;
}

bool has_gradient(const Tensor& x) { return x.defined() && x.requires_grad(); }

// What is wrong in `got`, with the worst element; nothing if all are close. `columns` of a matrix.
std::string difference(const Doubles& got, const Doubles& want, double rtol, double atol,
                       size_t columns) {
  size_t wrong = 0, worst = 0;
  double most = -1;
  for (size_t i = 0; i < want.size(); ++i) {
    const double distance = std::fabs(got[i] - want[i]);
    if (distance <= atol + rtol * std::fabs(want[i])) continue;  // never so for NaN
    ++wrong;
    const double excess = std::isnan(distance) ? INFINITY : distance;
    if (excess > most) {
      most = excess;
      worst = i;
    }
  }
  if (wrong == 0) return "";
  return concat("got ", got[worst], " at [", worst / columns, ", ", worst % columns, "], expected ",
                want[worst], " within ", atol, " + ", rtol, " of it; ", wrong, " of ", want.size(),
                " elements are wrong");
}

// One check of one function at one point.
class Check {
 public:
  Check(const TensorFunction& function, const std::vector<Tensor>& inputs,
        const GradcheckOptions& options)
      : function_(function), inputs_(inputs), options_(options) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& x = inputs[i];
      if (!has_gradient(x)) continue;
      for (int axis = 0; axis < x.rank(); ++axis) {
        WICK_CHECK(x.shape()[axis] < 2 || x.strides()[axis] != 0, "gradcheck: elements of input ",
                   i, " share memory: got stride 0 along axis ", axis,
                   ", expected an input without");
      }
      wanted_.push_back(i);
      if (x.dtype() != kFloat64 && note_.empty()) {
        note_ = concat("; input ", i, " is ", x.dtype(), ", in which a difference of step ",
                       options.eps, " is mostly rounding: use float64");
      }
    }
    WICK_CHECK(!wanted_.empty(), "gradcheck: no input requires a gradient: got ", inputs.size(),
               " inputs, expected set_requires_grad() for those to check");
    same_rtol_ = note_.empty() ? kSameRtol : options.rtol;
    same_atol_ = (note_.empty() ? kSameAtol : options.atol) + options.nondet_tol;
  }

  // Throws GradcheckError at the first thing that is wrong.
  void run() {
    std::vector<Tensor> outputs = run_function(inputs_);
    if (outputs_.empty()) return check_constant(outputs);
    for (const Tensor& output : outputs) weights_.push_back(random_normal(output.numel(), random_));
    outputs.clear();
    const std::vector<Doubles> weighted = gradients(inputs_, weights_);
    check_same("backward is not reentrant", gradients(inputs_, weights_), weighted, 0,
               options_.nondet_tol);
    check_linear(weighted);
    check_single_inputs(weighted);
    if (options_.check_undefined_grad) check_single_outputs(weighted);
    options_.fast_mode ? check_products() : check_jacobians();
  }

 private:
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    throw GradcheckError(concat("gradcheck: ", parts...));
  }

  // The outputs that have gradients, of which it notes the places at the first call.
  std::vector<Tensor> run_function(const std::vector<Tensor>& inputs) {
    std::vector<Tensor> all = function_(inputs);
    if (outputs_.empty()) {
      for (size_t i = 0; i < all.size(); ++i) {
        if (has_gradient(all[i])) outputs_.push_back(i);
      }
      if (outputs_.empty()) return all;
    }
    std::vector<Tensor> kept;
    for (const size_t i : outputs_) kept.push_back(all.at(i));
    return kept;
  }

  // The gradients of the wanted inputs, zeros where there is none; an empty weight is an output
  // without one.
  std::vector<Doubles> gradients(const std::vector<Tensor>& inputs,
                                 const std::vector<Doubles>& weights) {
    return gradients(inputs, run_function(inputs), weights, false);
  }
  std::vector<Doubles> gradients(const std::vector<Tensor>& inputs,
                                 const std::vector<Tensor>& outputs,
                                 const std::vector<Doubles>& weights, bool retain_graph) const {
    std::vector<Tensor> from, incoming, to;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!has_gradient(outputs[i]) || (weights[i].empty() && outputs[i].numel() > 0)) continue;
      from.push_back(outputs[i]);
      incoming.push_back(write(weights[i], outputs[i]));
    }
    for (const size_t i : wanted_) {
      if (has_gradient(inputs[i])) to.push_back(inputs[i]);
    }
    std::vector<Tensor> found(to.size());
    if (!from.empty()) found = grad(from, to, incoming, retain_graph, false, true);
    std::vector<Doubles> result;
    size_t next = 0;
    for (const size_t i : wanted_) {
      const Tensor gradient = has_gradient(inputs[i]) ? found[next++] : Tensor();
      result.push_back(gradient.defined() ? read(gradient)
                                          : Doubles(static_cast<size_t>(inputs[i].numel())));
    }
    return result;
  }

  void check_same(const std::string& what, const std::vector<Doubles>& got,
                  const std::vector<Doubles>& want, double rtol, double atol) const {
    for (size_t i = 0; i < want.size(); ++i) {
      const std::string wrong = difference(got[i], want[i], rtol, atol, 1);
      if (!wrong.empty()) fail(what, ": gradient of input ", wanted_[i], ": ", wrong, note_);
    }
  }

  void check_linear(const std::vector<Doubles>& weighted) {
    for (const double factor : {0.0, -3.0}) {
      std::vector<Doubles> weights, want;
      for (const Doubles& weight : weights_) weights.push_back(scaled(weight, factor));
      for (const Doubles& gradient : weighted) want.push_back(scaled(gradient, factor));
      check_same(
          concat("backward does not multiply by incoming gradients (here times ", factor, ")"),
          gradients(inputs_, weights), want, same_rtol_, same_atol_);
    }
  }

  void check_single_inputs(const std::vector<Doubles>& weighted) {
    if (wanted_.size() < 2) return;
    for (size_t only = 0; only < wanted_.size(); ++only) {
      std::vector<Tensor> inputs = inputs_;
      for (const size_t i : wanted_) {
        if (i != wanted_[only]) inputs[i] = inputs[i].detach();
      }
      const std::string wrong =
          difference(gradients(inputs, weights_)[only], weighted[only], same_rtol_, same_atol_, 1);
      if (!wrong.empty()) {
        fail("where no other input requires one: gradient of input ", wanted_[only], ": ", wrong,
             note_);
      }
    }
  }

  void check_single_outputs(const std::vector<Doubles>& weighted) {
    if (weights_.size() < 2) return;
    std::vector<Doubles> total;
    for (const Doubles& gradient : weighted) total.emplace_back(gradient.size());
    for (size_t output = 0; output < weights_.size(); ++output) {
      std::vector<Doubles> only(weights_.size());
      only[output] = weights_[output];
      const std::vector<Doubles> part = gradients(inputs_, only);
      for (size_t i = 0; i < part.size(); ++i) {
        for (size_t j = 0; j < part[i].size(); ++j) total[i][j] += part[i][j];
      }
    }
    check_same("with undefined gradients of the other outputs, summed", total, weighted, same_rtol_,
               same_atol_);
  }

  // (f(x + eps v) - f(x - eps v)) / 2 eps for each output, with v along the wanted input `i`.
  std::vector<Doubles> central_difference(size_t i, const Doubles& direction) {
    const NoGrad no_grad;
    const Tensor input = inputs_[wanted_[i]].detach();
    const Doubles centre = read(input);
    std::vector<Doubles> sides[2];
    try {
      for (const int side : {0, 1}) {
        Doubles moved = centre;
        for (size_t j = 0; j < moved.size(); ++j) {
          moved[j] += (side == 0 ? -options_.eps : options_.eps) * direction[j];
        }
        input.copy_(write(moved, input));
        for (const Tensor& output : run_function(inputs_)) sides[side].push_back(read(output));
      }
    } catch (...) {
      input.copy_(write(centre, input));
      throw;
    }
    input.copy_(write(centre, input));
    for (size_t o = 0; o < sides[0].size(); ++o) {
      for (size_t k = 0; k < sides[0][o].size(); ++k) {
        sides[0][o][k] = (sides[1][o][k] - sides[0][o][k]) / (2 * options_.eps);
      }
    }
    return sides[0];
  }

  // Where no output has a gradient, none may change.
  void check_constant(const std::vector<Tensor>& outputs) {
    for (size_t i = 0; i < wanted_.size(); ++i) {
      const Doubles along = random_normal(inputs_[wanted_[i]].numel(), random_);
      const std::vector<Doubles> slopes = central_difference(i, along);
      for (size_t o = 0; o < slopes.size(); ++o) {
        const Doubles zeros(slopes[o].size());
        if (!is_floating(outputs[o].dtype())) continue;
        const std::string wrong = difference(zeros, slopes[o], 0, options_.atol, 1);
        if (wrong.empty()) continue;
        fail("output ", o, " requires no gradient, yet changes with input ", wanted_[i], ": ",
             wrong, note_);
      }
    }
  }

  // Fast mode: u' J v.
  void check_products() {
    const std::vector<Tensor> outputs = run_function(inputs_);
    std::vector<std::vector<Doubles>> rows;  // u' J, by output and input
    for (size_t o = 0; o < outputs.size(); ++o) {
      std::vector<Doubles> only(outputs.size());
      only[o] = weights_[o];
      rows.push_back(gradients(inputs_, outputs, only, true));
    }
    for (size_t i = 0; i < wanted_.size(); ++i) {
      const Doubles along = random_normal(inputs_[wanted_[i]].numel(), random_);
      const std::vector<Doubles> columns = central_difference(i, along);
      for (size_t o = 0; o < outputs.size(); ++o) {
        const Doubles got = {dot(rows[o][i], along)}, want = {dot(columns[o], weights_[o])};
        const std::string wrong = difference(got, want, options_.rtol, options_.atol, 1);
        if (wrong.empty()) continue;
        fail("Jacobian mismatch for output ", outputs_[o], " with respect to input ", wanted_[i],
             ", between random vectors (fast_mode): ", wrong, note_);
      }
    }
  }

  // Jacobians have a row per element of the input and a column per element of the output.
  void check_jacobians() {
    const std::vector<Tensor> outputs = run_function(inputs_);
    std::vector<std::vector<Doubles>> analytical = analytical_jacobians(outputs);
    for (size_t i = 0; i < wanted_.size(); ++i) {
      const auto rows = static_cast<size_t>(inputs_[wanted_[i]].numel());
      std::vector<Doubles> numerical(outputs.size());
      Doubles direction(rows);
      for (size_t j = 0; j < rows; ++j) {
        direction[j] = 1;
        const std::vector<Doubles> row = central_difference(i, direction);
        direction[j] = 0;
        for (size_t o = 0; o < row.size(); ++o) {
          numerical[o].insert(numerical[o].end(), row[o].begin(), row[o].end());
        }
      }
      for (size_t o = 0; o < outputs.size(); ++o) {
        compare(o, i, numerical[o], analytical[o][i],
                {static_cast<int64_t>(rows), outputs[o].numel()});
      }
    }
  }

  std::vector<std::vector<Doubles>> analytical_jacobians(const std::vector<Tensor>& outputs) {
    std::vector<std::vector<Doubles>> jacobians(outputs.size());
    for (size_t o = 0; o < outputs.size(); ++o) {
      const auto columns = static_cast<size_t>(outputs[o].numel());
      for (const size_t i : wanted_) {
        jacobians[o].emplace_back(static_cast<size_t>(inputs_[i].numel()) * columns);
      }
      for (size_t k = 0; k < columns; ++k) {
        std::vector<Doubles> only(outputs.size());
        only[o].resize(columns);
        only[o][k] = 1;
        const std::vector<Doubles> column = gradients(inputs_, outputs, only, true);
        for (size_t i = 0; i < column.size(); ++i) {
          for (size_t j = 0; j < column[i].size(); ++j) {
            jacobians[o][i][j * columns + k] = column[i][j];
          }
        }
      }
    }
    return jacobians;
  }

  void compare(size_t o, size_t i, const Doubles& numerical, const Doubles& analytical,
               const Shape& shape) const {
    const std::string wrong = difference(analytical, numerical, options_.rtol, options_.atol,
                                         static_cast<size_t>(std::max<int64_t>(1, shape[1])));
    if (wrong.empty()) return;
    fail("Jacobian mismatch for output ", outputs_[o], " with respect to input ", wanted_[i], ": ",
         wrong, note_, "\nnumerical:\n", to_string(tensor(numerical, shape)), "\nanalytical:\n",
         to_string(tensor(analytical, shape)));
  }

  const TensorFunction& function_;
  const std::vector<Tensor>& inputs_;
  GradcheckOptions options_;
  std::vector<size_t> wanted_;   // inputs that require a gradient
  std::vector<size_t> outputs_;  // outputs that have one
  std::vector<Doubles> weights_;
  std::string note_;  // on precision
  double same_rtol_, same_atol_;
  std::mt19937_64 random_{20240607};
};

}  // namespace

bool gradcheck(const TensorFunction& function, const std::vector<Tensor>& inputs,
               const GradcheckOptions& options) {
  Check check(function, inputs, options);
  if (options.raise_exception) {
    check.run();
    return true;
  }
  try {
    check.run();
  } catch (const GradcheckError&) {
    return false;
  }
  return true;
}

}  // namespace wick
