#include "wick/onnx/detail/call.h"

#include <algorithm>

namespace wick::onnx::detail {

namespace {
constexpr int64_t kMaxListed = 1 << 16;  // of an input that steers an op
}

HostScope::HostScope() : ops_(op_recorder(), nullptr), thread_(thread_recorder(), nullptr) {}

const Tensor& Call::host(size_t i) const {
  WICK_CHECK(has(i), "input ", i, " is missing");
  WICK_CHECK(inputs_[i].on_host, "input ", i,
             " is not known on the host, expected one that only shapes and constants enter");
  return inputs_[i].tensor;
}

Tensor Call::operator[](size_t i) const {
  WICK_CHECK(has(i), "input ", i, " is missing");
  const Value& value = inputs_[i];
  if (!value.on_host || value.tensor.device() == device_) return value.tensor;
  const HostScope scope;
  return value.tensor.to(device_);
}

std::vector<int64_t> Call::integers_of(size_t i) const {
  const Tensor& list = host(i);
  WICK_CHECK(list.numel() <= kMaxListed && list.rank() <= 1, "input ", i,
             " is not a short list: got shape ", list.shape());
  const HostScope scope;
  return list.to(kInt64).to_vector<int64_t>();
}

std::vector<double> Call::reals_of(size_t i) const {
  const Tensor& list = host(i);
  WICK_CHECK(list.numel() <= kMaxListed && list.rank() <= 1, "input ", i,
             " is not a short list: got shape ", list.shape());
  const HostScope scope;
  return list.to(kFloat64).to_vector<double>();
}

double Call::number_of(size_t i) const {
  const Tensor& x = host(i);
  WICK_CHECK(x.numel() == 1, "input ", i, " is not one number: got shape ", x.shape());
  const HostScope scope;
  return x.to(kFloat64).reshape({}).item<double>();
}

int64_t Call::integer(std::string_view name, int64_t otherwise) const {
  const auto* value = find<int64_t>(name);
  return value != nullptr ? *value : otherwise;
}

int64_t Call::integer(std::string_view name) const {
  const auto* value = find<int64_t>(name);
  WICK_CHECK(value != nullptr, "attribute ", name, " is missing");
  return *value;
}

double Call::real(std::string_view name, double otherwise) const {
  const auto* value = find<float>(name);
  return value != nullptr ? static_cast<double>(*value) : otherwise;
}

std::string Call::text(std::string_view name, std::string_view otherwise) const {
  const auto* value = find<std::string>(name);
  return value != nullptr ? *value : std::string(otherwise);
}

std::vector<int64_t> Call::integers(std::string_view name) const {
  const auto* value = find<std::vector<int64_t>>(name);
  return value != nullptr ? *value : std::vector<int64_t>();
}

std::vector<int64_t> Call::list(std::string_view name, size_t i) const {
  return has(i) ? integers_of(i) : integers(name);
}

void Call::expect(std::string_view name, int64_t value) const {
  const int64_t got = integer(name, value);
  WICK_CHECK(got == value, "attribute ", name, ": got ", got, ", expected ", value);
}

const OpEntry* find_op(std::string_view name) {
  for (const auto& table : {math_ops(), reduce_ops(), shape_ops(), index_ops(), coordinate_ops(),
                            network_ops(), pool_ops(), recurrent_ops()}) {
    const auto found = std::find_if(table.begin(), table.end(),
                                    [&](const OpEntry& entry) { return entry.name == name; });
    if (found != table.end()) return &*found;
  }
  return nullptr;
}

Dtype dtype_of_number(int64_t number) {
  switch (number) {
    case 1: return kFloat32;
    case 2: return kUint8;
    case 6: return kInt32;
    case 7: return kInt64;
    case 9: return kBool;
    case 10: return kFloat16;
    case 11: return kFloat64;
    case 16: return kBFloat16;
    default:
      wick::detail::fail("dtype ", number,
                         " of ONNX: expected float64, float32, float16, bfloat16, int64, int32, "
                         "uint8 or bool");
  }
}

Shape per_axis(std::string_view name, const std::vector<int64_t>& list, int count, int64_t value) {
  if (list.empty()) return Shape::filled(count, value);
  WICK_CHECK(static_cast<int>(list.size()) == count, name, ": got ", list.size(),
             " entries, expected ", count);
  return Shape(list);
}

}  // namespace wick::onnx::detail
