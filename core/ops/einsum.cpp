#include "wick/core/ops/einsum.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "wick/core/detail/autocast.h"
#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/detail/wide.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/slice.h"
#include "wick/core/ops/view.h"

namespace wick {

namespace {

// A tensor and the label of each of its axes: letters, and for "..." the numbers 1 to 8, the last
// axis being 8.
struct Labelled {
  Tensor x;
  std::string labels;
  bool has(char label) const { return labels.find(label) != std::string::npos; }
};

constexpr char kLastOfEllipsis = 8;

// For autocast alone.
constexpr OpInfo kInfo{.name = "einsum",
                       .autocast = {.cuda = Autocast::kLower, .cpu = Autocast::kLower}};

[[noreturn]] void wrong_equation(const std::string& equation, const std::string& what) {
  detail::fail("einsum: ", what, ": got \"", equation, "\"");
}

[[noreturn]] void two_sizes(const std::string& equation, char label, int64_t n, int64_t m) {
  const std::string name = label < 'A' ? "an axis of ..." : "\"" + std::string(1, label) + "\"";
  wrong_equation(equation, concat(name, " has two sizes, ", n, " and ", m));
}

// The labels of a term, in which the ellipsis stands for `axes` axes.
std::string labels_of(const std::string& equation, const std::string& term, int axes) {
  std::string labels;
  for (size_t i = 0; i < term.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(term[i])) != 0) {
      labels += term[i];
    } else if (term.compare(i, 3, "...") == 0 && term.find("...", i + 3) == std::string::npos) {
      for (int k = axes - 1; k >= 0; --k) labels += static_cast<char>(kLastOfEllipsis - k);
      i += 2;
    } else {
      wrong_equation(equation, "a term holds something else than letters and one ...");
    }
  }
  return labels;
}

// Letters that come twice become one, by their diagonal.
Labelled without_repeats(Labelled in, const std::string& equation) {
  for (size_t i = 0; i < in.labels.size(); ++i) {
    size_t j = in.labels.find(in.labels[i], i + 1);
    while (j != std::string::npos) {
      const auto a = static_cast<int64_t>(i), b = static_cast<int64_t>(j);
      if (in.x.size(a) != in.x.size(b)) {
        two_sizes(equation, in.labels[i], in.x.size(a), in.x.size(b));
      }
      in.x = diagonal(in.x, 0, a, b).movedim(-1, a);
      in.labels.erase(j, 1);
      j = in.labels.find(in.labels[i], i + 1);
    }
  }
  return in;
}

// Sums over the axes that `keep` does not name.
Labelled summed(const Labelled& in, const std::string& keep) {
  Shape axes;
  std::string labels;
  for (size_t i = 0; i < in.labels.size(); ++i) {
    if (keep.find(in.labels[i]) != std::string::npos) {
      labels += in.labels[i];
    } else {
      axes.push_back(static_cast<int64_t>(i));
    }
  }
  return axes.empty() ? in : Labelled{sum(in.x, axes), labels};
}

// The axes in the order of `labels`.
Tensor ordered(const Labelled& in, const std::string& labels) {
  Shape order;
  for (const char label : labels) order.push_back(static_cast<int64_t>(in.labels.find(label)));
  return in.x.permute(order);
}

int64_t size_of_label(const Labelled& in, char label) {
  return in.has(label) ? in.x.size(static_cast<int64_t>(in.labels.find(label))) : 1;
}

// Axes of size 1 that broadcast against a larger one of `other`: left out, as if not there.
Labelled without_broadcast(const Labelled& in, const Labelled& other, const std::string& equation) {
  Labelled out = in;
  for (const char label : in.labels) {
    if (!other.has(label)) continue;
    const int64_t n = size_of_label(in, label), m = size_of_label(other, label);
    if (n == m || m == 1) continue;
    if (n != 1) two_sizes(equation, label, n, m);
    const auto axis = out.labels.find(label);
    out.x = out.x.squeeze(static_cast<int64_t>(axis));
    out.labels.erase(axis, 1);
  }
  return out;
}

