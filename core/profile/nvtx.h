#pragma once

namespace wick::profile {

/// While it lives, steps, modules, operations and their backwards, waits and RecordFunctions of all
/// threads are NVTX ranges of the domain "wick", which Nsight Systems shows beside the kernels. A
/// profiler may record at the same time. PyTorch's torch.autograd.profiler.emit_nvtx.
///
///   nsys profile -t cuda,nvtx my_program
class EmitNvtx {
 public:
  /// Error in a build without CUDA, which has no NVTX.
  EmitNvtx();
  ~EmitNvtx();
  EmitNvtx(const EmitNvtx&) = delete;
  EmitNvtx& operator=(const EmitNvtx&) = delete;
};

}  // namespace wick::profile
