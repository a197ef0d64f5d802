#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "wick/core/tensor.h"

// Rows of `wick bench`: one file per kernel family declares them, and they register themselves.
namespace wick::bench {

using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

/// Where rows run and how large they are.
struct Setting {
  Device device = kCpu;
  int64_t shrink = 1;  // sizes that may be smaller are divided by it

  int64_t some(int64_t n) const { return std::max<int64_t>(1, n / shrink); }
};

/// A row with its inputs in memory.
struct Work {
  std::function<void()> call;                    // what is timed; on a GPU it is queued
  std::function<std::string()> check = nullptr;  // what is wrong with its result; empty: nothing
  double bytes = 0;                              // that must move at least
  double flops = 0;                              // multiplications and additions
};

struct Row {
  std::string name;        // family/what/.../dtype
  Dtype dtype = kFloat32;  // whose arithmetic bounds it
  bool cpu_only = false;
  std::function<Work(const Setting&)> prepare;
};

/// All rows, by name.
const std::vector<Row>& rows();

/// Registers one row.
bool add_row(Row row);
/// Calls `add`, which registers rows, when rows are first asked for: of what other files register.
bool add_rows_later(std::function<void()> add);

/// One op, from which rows of its forward and backward are made in each dtype:
/// NAME/forward/float32, NAME/backward/float32, ...
struct OpRow {
  std::string name;
  /// On the CPU; those that are float32 become the row's dtype.
  std::function<Tensors(const Setting&)> inputs;
  Function call;
  /// The same from simpler ops, run on float64 to check values and gradients. Unset: `call`.
  Function plain = nullptr;
  bool backward = true;
  std::vector<Dtype> dtypes = {kFloat32, kBFloat16};
  /// Bytes that forward must move; unset: those of inputs and outputs. Backward: the
  /// differentiated inputs twice and the gradients of the outputs.
  std::function<double(const Tensors& inputs)> bytes = nullptr;
  /// The check divides sizes by it: for what takes long in float64.
  int64_t check_shrink = 1;
};
bool add_op(const OpRow& op);

/// What the elements of `x` take.
inline double bytes_of(const Tensor& x) {
  return static_cast<double>(x.numel()) * static_cast<double>(size_of(x.dtype()));
}
double bytes_of(const Tensors& tensors);

/// What is wrong with `got`, if it is not `want` as far as `dtype` can say: floating elements to
/// some units in the last place of their own size and of the largest element's, four in a million
/// excepted. Empty: nothing.
std::string difference(const Tensors& got, const Tensors& want, Dtype dtype);

Tensor normal(const Shape& shape);
Tensor uniform(const Shape& shape, double low, double high);
/// Channels-last.
Tensor normal_images(const Shape& shape);
/// int64 in [0, high).
Tensor indices(const Shape& shape, int64_t high);

}  // namespace wick::bench