// matmul, whose errors of dtypes name einsum.
Tensor matrix_product(const Tensor& a, const Tensor& b) {
  const OpInfo info{.name = "einsum",
                    .autocast = {.cuda = Autocast::kLower, .cpu = Autocast::kLower}};
  const std::array<Tensor, 2> given{a, b};
  std::vector<Tensor> cast;
  const std::span<const Tensor> in = amp::cast_inputs(info, given, cast);
  WICK_CHECK(in[0].dtype() == in[1].dtype(), "einsum: dtypes differ: got ", a.dtype(), " and ",
             b.dtype());
  return matmul(in[0], in[1]);
}

// The product of two, summed over what `keep` does not name: one batched matrix product.
Labelled multiplied(const Labelled& left, const Labelled& right, const std::string& keep,
                    const std::string& equation) {
  const Labelled a = without_broadcast(summed(left, keep + right.labels), right, equation);
  const Labelled b = without_broadcast(summed(right, keep + left.labels), left, equation);
  std::string batch, only_a, only_b, inner;
  for (const char label : a.labels) {
    if (!b.has(label)) {
      only_a += label;
    } else if (keep.find(label) != std::string::npos) {
      batch += label;
    } else {
      inner += label;
    }
  }
  for (const char label : b.labels) {
    if (!a.has(label)) only_b += label;
  }
  Shape shape;
  int64_t batches = 1, rows = 1, columns = 1, depth = 1;
  const auto take = [&](const std::string& labels, const Labelled& from, int64_t& count,
                        bool keeps) {
    for (const char label : labels) {
      const int64_t n = size_of_label(from, label);
      count *= n;
      if (keeps) shape.push_back(n);
    }
  };
  take(batch, a, batches, true);
  take(only_a, a, rows, true);
  take(only_b, b, columns, true);
  take(inner, a, depth, false);
  const Tensor x = ordered(a, batch + only_a + inner).reshape({batches, rows, depth});
  const Tensor y = ordered(b, batch + inner + only_b).reshape({batches, depth, columns});
  const std::string labels = batch + only_a + only_b;
  // Without a sum the product of elements is exact and does not need a matrix product.
  const Tensor z = depth == 1 && inner.empty() ? x * y : matrix_product(x, y);
  return {z.reshape(shape), labels};
}

// The labels of the result, if the equation has no arrow.
std::string implied_result(std::string all) {
  std::string result;
  std::sort(all.begin(), all.end());
  for (const char label : all) {
    const bool once = std::count(all.begin(), all.end(), label) == 1;
    const bool listed = result.find(label) != std::string::npos;
    if (!listed && (once || label <= kLastOfEllipsis)) result += label;
  }
  return result;
}

// The product of all, summed over what `result` does not name.
Tensor product_of(const std::vector<Labelled>& in, const std::string& result,
                  const std::string& equation) {
  Labelled product = in[0];
  for (size_t i = 1; i < in.size(); ++i) {
    std::string keep = result;
    for (size_t j = i + 1; j < in.size(); ++j) keep += in[j].labels;
    product = multiplied(product, in[i], keep, equation);
  }
  return ordered(summed(product, result), result);
}

// Whether the product is more than one op that rounds: more than two operands, or two of which one
// is summed before they are multiplied.
bool rounds_between(const std::vector<Labelled>& in, const std::string& result) {
  if (in.size() != 2) return in.size() > 2;
  const auto is_summed = [&](const Labelled& one, const Labelled& other) {
    return std::any_of(one.labels.begin(), one.labels.end(), [&](char label) {
      return !other.has(label) && result.find(label) == std::string::npos;
    });
  };
  return is_summed(in[0], in[1]) || is_summed(in[1], in[0]);
}

// product_of without rounding between its steps.
Tensor wide_product_of(std::vector<Labelled> in, const std::string& result,
                       const std::string& equation) {
  std::vector<Tensor> given, cast;
  for (const Labelled& one : in) given.push_back(one.x);
  const std::span<const Tensor> operands = amp::cast_inputs(kInfo, given, cast);
  return computed_wide({operands.begin(), operands.end()}, [&](const std::vector<Tensor>& x) {
    for (size_t i = 0; i < in.size(); ++i) in[i].x = x[i];
    return product_of(in, result, equation);
  });
}

