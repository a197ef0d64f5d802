#pragma once

#include <string>

#include "wick/core/base/device.h"

// Kernels that are compiled when the program runs: by NVRTC, which is opened when first needed. Of
// the simulated GPU by the host's compiler.
namespace wick::cuda {

/// The machine code of `source` for such GPUs as `device`: kept on the disk (kernel_cache.h), or
/// compiled and kept there. Error where there is no compiler, or it cannot compile the source.
std::string machine_code(Device device, const std::string& source);

/// A kernel with one parameter, a struct.
struct CompiledKernel;

/// The function `name` of `source` for the GPU `device`. It lives as long as the process. Null, and
/// `why_not` gets the reason, where there is no compiler, or it cannot compile the source.
const CompiledKernel* compile_kernel(Device device, const char* name, const std::string& source,
                                     std::string& why_not);

/// Runs it on the current stream of its device, as launch() does, with so many blocks of so many
/// threads.
void launch_compiled(const char* name, const CompiledKernel& kernel, unsigned blocks,
                     unsigned threads, const void* argument);

}  // namespace wick::cuda
