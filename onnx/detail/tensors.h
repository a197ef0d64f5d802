#pragma once

#include <string>

#include "wick/core/tensor.h"

namespace onnx {
class TensorProto;
}

namespace wick::onnx::detail {

/// The tensor that `proto` holds, or names in a file of the folder `folder`. Sizes are checked
/// before memory is taken. Error unless the data has as many elements as the shape says.
Tensor read_tensor(const ::onnx::TensorProto& proto, const std::string& folder);

/// `x` with its data in the message.
void write_tensor(const Tensor& x, const std::string& name, ::onnx::TensorProto& proto);

/// The number of TensorProto.DataType that stands for `dtype`.
int number_of_dtype(Dtype dtype);

}  // namespace wick::onnx::detail
