#pragma once

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "wick/core/autograd.h"
#include "wick/core/gradcheck.h"
#include "wick/core/tensor.h"
#include "wick/tests/harness/host_array.h"

// One declaration per op makes all its tests, in tests/core/ops/<family>_test.cpp:
//
//   WICK_OP_CASE(softmax,
//       .samples = {{normal({31, 33})}, {normal({1})}, {normal({0, 5})}, {normal({2, 127, 3})}},
//       .call = [](const Tensors& x) -> Tensors { return {softmax(x[0], 0)}; },
//       .reference = [](const Arrays& x) -> Arrays { ... plain loops in double ... },
//       .tolerance = Tolerance::reduction(),
//       .second_order = true)
//
// What is checked, one GoogleTest test each ("softmax.values_float32"):
//   values_DTYPE     against the reference in double, on memory full of NaN, with guard bytes
//                    around the inputs, which must stay as they are; two runs give the same bits
//   gradients_DTYPE  against those in float64; in 16 bits also with a graph, if `second_order`
//   gradcheck        float64 gradients against central differences (core/gradcheck.h)
//   gradgradcheck    second derivatives, if `second_order`
//   layouts          every input transposed, strided, expanded, misaligned, channels-last, and the
//                    inputs in different layouts: the values and gradients of contiguous ones
//   threads          1 and 2 threads give the same bits
//   graph_DTYPE      traced with its gradients, stored, loaded, and run on other inputs: the bits
//   of
//                    the call; or an error of the trace, if `traceable` is false
//   flops            as counted by the op, if `flops` is given
//   other_device     values and gradients against the CPU's, in a build with another device
// Without `reference`, values are compared with those of the same call in float64; golden cases or
// `composed` (other ops that give the same) then have to show that these are right.
// Designated fields go in the order of their declaration.

namespace wick::testing {

using Arrays = std::vector<HostArray>;

/// How to make one input.
struct Input {
  enum class Fill { kUniform, kNormal, kDistinct, kIndex, kMask };
  Shape shape;
  Fill fill = Fill::kUniform;
  double low = -1;
  double high = 1;
  std::optional<Dtype> dtype = {};  // fixed, whatever the dtype under test
  bool grad = true;                 // differentiate by it
  std::vector<double> kinks = {};   // values to keep 0.05 away from

  /// The same, not differentiated.
  Input constant() const;
  /// The same, away from points where the op is not smooth.
  Input avoiding(std::vector<double> points) const;
};
Input uniform(const Shape& shape, double low = -2, double high = 2);
Input normal(const Shape& shape);
/// Multiples of 1/8 around 0 in random order, no two equal: for max, sort, pooling. At most 256
/// elements are distinct in bfloat16.
Input distinct(const Shape& shape);
/// Integers in [low, high).
Input index(const Shape& shape, int64_t low, int64_t high, Dtype dtype = kInt64);
/// Random booleans.
Input mask(const Shape& shape);

using Sample = std::vector<Input>;
using Samples = std::vector<Sample>;

/// Samples with an input of more elements show what threads do, and are not used for gradients.
inline constexpr int64_t kLargeSample = 20000;
int64_t largest_input(const Sample& sample);

/// Shapes that every elementwise op must take: empty, rank 0, size 1, odd, more than a vector or a
/// thread's share.
std::vector<Shape> standard_shapes();
/// One sample per standard shape, of one input each.
Samples unary_samples(double low = -2, double high = 2, std::vector<double> kinks = {});
/// Two inputs each: of one shape, and of shapes that broadcast both ways.
Samples binary_samples(double low = -2, double high = 2);

/// |got - want| <= eps * (factor * |want| + floor * max(1, largest |want|)), where eps is that of
/// float64 or float32; 16-bit results are rounded once beside that (half_exceptions.h), but for
/// those of exact ops.
struct Tolerance {
  double factor;
  double floor;
  constexpr bool is_exact() const { return factor == 0; }
  static constexpr Tolerance exact() { return {0, 0}; }
  static constexpr Tolerance elementwise() { return {8, 1}; }
  static constexpr Tolerance reduction() { return {16, 8}; }
  static constexpr Tolerance matmul() { return {64, 32}; }
};

struct OpCase {
  std::string name = {};
  /// Ops that the case stands for beside those found in its graph: non-differentiable ones.
  std::vector<std::string> covers = {};
  Samples samples = {};
  TensorFunction call = {};
  std::function<Arrays(const Arrays&)> reference = {};
  /// Another way to compute the same with ops, compared in float64 (values and gradients).
  TensorFunction composed = {};
  std::vector<Dtype> dtypes = {kFloat64, kFloat32, kFloat16, kBFloat16};
  /// Of floating outputs; unset: that of the inputs.
  std::optional<Dtype> output_dtype = {};
  Tolerance tolerance = Tolerance::elementwise();
  bool differentiable = true;
  bool second_order = false;
  bool any_layout = true;            // false: an input's memory layout is part of the op's meaning
  bool traceable = true;             // false: the host reads or decides, and a trace refuses
  bool storable = true;              // false: an attribute has no written form
  bool same_for_any_threads = true;  // false: sums are split by threads
  /// Floating point operations on a sample; unset: not checked.
  std::function<double(const Tensors&)> flops = {};
};

/// `reference` of an op that maps each element.
std::function<Arrays(const Arrays&)> elementwise(double (*function)(double));
/// `reference` of an op that maps each pair, with broadcasting.
std::function<Arrays(const Arrays&)> elementwise(double (*function)(double, double));

/// Whether a case has samples above kLargeSample elements, or below.
bool has_samples(const OpCase& op_case, bool large);

/// The inputs of sample `index` of a case: the same in every run.
Arrays make_inputs(const OpCase& op_case, size_t index);
Arrays make_inputs(const std::string& seed, const Sample& sample);

/// All cases of this program.
const std::vector<OpCase>& op_cases();

struct OpCaseRegistration {
  explicit OpCaseRegistration(OpCase op_case, const char* file, int line);
};

}  // namespace wick::testing

/// Declares the case `id` and its tests; the other arguments are fields of OpCase.
#define WICK_OP_CASE(id, ...)                                  \
  const ::wick::testing::OpCaseRegistration wick_op_case_##id( \
      ::wick::testing::OpCase{.name = #id, __VA_ARGS__}, __FILE__, __LINE__)
