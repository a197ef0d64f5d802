#pragma once

#include <deque>

#include "wick/kernels/cuda/cudnn_graph.h"

// Operations of a graph on each other's results, which stay in the engine's registers. Private to
// this folder.
namespace wick::cuda {

/// Owns the descriptors, which must live as long as plans are made from the graph. Sums are held in
/// float.
class CudnnOperations {
 public:
  using Tensor = const CudnnDescriptor*;  // alive as long as this

  /// What data are handed over for, or (cudnn_number) a number.
  Tensor add(CudnnDescriptor tensor);
  /// A tensor that only other operations see.
  Tensor between(const Shape& sizes, cudnnDataType_t type = CUDNN_DATA_FLOAT);
  Tensor between(const Shape& sizes, const Shape& strides, cudnnDataType_t type);

  // Each writes y, and returns it.
  /// mode(x), or mode(x, b): b broadcasts.
  Tensor pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor b, Tensor y);
  /// Of each element its place on `axis`; y: int32.
  Tensor place(Tensor x, int64_t axis, Tensor y);
  /// x where `condition` (boolean), else b.
  Tensor select(Tensor x, Tensor b, Tensor condition, Tensor y);
  /// Over the axes where y has size 1.
  Tensor reduce(cudnnReduceTensorOp_t mode, Tensor x, Tensor y);
  /// The products of the matrices that the last two axes are.
  Tensor matmul(Tensor a, Tensor b, Tensor y);
  /// The same elements seen in y's sizes and strides.
  Tensor reshape(Tensor x, Tensor y);

  /// Undefined where cuDNN cannot do it.
  CudnnDescriptor graph(cudnnHandle_t handle) const;

 private:
  Tensor add_pointwise(CudnnDescriptor mode, Tensor x, Tensor b, Tensor condition, Tensor y);
  void add_operation(CudnnDescriptor operation);

  std::deque<CudnnDescriptor> tensors_, settings_, operations_;
  int64_t next_id_ = 1000;
  bool are_supported_ = true;
};

}  // namespace wick::cuda
