#include "wick/tests/harness/op_case.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "wick/tests/harness/op_case_checks.h"

namespace wick::testing {
namespace {

uint64_t hash(const std::string& text) {
  uint64_t h = 14695981039346656037u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return h;
}

Input input(const Shape& shape, Input::Fill fill, double low = 0, double high = 1) {
  Input result;
  result.shape = shape;
  result.fill = fill;
  result.low = low;
  result.high = high;
  return result;
}

HostArray make_input(const Input& spec, std::mt19937_64& random) {
  const auto n = static_cast<size_t>(spec.shape.numel());
  HostArray array{spec.shape, std::vector<double>(n)};
  std::uniform_real_distribution<double> uniform_in(spec.low, spec.high);
  std::normal_distribution<double> normal_in;
  if (spec.fill == Input::Fill::kDistinct) {
    std::iota(array.values.begin(), array.values.end(), -static_cast<double>(n / 2));
    std::shuffle(array.values.begin(), array.values.end(), random);
    for (double& value : array.values) value /= 8;
    return array;
  }
  for (double& value : array.values) {
    switch (spec.fill) {
      case Input::Fill::kNormal: value = normal_in(random); break;
      case Input::Fill::kIndex: value = std::floor(uniform_in(random)); break;
      case Input::Fill::kMask: value = random() % 2 == 0 ? 0 : 1; break;
      default: value = uniform_in(random);
    }
    for (const double kink : spec.kinks) {
      if (std::fabs(value - kink) < 0.05) value = kink + (value < kink ? -0.05 : 0.05);
    }
  }
  return array;
}

// Reads `array` as if broadcast to `shape`.
double broadcast_at(const HostArray& array, const Shape& shape, int64_t index) {
  int64_t offset = 0;
  int64_t step = 1;
  for (int axis = shape.rank() - 1, own = array.shape.rank() - 1; own >= 0; --axis, --own) {
    const int64_t at = index % shape[axis];
    index /= shape[axis];
    if (array.shape[own] != 1) offset += at * step;
    step *= array.shape[own];
  }
  return array.values[static_cast<size_t>(offset)];
}

}  // namespace

Input Input::constant() const {
  Input result = *this;
  result.grad = false;
  return result;
}

Input Input::avoiding(std::vector<double> points) const {
  Input result = *this;
  result.kinks = std::move(points);
  return result;
}

Input uniform(const Shape& shape, double low, double high) {
  return input(shape, Input::Fill::kUniform, low, high);
}
Input normal(const Shape& shape) { return input(shape, Input::Fill::kNormal); }
Input distinct(const Shape& shape) { return input(shape, Input::Fill::kDistinct); }

Input index(const Shape& shape, int64_t low, int64_t high, Dtype dtype) {
  Input result =
      input(shape, Input::Fill::kIndex, static_cast<double>(low), static_cast<double>(high));
  result.dtype = dtype;
  result.grad = false;
  return result;
}

Input mask(const Shape& shape) {
  Input result = input(shape, Input::Fill::kMask);
  result.dtype = kBool;
  result.grad = false;
  return result;
}

int64_t largest_input(const Sample& sample) {
  int64_t most = 0;
  for (const Input& input : sample) most = std::max(most, input.shape.numel());
  return most;
}

bool has_samples(const OpCase& op_case, bool large) {
  return std::any_of(op_case.samples.begin(), op_case.samples.end(), [&](const Sample& sample) {
    return (largest_input(sample) > kLargeSample) == large;
  });
}

std::vector<Shape> standard_shapes() {
  return {{}, {1}, {0}, {3, 0}, {31}, {33, 1}, {127}, {5, 41, 5}, {2, 3, 4, 5}, {3, 30001}};
}

Samples unary_samples(double low, double high, std::vector<double> kinks) {
  Samples samples;
  for (const Shape& shape : standard_shapes()) {
    samples.push_back({uniform(shape, low, high).avoiding(kinks)});
  }
  return samples;
}

Samples binary_samples(double low, double high) {
  Samples samples;
  for (const Shape& shape : standard_shapes()) {
    samples.push_back({uniform(shape, low, high), uniform(shape, low, high)});
  }
  const std::pair<Shape, Shape> broadcast[] = {
      {{3, 1}, {1, 33}}, {{}, {31}}, {{2, 3, 4}, {4}},          {{5}, {3, 1, 5}},
      {{0}, {1}},        {{1}, {7}}, {{2, 1, 3, 1}, {4, 1, 5}}, {{300, 3}, {3}}};
  for (const auto& shapes : broadcast) {
    samples.push_back({uniform(shapes.first, low, high), uniform(shapes.second, low, high)});
  }
  return samples;
}

std::function<Arrays(const Arrays&)> elementwise(double (*function)(double)) {
  return [function](const Arrays& x) -> Arrays {
    HostArray y = x[0];
    for (double& value : y.values) value = function(value);
    return {y};
  };
}

std::function<Arrays(const Arrays&)> elementwise(double (*function)(double, double)) {
  return [function](const Arrays& x) -> Arrays {
    HostArray y{broadcast_shapes("reference", x[0].shape, x[1].shape), {}};
    for (int64_t i = 0; i < y.shape.numel(); ++i) {
      y.values.push_back(function(broadcast_at(x[0], y.shape, i), broadcast_at(x[1], y.shape, i)));
    }
    return {y};
  };
}

Arrays make_inputs(const std::string& seed, const Sample& sample) {
  std::mt19937_64 random(hash(seed));
  Arrays arrays;
  for (const Input& spec : sample) arrays.push_back(make_input(spec, random));
  return arrays;
}

Arrays make_inputs(const OpCase& op_case, size_t index) {
  return make_inputs(concat(op_case.name, "/", index), op_case.samples[index]);
}

namespace {
std::vector<OpCase>& mutable_op_cases() {
  static std::vector<OpCase> cases;
  return cases;
}
}  // namespace

const std::vector<OpCase>& op_cases() { return mutable_op_cases(); }

OpCaseRegistration::OpCaseRegistration(OpCase op_case, const char* file, int line) {
  mutable_op_cases().push_back(std::move(op_case));
  register_tests(op_cases().size() - 1, file, line);
}

}  // namespace wick::testing
