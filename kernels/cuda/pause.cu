#include "wick/kernels/pause.h"

#include "wick/kernels/cuda/common/launch.h"

namespace wick::cuda {

#ifdef WICK_SIM

void pause_for(Device device, double milliseconds) {
  check(sim::enqueue(
            "pause", enter_device(device), [] {}, milliseconds),
        "pause");
}

#else

namespace {

/// Nanoseconds by a clock that runs at the same rate whatever the multiprocessors' is.
__device__ uint64_t now() {
  uint64_t time = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
  return time;
}

__global__ void pause_kernel(uint64_t nanoseconds) {
  const uint64_t start = now();
  while (now() - start < nanoseconds) __nanosleep(200);
}

}  // namespace

void pause_for(Device device, double milliseconds) {
  launch("pause", device, Grid{dim3(1), dim3(1)}, pause_kernel,
         static_cast<uint64_t>(milliseconds * 1e6));
}

#endif

}  // namespace wick::cuda
