#include "wick/kernels/cuda/cudnn_api.h"

#include "wick/core/base/check.h"
#include "wick/core/base/dynamic_library.h"
#include "wick/kernels/cuda/common/library_error.h"

namespace wick::cuda {

CudnnApi::CudnnApi() {
  const DynamicLibrary library("cuDNN 9", "libcudnn.so.9");
  library.find(version, "cudnnGetVersion");
  library.find(create, "cudnnCreate");
  library.find(set_stream, "cudnnSetStream");
  library.find(error_string, "cudnnGetErrorString");
  library.find(last_error_string, "cudnnGetLastErrorString");
  library.find(create_descriptor, "cudnnBackendCreateDescriptor");
  library.find(destroy_descriptor, "cudnnBackendDestroyDescriptor");
  library.find(finalize, "cudnnBackendFinalize");
  library.find(set_attribute, "cudnnBackendSetAttribute");
  library.find(get_attribute, "cudnnBackendGetAttribute");
  library.find(execute, "cudnnBackendExecute");
}

const CudnnApi& cudnn() {
  static const CudnnApi instance;
  return instance;
}

void check_cudnn(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char detail_text[512] = "";
  cudnn().last_error_string(detail_text, sizeof(detail_text));
  const bool no_memory = status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
                         status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
  const char* const detail = detail_text;
  fail_library(call, concat(cudnn().error_string(status), " ", detail), no_memory);
}

bool is_supported(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return true;
  check_device(call, cudnn().error_string(status));
  return false;
}

}  // namespace wick::cuda