int ellipsis_axes(const std::string& equation, const std::string& term, const Tensor& x) {
  if (term.find("...") == std::string::npos) return 0;
  const int axes = x.rank() - static_cast<int>(term.size() - 3);
  if (axes < 0) wrong_equation(equation, "an operand has too few axes");
  return axes;
}

}  // namespace

Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands) {
  WICK_CHECK(!operands.empty(), "einsum: got no operands, expected one or more");
  std::string text;
  std::copy_if(equation.begin(), equation.end(), std::back_inserter(text),
               [](char c) { return c != ' '; });
  const size_t arrow = text.find("->");
  std::vector<std::string> terms(1);
  for (const char c : text.substr(0, arrow)) {
    if (c == ',') {
      terms.emplace_back();
    } else {
      terms.back() += c;
    }
  }
  if (terms.size() != operands.size())
    wrong_equation(equation, "another number of terms than operands");
  std::vector<Labelled> in;
  std::string all;
  int most = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    const int axes = ellipsis_axes(equation, terms[i], operands[i]);
    most = std::max(most, axes);
    Labelled one{operands[i], labels_of(equation, terms[i], axes)};
    if (static_cast<int>(one.labels.size()) != operands[i].rank()) {
      wrong_equation(equation, "a term and its operand have unlike numbers of axes");
    }
    all += one.labels;
    in.push_back(without_repeats(std::move(one), equation));
  }
  const std::string result = arrow == std::string::npos
                                 ? implied_result(all)
                                 : labels_of(equation, text.substr(arrow + 2), most);
  for (size_t i = 0; i < result.size(); ++i) {
    if (all.find(result[i]) == std::string::npos ||
        result.find(result[i], i + 1) != std::string::npos) {
      wrong_equation(equation, "the result names an axis twice, or one that no operand has");
    }
  }
  const Tensor y = rounds_between(in, result) ? wide_product_of(in, result, equation)
                                              : product_of(in, result, equation);
  return in.size() == 1 && y.address() == operands[0].address() ? y.clone() : y;
}

Tensor tensordot(const Tensor& a, const Tensor& b, const Shape& axes_a, const Shape& axes_b) {
  const char* op = "tensordot";
  WICK_CHECK(axes_a.rank() == axes_b.rank(), op, ": numbers of axes differ: got ", axes_a, " and ",
             axes_b);
  uint32_t used_a = 0, used_b = 0;
  Shape order_a, order_b, shape;
  int64_t depth = 1;
  Shape wrapped_a, wrapped_b;
  for (int i = 0; i < axes_a.rank(); ++i) {
    const int p = wrap_axis(op, axes_a[i], a.rank()), q = wrap_axis(op, axes_b[i], b.rank());
    WICK_CHECK((used_a >> p & 1) == 0 && (used_b >> q & 1) == 0, op, ": an axis comes twice: got ",
               axes_a, " and ", axes_b, ", expected each at most once");
    WICK_CHECK(a.size(p) == b.size(q), op, ": sizes differ: got axes ", p, " and ", q, " of ",
               a.shape(), " and ", b.shape());
    used_a |= 1u << p;
    used_b |= 1u << q;
    wrapped_a.push_back(p);
    wrapped_b.push_back(q);
    depth *= a.size(p);
  }
  int64_t rows = 1, columns = 1;
  for (int i = 0; i < a.rank(); ++i) {
    if ((used_a >> i & 1) != 0) continue;
    order_a.push_back(i);
    shape.push_back(a.size(i));
    rows *= a.size(i);
  }
  for (const int64_t axis : wrapped_a) order_a.push_back(axis);
  for (const int64_t axis : wrapped_b) order_b.push_back(axis);
  for (int i = 0; i < b.rank(); ++i) {
    if ((used_b >> i & 1) != 0) continue;
    order_b.push_back(i);
    shape.push_back(b.size(i));
    columns *= b.size(i);
  }
  return matmul(a.permute(order_a).reshape({rows, depth}),
                b.permute(order_b).reshape({depth, columns}))
      .reshape(shape);
}

Tensor tensordot(const Tensor& a, const Tensor& b, int64_t axes) {
  WICK_CHECK(axes >= 0 && axes <= a.rank() && axes <= b.rank(),
             "tensordot: wrong number of axes: ", "got ", axes, " for shapes ", a.shape(), " and ",
             b.shape());
  Shape axes_a, axes_b;
  for (int64_t i = 0; i < axes; ++i) {
    axes_a.push_back(a.rank() - axes + i);
    axes_b.push_back(i);
  }
  return tensordot(a, b, axes_a, axes_b);
}

