#include "wick/kernels/cuda/cudnn_api.h"

#include <cuda_runtime.h>

#include "wick/core/base/check.h"
#include "wick/core/base/dynamic_library.h"

namespace wick::cuda {

CudnnApi::CudnnApi() {
  const DynamicLibrary library("cuDNN 9", "libcudnn.so.9");
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
  (void)cudaGetLastError();  // reported here: no later call shall be blamed for it
  const char* op = wick::detail::current_op();
  wick::detail::fail(*op == 0 ? "cuda" : op, ": ", call, " failed: ", cudnn().error_string(status),
                     " ", static_cast<const char*>(detail_text));
}

}  // namespace wick::cuda
