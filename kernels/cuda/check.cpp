#include "wick/core/base/check.h"

#include <array>
#include <atomic>

#include "wick/kernels/cuda/common/enter_device.h"
#include "wick/kernels/cuda/common/library_error.h"
#ifdef WICK_SIM
#include "wick/kernels/sim/simulator.h"
#endif

namespace wick::cuda {

namespace {

std::string detail_of_failure() {
#ifdef WICK_SIM
  const std::string failure = sim::last_failure();
  return failure.empty() ? failure : " (" + failure + ")";
#else
  return {};
#endif
}

std::string failure(const char* call, const std::string& what) {
  const char* op = wick::detail::current_op();
  return concat(*op == 0 ? "cuda" : op, ": ", call, " failed: ", what);
}
std::string words_for(cudaError_t status) {
  return concat(cudaGetErrorName(status), ", ", cudaGetErrorString(status), detail_of_failure());
}
[[noreturn]] void fail_device(const std::string& text) {
  throw DeviceError(concat(text,
                           "; an earlier kernel may have caused it: CUDA_LAUNCH_BLOCKING=1 shows "
                           "which; the GPU can do no more work in this process"));
}

}  // namespace

bool breaks_device(cudaError_t status) {
  switch (static_cast<int>(status)) {
    case 226:  // cudaErrorContained, which older toolkits have no name for, as the next
    case 721:  // cudaErrorTensorMemoryLeak
    case 810:  // cudaErrorMpsClientTerminated
    case 911:  // cudaErrorExternalDevice
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure: return true;
    default: return false;
  }
}

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) [[likely]]
    return;
  (void)cudaGetLastError();  // reported here: no later call shall be blamed for it
  const std::string text = failure(call, words_for(status));
  if (breaks_device(status)) fail_device(text);
  // Not only allocations take memory: a kernel's first launch loads its code.
  if (status == cudaErrorMemoryAllocation) throw OutOfMemory(text, 0);
  throw Error(text);
}

void check_device(const char* call, const std::string& what) {
  (void)cudaGetLastError();
  const cudaError_t status = cudaFree(nullptr);  // does nothing but tell of a broken device
  if (breaks_device(status)) {
    (void)cudaGetLastError();
    fail_device(failure(call, concat(what, " (", words_for(status), ")")));
  }
}

void fail_library(const char* call, const std::string& what, bool no_memory) {
  check_device(call, what);
  const std::string text = failure(call, what);
  if (no_memory) throw OutOfMemory(text, 0);
  throw Error(text);
}

namespace {
thread_local int entered = -1;       // by this thread
std::atomic<int> last_entered = -1;  // by any
}  // namespace

cudaStream_t enter_device(Device device) {
  int current = -1;  // a library that shares the thread may have changed it
  const char* call = "cudaGetDevice";
  cudaError_t status = cudaGetDevice(&current);
  if (status == cudaSuccess && (current != device.index || entered != device.index)) {
    call = "cudaSetDevice";
    status = cudaSetDevice(device.index);
  }
  if (status == cudaErrorInvalidDevice || status == cudaErrorNoDevice ||
      status == cudaErrorInsufficientDriver) {
    (void)cudaGetLastError();
    wick::detail::fail(device, ": no such GPU in this machine");
  }
  check(status, call);
  entered = device.index;
  last_entered.store(device.index, std::memory_order_relaxed);
  return static_cast<cudaStream_t>(current_stream(device).handle);
}

namespace {
using PerGpu = std::array<std::atomic<int>, kMaxGpus>;  // 0: not asked for yet

int64_t attribute(Device device, cudaDeviceAttr which, PerGpu& known) {
  std::atomic<int>& value = known[static_cast<size_t>(device.index)];
  if (value.load(std::memory_order_relaxed) == 0) {
    int found = 0;
    WICK_CUDA_CALL(cudaDeviceGetAttribute, &found, which, device.index);
    value.store(found, std::memory_order_relaxed);
  }
  return value.load(std::memory_order_relaxed);
}
}  // namespace

int64_t multiprocessors(Device device) {
  static PerGpu known = {};
  return attribute(device, cudaDevAttrMultiProcessorCount, known);
}

int64_t compute_capability(Device device) {
  static PerGpu known = {};
  return attribute(device, cudaDevAttrComputeCapabilityMajor, known);
}

void enter_any_device() noexcept {
  const int index = last_entered.load(std::memory_order_relaxed);
  if (entered < 0 && index >= 0 && cudaSetDevice(index) != cudaSuccess) (void)cudaGetLastError();
}

}  // namespace wick::cuda
