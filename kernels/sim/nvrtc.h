#pragma once

// The part of NVRTC's interface that Wick uses. The host's compiler, the one that built Wick,
// stands for it: machine code is a shared object.

#include <cstddef>
#include <cstdint>

// clang-format off
enum nvrtcResult {
  NVRTC_SUCCESS = 0, NVRTC_ERROR_OUT_OF_MEMORY = 1, NVRTC_ERROR_INVALID_INPUT = 3,
  NVRTC_ERROR_INVALID_OPTION = 5, NVRTC_ERROR_COMPILATION = 6, NVRTC_ERROR_INTERNAL_ERROR = 11
};
// clang-format on

struct SimulatedProgram;
using nvrtcProgram = SimulatedProgram*;

const char* nvrtcGetErrorString(nvrtcResult result);
/// Another one for other compilers and options.
nvrtcResult nvrtcVersion(int* major, int* minor);
nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char* name,
                               int headers, const char* const* texts, const char* const* names);
nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program);
nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int options, const char* const* words);
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t* bytes);
nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log);
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* bytes);
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* code);

namespace wick::sim {

/// Sources that were compiled so far, whether or not they could be. WICK_SIM_COMPILER names another
/// compiler than the one that built the simulator.
int64_t compilations();

}  // namespace wick::sim
