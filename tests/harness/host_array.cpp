#include "wick/tests/harness/host_array.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace wick::testing {
namespace {

constexpr size_t kGuardBytes = 128;
constexpr unsigned char kGuard = 0xA5;

// Strides of `shape` in `layout`, and the elements they span.
Strides strides_for(const Shape& shape, Layout layout, int64_t* span) {
  Strides strides = contiguous_strides(shape);
  const int rank = shape.rank();
  switch (layout) {
    case Layout::kTransposed: {
      int64_t step = 1;
      for (int i = 0; i < rank; ++i) {
        strides[i] = step;
        step *= std::max<int64_t>(shape[i], 1);
      }
      break;
    }
    case Layout::kStrided:
      for (int i = 0; i < rank; ++i) strides[i] *= 2;
      break;
    case Layout::kExpanded:
      if (rank > 0) strides[0] = 0;
      break;
    case Layout::kChannelsLast:
      if (rank == 4) strides = channels_last_strides(shape);
      break;
    case Layout::kContiguous:
    case Layout::kOffset: break;
  }
  *span = shape.numel() == 0 ? 0 : 1;
  for (int i = 0; i<rank&& * span> 0; ++i) *span += (shape[i] - 1) * strides[i];
  return strides;
}

template <class Visit>
void for_each_offset(const Shape& shape, const Strides& strides, const Visit& visit) {
  const int64_t n = shape.numel();
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i;
    int64_t offset = 0;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      offset += rest % shape[axis] * strides[axis];
      rest /= shape[axis];
    }
    visit(i, offset);
  }
}

template <class T>
T from_double(double value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return T(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    return value != 0;
  } else {
    return static_cast<T>(value);
  }
}

template <class T>
double to_double(T value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return static_cast<double>(value);
  }
}

std::string position(const Shape& shape, int64_t index) {
  Shape at = shape;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    at[axis] = index % shape[axis];
    index /= shape[axis];
  }
  return to_string(at);
}

}  // namespace

const char* to_string(Layout layout) {
  switch (layout) {
    case Layout::kContiguous: return "contiguous";
    case Layout::kTransposed: return "transposed";
    case Layout::kStrided: return "strided";
    case Layout::kExpanded: return "expanded";
    case Layout::kOffset: return "offset";
    case Layout::kChannelsLast: return "channels_last";
  }
  return "?";
}

GuardedTensor::GuardedTensor(const HostArray& array, Dtype dtype, Layout layout, Device device) {
  int64_t span = 0;
  const Strides strides = strides_for(array.shape, layout, &span);
  const size_t element = static_cast<size_t>(size_of(dtype));
  const size_t guard = kGuardBytes + (layout == Layout::kOffset ? element : 0);
  memory_ = std::make_shared<std::vector<unsigned char>>(
      guard + kGuardBytes + static_cast<size_t>(span) * element + 64, kGuard);
  // Row-major layouts start on a cache line, as the allocator's memory does.
  const size_t misaligned = reinterpret_cast<uintptr_t>(memory_->data()) % 64;
  unsigned char* first = memory_->data() + guard + (64 - misaligned) % 64;
  const HostArray values = rounded(array, dtype, layout);
  visit_dtype(dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    for_each_offset(array.shape, strides, [&](int64_t i, int64_t offset) {
      const T element_value = from_double<T>(values.values[static_cast<size_t>(i)]);
      std::memcpy(first + static_cast<size_t>(offset) * sizeof(T), &element_value, sizeof(T));
    });
  });
  before_ = *memory_;
  tensor_ = from_blob(
      first, array.shape, dtype, [memory = memory_] {}, strides);
  if (device.is_cpu()) return;
  // The same bytes on the device, aligned alike.
  const size_t skipped = static_cast<size_t>(first - memory_->data()) - guard;
  device_memory_ = from_blob(memory_->data() + skipped,
                             {static_cast<int64_t>(memory_->size() - skipped)}, kUint8)
                       .to(device);
  before_.erase(before_.begin(), before_.begin() + static_cast<std::ptrdiff_t>(skipped));
  tensor_ = from_blob(
      device_memory_.data<uint8_t>() + guard, array.shape, dtype, [memory = device_memory_] {},
      strides, device);
}

