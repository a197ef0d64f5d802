#pragma once

#include <algorithm>

#include "wick/core/base/profiling.h"
#include "wick/kernels/cuda/common/device_code.h"
#include "wick/kernels/cuda/common/enter_device.h"
#ifdef WICK_SIM
#include "wick/kernels/sim/simulator.h"
#endif

namespace wick::cuda {

/// How many threads a kernel runs with. A grid without blocks is not launched.
struct Grid {
  dim3 blocks;
  dim3 threads;
  size_t shared = 0;  // bytes of dynamic shared memory, at most 48 KiB
};

/// Most blocks of a grid whose kernel loops over what is left.
inline constexpr int64_t kMostBlocks = 1 << 20;

/// As many blocks as occupy the GPU, with `each` of them per multiprocessor.
inline int64_t blocks_to_fill(Device device, int64_t each) {
  return each * multiprocessors(device);
}

// Kernels that need more than 64 registers tell the compiler how many threads a block has, by
// __launch_bounds__: else a block of 1,024 could not be launched (tools/compile_kernels.py checks).

/// Threads of a block of grid_for, unless it is told otherwise.
inline constexpr unsigned kGridThreads = 256;

/// Blocks of `threads` for `count` elements, `per_thread` each: a loop over the grid does the rest.
inline Grid grid_for(Device device, int64_t count, int64_t per_thread = 1,
                     unsigned threads = kGridThreads) {
  const int64_t per_block = per_thread * threads;
  const int64_t blocks = std::min((count + per_block - 1) / per_block, blocks_to_fill(device, 32));
  return {dim3(static_cast<unsigned>(blocks)), dim3(threads)};
}

/// Most threads of a block of grid_of_rows.
inline constexpr unsigned kRowGridThreads = 512;

/// One block per row, threads for `columns` elements of which each takes `per_thread`.
inline Grid grid_of_rows(int64_t rows, int64_t columns, int64_t per_thread = 4) {
  int64_t threads = 32;
  while (threads < int64_t{kRowGridThreads} && threads * per_thread < columns) threads *= 2;
  return {dim3(static_cast<unsigned>(std::min(rows, kMostBlocks))),
          dim3(static_cast<unsigned>(threads))};
}

/// Runs `kernel` on the current stream of `device`; the only place where kernels are launched.
/// `name` is for errors and profilers.
template <class... Parameters, class... Arguments>
void launch(const char* name, Device device, const Grid& grid, void (*kernel)(Parameters...),
            const Arguments&... arguments) {
  if (grid.blocks.x == 0 || grid.blocks.y == 0 || grid.blocks.z == 0) return;
  const cudaStream_t stream = enter_device(device);
  const profile::KernelScope scope(name, device, stream);
#ifdef WICK_SIM
  check(sim::launch(name, grid.blocks, grid.threads, grid.shared, stream,
                    [kernel, arguments...] { kernel(arguments...); }),
        name);
#else
  kernel<<<grid.blocks, grid.threads, grid.shared, stream>>>(arguments...);
  check(cudaGetLastError(), name);
#endif
}

}  // namespace wick::cuda