Tensor inner(const Tensor& a, const Tensor& b) {
  if (a.rank() == 0 || b.rank() == 0) return a * b;
  return tensordot(a, b, {-1}, {-1});
}

Tensor kron(const Tensor& a, const Tensor& b) {
  const int rank = std::max(a.rank(), b.rank());
  const auto axis_of = [rank](const Tensor& x, int i) {
    const int own = i - (rank - x.rank());
    return own < 0 ? 1 : x.size(own);
  };
  Shape left, right, shape;
  for (int i = 0; i < rank; ++i) shape.push_back(axis_of(a, i) * axis_of(b, i));
  for (int i = 0; i < rank; ++i) {
    for (const int64_t n : {axis_of(a, i), int64_t{1}}) left.push_back(n);
    for (const int64_t n : {int64_t{1}, axis_of(b, i)}) right.push_back(n);
  }
  return (a.reshape(left) * b.reshape(right)).reshape(shape);
}

Tensor mv(const Tensor& matrix, const Tensor& vector) {
  WICK_CHECK(matrix.rank() == 2 && vector.rank() == 1, "mv: wrong number of axes: got shapes ",
             matrix.shape(), " and ", vector.shape(), ", expected [M, K] and [K]");
  return matmul(matrix, vector);
}

namespace {
// factor x, which is of x's dtype: factors of integers lose their fractions.
Tensor scaled(const Tensor& x, Scalar factor) {
  if (factor.to_double() == 1) return x;
  if (x.dtype() == kBool) return factor.to_double() != 0 ? x : zeros_like(x);
  return mul(x, is_floating(x.dtype()) ? factor : Scalar(factor.to_int64()));
}

// beta x + alpha product(a, b), rounded once; x is not read where beta is 0.
template <class Product>
Tensor added(const Tensor& x, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha,
             const Product& product) {
  return computed_wide({x, a, b}, [&](const std::vector<Tensor>& in) {
    const Tensor y = scaled(product(in[1], in[2]), alpha);
    return beta.to_double() == 0 ? y : add(scaled(in[0], beta), y);
  });
}
}  // namespace

Tensor baddbmm(const Tensor& x, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) {
  check_defined("baddbmm", x, a, b);
  return added(x, a, b, beta, alpha, [](const Tensor& p, const Tensor& q) { return bmm(p, q); });
}
Tensor addmv(const Tensor& x, const Tensor& matrix, const Tensor& vector, Scalar beta,
             Scalar alpha) {
  check_defined("addmv", x, matrix, vector);
  return added(x, matrix, vector, beta, alpha,
               [](const Tensor& p, const Tensor& q) { return mv(p, q); });
}
Tensor addr(const Tensor& x, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) {
  check_defined("addr", x, a, b);
  WICK_CHECK(is_floating(x.dtype("addr")) || (beta.is_integral() && alpha.is_integral()),
             "addr: factors of integers must be whole: got beta ", beta.to_double(), " and alpha ",
             alpha.to_double());
  return added(x, a, b, beta, alpha, [](const Tensor& p, const Tensor& q) { return outer(p, q); });
}

Tensor addbmm(const Tensor& x, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) {
  check_defined("addbmm", x, a, b);
  return added(x, a, b, beta, alpha,
               [](const Tensor& p, const Tensor& q) { return sum(bmm(p, q), {0}); });
}

Tensor vdot(const Tensor& a, const Tensor& b) {
  check_defined("vdot", a, b);
  return dot(a, b);
}

Tensor cross(const Tensor& a, const Tensor& b, int64_t axis) {
  WICK_CHECK(a.size(axis) == 3 && b.size(axis) == 3, "cross: sizes along axis ", axis, ": got ",
             a.size(axis), " and ", b.size(axis), ", expected 3");
  return computed_wide({a, b}, [&](const std::vector<Tensor>& in) {
    return roll(in[0], -1, axis) * roll(in[1], -2, axis) -
           roll(in[0], -2, axis) * roll(in[1], -1, axis);
  });
}

}  // namespace wick