bool GuardedTensor::unchanged() const {
  return before_ == (device_memory_.defined() ? device_memory_.to_vector<uint8_t>() : *memory_);
}

Tensor make_tensor(const HostArray& array, Dtype dtype, Layout layout, Device device) {
  return GuardedTensor(array, dtype, layout, device).tensor();
}

HostArray read(const Tensor& tensor) {
  const Tensor host = tensor.device().is_cpu() ? tensor : tensor.detach().cpu();
  HostArray array{host.shape(), std::vector<double>(static_cast<size_t>(host.numel()))};
  visit_dtype(host.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const T* data = static_cast<const T*>(host.raw_data());
    for_each_offset(host.shape(), host.strides(), [&](int64_t i, int64_t offset) {
      array.values[static_cast<size_t>(i)] = to_double(data[offset]);
    });
  });
  return array;
}

HostArray rounded(const HostArray& array, Dtype dtype, Layout layout) {
  HostArray result = array;
  if (layout == Layout::kExpanded && array.shape.rank() > 0 && array.shape[0] > 0) {
    const size_t row = array.values.size() / static_cast<size_t>(array.shape[0]);
    for (size_t i = row; i < array.values.size(); ++i) result.values[i] = array.values[i % row];
  }
  visit_dtype(dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    for (double& value : result.values) value = to_double(from_double<T>(value));
  });
  return result;
}

Tensor counting(const Shape& shape) { return arange(0, shape.numel()).reshape(shape); }

bool bit_equal(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return false;
  const HostArray x = read(a);
  const HostArray y = read(b);
  return x.values.empty() ||
         std::memcmp(x.values.data(), y.values.data(), x.values.size() * sizeof(double)) == 0;
}

double unit_in_last_place(Dtype dtype, double value) {
  const int digits = dtype == kFloat64 ? 52 : dtype == kFloat32 ? 23 : dtype == kFloat16 ? 10 : 7;
  const int least = dtype == kFloat64 ? -1022 : dtype == kFloat16 ? -14 : -126;
  return std::ldexp(1, (value == 0 ? least : std::max(std::ilogb(value), least)) - digits);
}

std::string difference(const HostArray& got, const HostArray& want, double rtol, double atol) {
  return difference(got, want, [=](double size) { return atol + rtol * size; });
}

std::string difference(const HostArray& got, const HostArray& want,
                       const std::function<double(double)>& allowed_at) {
  if (!(got.shape == want.shape)) {
    return concat("shape is ", got.shape, ", expected ", want.shape);
  }
  int64_t wrong = 0;
  size_t worst = 0;
  double worst_excess = -1;
  for (size_t i = 0; i < want.values.size(); ++i) {
    const double g = got.values[i];
    const double w = want.values[i];
    if (g == w || (std::isnan(g) && std::isnan(w))) continue;
    const double allowed = allowed_at(std::fabs(w));
    const double error = std::fabs(g - w);
    if (error <= allowed && std::isfinite(w)) continue;
    ++wrong;
    double excess = allowed > 0 ? error / allowed : error;
    if (std::isnan(excess) || !std::isfinite(w)) excess = HUGE_VAL;
    if (excess > worst_excess) {
      worst_excess = excess;
      worst = i;
    }
  }
  if (wrong == 0) return "";
  return concat(wrong, " of ", want.values.size(), " elements are wrong, the worst at ",
                position(want.shape, static_cast<int64_t>(worst)), ": got ", got.values[worst],
                ", expected ", want.values[worst], " (allowed error ",
                allowed_at(std::fabs(want.values[worst])), ")");
}

void dirty_memory(const std::vector<Tensor>& like) {
  std::vector<Tensor> held;
  for (const Tensor& tensor : like) {
    if (!tensor.device().is_cpu() || tensor.numel() == 0) continue;
    for (int i = 0; i < 4; ++i) {
      held.push_back(empty_like(tensor));
      std::memset(held.back().raw_data(), 0xFF,
                  static_cast<size_t>(tensor.numel() * size_of(tensor.dtype())));
    }
  }
}

}  // namespace wick::testing
