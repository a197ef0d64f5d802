#pragma once

#include "wick/kernels/cuda/common/check.h"

namespace wick::cuda {

/// Lets this thread ask the driver for memory, or for a kernel's code, although it captures.
class AllowInCapture {
 public:
  AllowInCapture() { WICK_CUDA_CALL(cudaThreadExchangeStreamCaptureMode, &mode_); }
  ~AllowInCapture() {
    if (cudaThreadExchangeStreamCaptureMode(&mode_) != cudaSuccess) (void)cudaGetLastError();
  }
  AllowInCapture(const AllowInCapture&) = delete;
  AllowInCapture& operator=(const AllowInCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace wick::cuda
