#include "wick/kernels/cuda/cudnn_api.h"

#include <cuda_runtime_api.h>

#include "wick/core/base/check.h"
#include "wick/core/base/detail/dynamic_library.h"
#include "wick/kernels/cuda/common/library_error.h"

namespace wick::cuda {

namespace {

constexpr const char* kFile = "libcudnn.so.9";

bool lacks_memory(cudnnStatus_t status) {
  return status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
         status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
}

}  // namespace

bool has_cudnn() {
  static const bool has = !find_library(kFile).empty();
  return has;
}

CudnnApi::CudnnApi() {
  // cuDNN opens these by their names alone; what is open already is found wherever it lies.
  for (const char* const name : {"libcublasLt.so.", "libnvrtc.so."}) {
    (void)find_library(concat(name, int64_t{CUDART_VERSION / 1000}));
  }
  const DynamicLibrary library("cuDNN 9", kFile);
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
  const char* const detail = detail_text;
  fail_library(call, concat(cudnn().error_string(status), " ", detail), lacks_memory(status));
}

bool is_supported(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return true;
  if (lacks_memory(status)) check_cudnn(status, call);  // no answer: there may be more next time
  check_device(call, cudnn().error_string(status));
  return false;
}

}  // namespace wick::cuda
