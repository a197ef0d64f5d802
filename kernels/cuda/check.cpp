#include "wick/core/base/check.h"

#include "wick/kernels/cuda/common/enter_device.h"
#ifdef WICK_SIM
#include "wick/kernels/sim/simulator.h"
#endif

namespace wick::cuda {

namespace {

/// Errors after which the process can use the device no more.
bool breaks_device(cudaError_t status) {
  switch (status) {
    case cudaErrorECCUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorAssert:
    case cudaErrorLaunchFailure: return true;
    default: return false;
  }
}

std::string detail_of_failure() {
#ifdef WICK_SIM
  const std::string failure = sim::last_failure();
  return failure.empty() ? failure : " (" + failure + ")";
#else
  return {};
#endif
}

}  // namespace

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) [[likely]]
    return;
  (void)cudaGetLastError();  // reported here: no later call shall be blamed for it
  const char* op = wick::detail::current_op();
  const std::string text =
      concat(*op == 0 ? "cuda" : op, ": ", call, " failed: ", cudaGetErrorName(status), ", ",
             cudaGetErrorString(status), detail_of_failure());
  if (breaks_device(status)) {
    throw DeviceError(concat(text, "; the GPU can do no more work in this process"));
  }
  throw Error(text);
}

cudaStream_t enter_device(Device device) {
  static thread_local int current = -1;
  if (device.index != current) {
    const cudaError_t status = cudaSetDevice(device.index);
    if (status == cudaErrorInvalidDevice || status == cudaErrorNoDevice ||
        status == cudaErrorInsufficientDriver) {
      (void)cudaGetLastError();
      wick::detail::fail(device, ": no such GPU in this machine");
    }
    check(status, "cudaSetDevice");
    current = device.index;
  }
  return static_cast<cudaStream_t>(current_stream(device).handle);
}

}  // namespace wick::cuda
