#include "wick/kernels/cuda/cudnn_operations.h"

#include "wick/core/base/view.h"

namespace wick::cuda {

namespace {

CudnnDescriptor pointwise_mode(cudnnPointwiseMode_t mode, cudnnDataType_t computed_in) {
  CudnnDescriptor pointwise(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  pointwise.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
  pointwise.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, computed_in);
  return pointwise;
}

}  // namespace

CudnnOperations::Tensor CudnnOperations::add(CudnnDescriptor tensor) {
  tensors_.push_back(std::move(tensor));
  return &tensors_.back();
}

CudnnOperations::Tensor CudnnOperations::between(const Shape& sizes, cudnnDataType_t type) {
  return between(sizes, contiguous_strides(sizes), type);
}

CudnnOperations::Tensor CudnnOperations::between(const Shape& sizes, const Shape& strides,
                                                 cudnnDataType_t type) {
  return add(cudnn_tensor(next_id_++, type, sizes, strides, /*is_virtual=*/true));
}

CudnnOperations::Tensor CudnnOperations::pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor b,
                                                   Tensor y) {
  const bool compares = mode >= CUDNN_POINTWISE_CMP_EQ && mode <= CUDNN_POINTWISE_CMP_LE;
  CudnnDescriptor pointwise =
      pointwise_mode(mode, compares ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT);
  pointwise.finalize();
  return add_pointwise(std::move(pointwise), x, b, nullptr, y);
}

CudnnOperations::Tensor CudnnOperations::place(Tensor x, int64_t axis, Tensor y) {
  CudnnDescriptor pointwise = pointwise_mode(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32);
  pointwise.set(CUDNN_ATTR_POINTWISE_AXIS, {axis});
  pointwise.finalize();
  return add_pointwise(std::move(pointwise), x, nullptr, nullptr, y);
}

CudnnOperations::Tensor CudnnOperations::select(Tensor x, Tensor b, Tensor condition, Tensor y) {
  CudnnDescriptor pointwise = pointwise_mode(CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT);
  pointwise.finalize();
  return add_pointwise(std::move(pointwise), x, b, condition, y);
}

CudnnOperations::Tensor CudnnOperations::add_pointwise(CudnnDescriptor mode, Tensor x, Tensor b,
                                                       Tensor condition, Tensor y) {
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, mode);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *x);
  if (b != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
  if (condition != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, *condition);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *y);
  settings_.push_back(std::move(mode));
  add_operation(std::move(operation));
  return y;
}

CudnnOperations::Tensor CudnnOperations::reduce(cudnnReduceTensorOp_t mode, Tensor x, Tensor y) {
  CudnnDescriptor reduction(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  reduction.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, mode);
  reduction.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  reduction.finalize();
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, *x);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, *y);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, reduction);
  settings_.push_back(std::move(reduction));
  add_operation(std::move(operation));
  return y;
}

CudnnOperations::Tensor CudnnOperations::matmul(Tensor a, Tensor b, Tensor y) {
  CudnnDescriptor matmul(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  matmul.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  matmul.finalize();
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, *a);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, *b);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, *y);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, matmul);
  settings_.push_back(std::move(matmul));
  add_operation(std::move(operation));
  return y;
}

CudnnOperations::Tensor CudnnOperations::reshape(Tensor x, Tensor y) {
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, *x);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, *y);
  add_operation(std::move(operation));
  return y;
}

void CudnnOperations::add_operation(CudnnDescriptor operation) {
  are_supported_ = are_supported_ && operation.try_finalize();
  operations_.push_back(std::move(operation));
}

CudnnDescriptor CudnnOperations::graph(cudnnHandle_t handle) const {
  if (!are_supported_) return {};
  std::vector<const CudnnDescriptor*> operations;
  for (const CudnnDescriptor& operation : operations_) operations.push_back(&operation);
  return cudnn_graph(handle, operations);
}

}  // namespace wick::cuda
