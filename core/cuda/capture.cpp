#include "wick/core/cuda/capture.h"

#include <array>
#include <mutex>
#include <vector>

#include "wick/core/base/profiling.h"
#include "wick/kernels/cuda/common/check.h"
#include "wick/kernels/cuda/common/enter_device.h"

namespace wick::cuda {

namespace {

cudaStream_t stream_of(Stream stream) { return static_cast<cudaStream_t>(stream.handle); }

std::mutex idle_mutex;
std::array<std::vector<cudaStream_t>, kMaxGpus>& idle_streams() {
  static auto* const streams = new std::array<std::vector<cudaStream_t>, kMaxGpus>;
  return *streams;  // lives on: graphs may outlive static objects
}

void ignore(cudaError_t status) {
  if (status != cudaSuccess) (void)cudaGetLastError();
}

}  // namespace

Stream take_capture_stream(Device device) {
  enter_device(device);
  const std::lock_guard lock(idle_mutex);
  std::vector<cudaStream_t>& idle = idle_streams()[static_cast<size_t>(device.index)];
  cudaStream_t stream = nullptr;
  if (idle.empty()) {
    WICK_CUDA_CALL(cudaStreamCreateWithPriority, &stream, cudaStreamNonBlocking, 0);
  } else {
    stream = idle.back();
    idle.pop_back();
  }
  return {device, stream};
}

void give_back_capture_stream(Stream stream) noexcept {
  const std::lock_guard lock(idle_mutex);
  idle_streams()[static_cast<size_t>(stream.device.index)].push_back(stream_of(stream));
}

void begin_capture(Stream stream) {
  enter_device(stream.device);
  WICK_CUDA_CALL(cudaStreamBeginCapture, stream_of(stream), cudaStreamCaptureModeThreadLocal);
}

void* end_capture(Stream stream, int64_t* nodes) {
  enter_device(stream.device);
  cudaGraph_t graph = nullptr;
  WICK_CUDA_CALL(cudaStreamEndCapture, stream_of(stream), &graph);
  size_t count = 0;
  cudaGraphExec_t exec = nullptr;
  const char* call = "cudaGraphGetNodes";
  cudaError_t status = cudaGraphGetNodes(graph, nullptr, &count);
  if (status == cudaSuccess) {
    call = "cudaGraphInstantiate";
    status = cudaGraphInstantiate(&exec, graph, 0);
  }
  ignore(cudaGraphDestroy(graph));
  check(status, call);
  *nodes = static_cast<int64_t>(count);
  return exec;
}

void abandon_capture(Stream stream) noexcept {
  cudaGraph_t graph = nullptr;
  ignore(cudaStreamEndCapture(stream_of(stream), &graph));
  if (graph != nullptr) ignore(cudaGraphDestroy(graph));
}

void launch_graph(void* graph, Stream stream) {
  enter_device(stream.device);
  const profile::KernelScope scope("cudaGraphLaunch", stream.device, stream.handle);
  WICK_CUDA_CALL(cudaGraphLaunch, static_cast<cudaGraphExec_t>(graph), stream_of(stream));
}

void delete_graph(void* graph) noexcept {
  ignore(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)));
}

}  // namespace wick::cuda
