#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "wick/core/tensor.h"

namespace wick::testing {

using Tensors = std::vector<Tensor>;

/// Elements in double and row-major order: what references compute with, and what tensors of every
/// dtype, layout and device are made from and read back into, without any op of the library.
struct HostArray {
  Shape shape;
  std::vector<double> values;
};

/// How a test tensor lies in memory.
enum class Layout {
  kContiguous,
  kTransposed,    // the axes in reverse order
  kStrided,       // every second element of the last axis
  kExpanded,      // stride 0 along the first axis
  kOffset,        // row-major, but one element off every alignment
  kChannelsLast,  // N, H, W, C; row-major unless the rank is 4
};
inline constexpr Layout kAllLayouts[] = {Layout::kContiguous, Layout::kTransposed,
                                         Layout::kStrided,    Layout::kExpanded,
                                         Layout::kOffset,     Layout::kChannelsLast};
const char* to_string(Layout layout);

/// Memory of a test with guard bytes before and after it, and between its elements where the layout
/// leaves gaps. `tensor` lives on it, or on a copy of it on another device.
class GuardedTensor {
 public:
  GuardedTensor(const HostArray& array, Dtype dtype, Layout layout = Layout::kContiguous,
                Device device = kCpu);
  const Tensor& tensor() const { return tensor_; }
  /// Whether neither guard bytes nor elements have changed since construction.
  bool unchanged() const;

 private:
  std::shared_ptr<std::vector<unsigned char>> memory_;
  Tensor device_memory_;  // undefined on the CPU
  std::vector<unsigned char> before_;
  Tensor tensor_;
};

/// A tensor that owns its memory, guarded or not.
Tensor make_tensor(const HostArray& array, Dtype dtype, Layout layout = Layout::kContiguous,
                   Device device = kCpu);
/// All elements, whatever the dtype, layout and device.
HostArray read(const Tensor& tensor);
/// The elements as `dtype` would hold them. Along the first axis all are equal if `layout` is
/// kExpanded.
HostArray rounded(const HostArray& array, Dtype dtype, Layout layout = Layout::kContiguous);

/// Elements 0, 1, 2, ..., int64.
Tensor counting(const Shape& shape);

/// Whether shape, dtype and every bit are the same (two undefined tensors are the same). Layouts
/// may differ.
bool bit_equal(const Tensor& a, const Tensor& b);
/// Empty if |got - want| <= atol + rtol * |want| throughout; else the worst element and how many
/// are wrong. NaN is close only to NaN, infinity only to itself.
std::string difference(const HostArray& got, const HostArray& want, double rtol, double atol);
/// The same where an error of `allowed(|want|)` is close.
std::string difference(const HostArray& got, const HostArray& want,
                       const std::function<double(double)>& allowed);
/// The distance of the numbers of `dtype` around `value`: the unit in the last place.
double unit_in_last_place(Dtype dtype, double value);

/// Fills cached memory of the CPU's allocator with NaN bit patterns, where the next tensors of the
/// sizes of `like` will lie: an op that leaves elements unwritten shows. (Writes behind a tensor
/// show in the build with AddressSanitizer, which watches the allocator's memory.)
void dirty_memory(const std::vector<Tensor>& like);

}  // namespace wick::testing
