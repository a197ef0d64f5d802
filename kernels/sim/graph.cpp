#include <utility>

#include "wick/kernels/sim/machine.h"

// Graphs of captured work, which a launch queues again, piece by piece and in the order of the
// calls.

struct SimulatedGraph {
  std::vector<SimulatedWork> work;
};
struct SimulatedGraphExec {
  std::vector<SimulatedWork> work;
};

namespace wick::sim {

namespace {

thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

}  // namespace

cudaError_t invalidate(SimulatedStream& stream, cudaError_t error) {
  if (stream.capture != nullptr) stream.capture->invalidated = true;
  return error;
}

cudaError_t refuse_in_capture(const Machine& m) {
  if (thread_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  for (const auto& s : m.streams) {
    if (s->capture == nullptr) continue;
    const cudaStreamCaptureMode mode = s->capture->mode;
    const bool own = s->capture->thread == std::this_thread::get_id();
    if ((own && mode == cudaStreamCaptureModeThreadLocal) ||
        (mode == cudaStreamCaptureModeGlobal && thread_mode == cudaStreamCaptureModeGlobal)) {
      return report(invalidate(*s, cudaErrorStreamCaptureUnsupported));
    }
  }
  return cudaSuccess;
}

}  // namespace wick::sim

using wick::sim::report;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  WICK_SIM_ENTER("cudaStreamBeginCapture");
  SimulatedStream* s = m.find(stream);
  if (s == nullptr) return report(cudaErrorInvalidResourceHandle);
  if (stream == nullptr) return report(cudaErrorStreamCaptureUnsupported);
  if (s->capture != nullptr) return report(cudaErrorInvalidValue);
  s->capture = std::make_shared<SimulatedCapture>(
      SimulatedCapture{.mode = mode, .thread = std::this_thread::get_id(), .origin = s});
  s->captured = s->joined = 0;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  WICK_SIM_ENTER("cudaStreamEndCapture");
  *graph = nullptr;
  SimulatedStream* s = m.find(stream);
  if (s == nullptr) return report(cudaErrorInvalidResourceHandle);
  const std::shared_ptr<SimulatedCapture> capture = s->capture;
  if (capture == nullptr) return report(cudaErrorInvalidValue);
  if (capture->origin != s) return report(cudaErrorStreamCaptureUnmatched);
  if (capture->mode != cudaStreamCaptureModeRelaxed &&
      capture->thread != std::this_thread::get_id()) {
    return report(cudaErrorStreamCaptureWrongThread);
  }
  bool all_joined = true;
  for (const auto& other : m.streams) {
    if (other->capture != capture) continue;
    all_joined = all_joined && (other.get() == s || other->joined == other->captured);
    other->capture = nullptr;
    other->captured = other->joined = 0;
  }
  if (capture->invalidated) return report(cudaErrorStreamCaptureInvalidated);
  if (!all_joined) return report(cudaErrorStreamCaptureUnjoined);
  // What the simulator did with memory meanwhile comes before all launches, whatever their stream.
  m.run_until(*s, s->queued);
  wick::sim::acquire(&s->end_token);
  *graph = new SimulatedGraph{std::move(capture->work)};
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(wick::sim::thread_mode, *mode);
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  WICK_SIM_ENTER("cudaGraphGetNodes");
  if (graph == nullptr || nodes != nullptr) return report(cudaErrorInvalidValue);
  *count = 0;
  for (const SimulatedWork& work : graph->work) *count += work.always ? 0 : 1;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  WICK_SIM_ENTER("cudaGraphInstantiate");
  if (graph == nullptr) return report(cudaErrorInvalidValue);
  *exec = new SimulatedGraphExec{graph->work};
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  WICK_SIM_ENTER("cudaGraphLaunch");
  SimulatedStream* s = m.find(stream);
  if (s == nullptr || exec == nullptr) return report(cudaErrorInvalidResourceHandle);
  uint64_t node = 0;
  for (const SimulatedWork& piece : exec->work) {
    wick::sim::WorkNote note = piece.note;
    note.graph_node = ++node;
    m.add(*s, {.name = piece.name,
               .run = piece.run,
               .always = piece.always,
               .milliseconds = piece.milliseconds,
               .note = note});
  }
  return report(m.devices[size_t(s->device)]->broken);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  if (graph == nullptr) return report(cudaErrorInvalidValue);
  delete graph;  // whether or not it is said to fail: this is called once
  WICK_SIM_ENTER("cudaGraphDestroy");
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  if (exec == nullptr) return report(cudaErrorInvalidValue);
  delete exec;
  WICK_SIM_ENTER("cudaGraphExecDestroy");
  return cudaSuccess;
}
