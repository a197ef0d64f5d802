#include "wick/dist/detail/reduction.h"

#include "wick/core/ops/elementwise.h"

namespace wick::dist {

namespace {

void combine(const Tensor& total, const Tensor& x, ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage: total.add_(x); break;
    case ReduceOp::kProduct: total.mul_(x); break;
    case ReduceOp::kMin: total.copy_(minimum(total, x)); break;
    case ReduceOp::kMax: total.copy_(maximum(total, x)); break;
  }
}

bool is_16_bit_float(Dtype dtype) { return dtype == kFloat16 || dtype == kBFloat16; }

// The sum in one pass over memory for every two parts.
template <class T>
bool add_on_host(const std::vector<Tensor>& parts, ReduceOp op, const Tensor& result) {
  const bool adds = op == ReduceOp::kSum || op == ReduceOp::kAverage;
  if (!adds || result.dtype() != dtype_of<T> || parts.size() < 2) return false;
  for (const Tensor& part : parts) {
    if (!part.device().is_cpu() || !part.is_contiguous()) return false;
  }
  if (!result.device().is_cpu() || !result.is_contiguous()) return false;
  const int64_t n = result.numel();
  T* __restrict total = result.data<T>();
  const T* a = parts[0].data<T>();
  for (size_t r = 1; r < parts.size(); ++r) {
    const T* b = parts[r].data<T>();
    for (int64_t i = 0; i < n; ++i) total[i] = a[i] + b[i];
    a = total;
  }
  return true;
}

}  // namespace

void reduce_parts(const std::vector<Tensor>& parts, ReduceOp op, const Tensor& result) {
  const Device device = result.device();
  if (is_16_bit_float(result.dtype())) {
    const Tensor total = parts[0].to(device, true).to(kFloat32);
    for (size_t r = 1; r < parts.size(); ++r) {
      combine(total, parts[r].to(device, true).to(kFloat32), op);
    }
    if (op == ReduceOp::kAverage) total.div_(static_cast<int64_t>(parts.size()));
    result.copy_(total);
    return;
  }
  if (!add_on_host<float>(parts, op, result) && !add_on_host<double>(parts, op, result)) {
    result.copy_(parts[0], true);
    for (size_t r = 1; r < parts.size(); ++r) combine(result, parts[r].to(device, true), op);
  }
  if (op == ReduceOp::kAverage) result.div_(static_cast<int64_t>(parts.size()));
}

Tensor flat(const Tensor& x) {
  return x.is_contiguous() ? x.view({-1}) : x.permute({0, 2, 3, 1}).view({-1});
}

Tensor in_layout_of(const Tensor& part, const Tensor& like) {
  if (like.is_contiguous() || !like.is_contiguous(MemoryFormat::kChannelsLast)) {
    return part.view(like.shape());
  }
  const Shape& s = like.shape();
  return part.view({s[0], s[2], s[3], s[1]}).permute({0, 3, 1, 2});
}

}  // namespace wick::dist
