#include <onnx/onnx_pb.h>

#include <cstring>
#include <filesystem>
#include <optional>

#include "wick/core/core.h"
#include "wick/core/file.h"
#include "wick/onnx/detail/call.h"
#include "wick/onnx/detail/tensors.h"

namespace wick::onnx::detail {

namespace {

using ::onnx::TensorProto;

size_t bytes_of(const Tensor& x) { return static_cast<size_t>(x.numel() * size_of(x.dtype())); }

uint64_t number_in(const std::string& text) {
  uint64_t number = 0;
  for (const char c : text) {
    WICK_CHECK(c >= '0' && c <= '9' && number < uint64_t{1} << 58,
               "external data: no whole number: got ", text);
    number = number * 10 + static_cast<uint64_t>(c - '0');
  }
  return number;
}

// The file of external data, which must lie in the folder of the model.
std::string path_in(const std::string& folder, const std::string& location) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path root = fs::weakly_canonical(folder.empty() ? "." : folder, error);
  const fs::path full = fs::weakly_canonical(root / location, error);
  const fs::path inside = full.lexically_relative(root);
  WICK_CHECK(!error && !location.empty() && location.find('\0') == std::string::npos &&
                 !fs::path(location).is_absolute() && !inside.empty() && *inside.begin() != "..",
             "external data outside the folder of the model: got ", location);
  return full.string();
}

struct External {
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
};

External external_of(const TensorProto& proto) {
  External external;
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") external.location = entry.value();
    if (entry.key() == "offset") external.offset = number_in(entry.value());
    if (entry.key() == "length") external.length = number_in(entry.value());
  }
  return external;
}

Tensor read_external(const TensorProto& proto, const std::string& folder, const Shape& shape,
                     Dtype dtype, uint64_t bytes) {
  const External external = external_of(proto);
  WICK_CHECK(!external.length || *external.length == bytes,
             "external data has another size than the shape: got ", *external.length,
             " bytes, expected ", bytes);
  const InputFile file(path_in(folder, external.location));
  WICK_CHECK(external.offset <= file.size() && bytes <= file.size() - external.offset,
             "external data reaches beyond its file: got ", file.size(), " bytes, expected ", bytes,
             " from ", external.offset, " on");
  Tensor x = empty(shape, dtype);
  if (bytes > 0) file.read_at(external.offset, x.raw_data(), bytes);
  return x;
}

// The field of a message that holds elements of one dtype, one by one.
template <class List>
Tensor from_list(const List& list, const Shape& shape, Dtype dtype) {
  WICK_CHECK(list.size() == shape.numel(), "the data has another size than the shape ", shape,
             ": got ", list.size(), " elements, expected ", shape.numel());
  Tensor x = empty(shape, dtype);
  visit_dtype(dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    T* to = x.data<T>();
    for (int i = 0; i < list.size(); ++i) {
      if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
        const auto bits = static_cast<uint16_t>(list[i]);
        std::memcpy(static_cast<void*>(&to[i]), &bits, sizeof bits);
      } else {
        to[i] = static_cast<T>(list[i]);
      }
    }
  });
  return x;
}

Tensor from_lists(const TensorProto& proto, const Shape& shape, Dtype dtype) {
  switch (dtype) {
    case kFloat32: return from_list(proto.float_data(), shape, dtype);
    case kFloat64: return from_list(proto.double_data(), shape, dtype);
    case kInt64: return from_list(proto.int64_data(), shape, dtype);
    default: return from_list(proto.int32_data(), shape, dtype);
  }
}

// A byte other than 0 and 1 is no bool in C++.
void make_bools(const Tensor& x) {
  if (x.dtype() != kBool) return;
  auto* bytes = static_cast<unsigned char*>(x.raw_data());
  for (int64_t i = 0; i < x.numel(); ++i) bytes[i] = bytes[i] != 0;
}

Tensor read_checked(const TensorProto& proto, const std::string& folder) {
  WICK_CHECK(proto.dims_size() <= kMaxRank, "too many axes: got ", proto.dims_size(),
             ", expected at most ", kMaxRank);
  Shape shape;
  for (const int64_t size : proto.dims()) shape.push_back(size);
  checked_numel("shape", shape);
  WICK_CHECK(!proto.has_segment(), "the tensor is in segments, expected a whole one");
  const Dtype dtype = dtype_of_number(proto.data_type());
  const uint64_t bytes = static_cast<uint64_t>(shape.numel() * size_of(dtype));
  Tensor x;
  if (proto.data_location() == TensorProto::EXTERNAL) {
    x = read_external(proto, folder, shape, dtype, bytes);
  } else if (!proto.has_raw_data()) {
    return from_lists(proto, shape, dtype);
  } else {
    WICK_CHECK(proto.raw_data().size() == bytes, "the data has another size than the shape ", shape,
               ": got ", proto.raw_data().size(), " bytes, expected ", bytes);
    x = empty(shape, dtype);
    if (bytes > 0) std::memcpy(x.raw_data(), proto.raw_data().data(), bytes);
  }
  make_bools(x);
  return x;
}

}  // namespace

Tensor read_tensor(const TensorProto& proto, const std::string& folder) {
  try {
    return read_checked(proto, folder);
  } catch (const Error& error) {
    wick::detail::fail("tensor ", proto.name(), ": ", error.what());
  }
}

int number_of_dtype(Dtype dtype) {
  constexpr int kNumbers[] = {11, 1, 10, 16, 7, 6, 2, 9};
  return kNumbers[static_cast<int>(dtype)];
}

void write_tensor(const Tensor& x, const std::string& name, TensorProto& proto) {
  const Tensor host = x.detach().to(kCpu).contiguous();
  proto.set_name(name);
  proto.set_data_type(number_of_dtype(x.dtype()));
  for (const int64_t size : x.shape()) proto.add_dims(size);
  proto.set_raw_data(host.raw_data(), bytes_of(host));
}

}  // namespace wick::onnx::detail
