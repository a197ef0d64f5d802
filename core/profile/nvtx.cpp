#include "wick/core/profile/nvtx.h"

#include <mutex>

#include "wick/core/base/check.h"
#include "wick/core/base/profiling.h"
#include "wick/core/profile/detail/nvtx_calls.h"

namespace wick::profile {

namespace {

// How many live; the bit of wanted() is set while one does.
std::mutex mutex;
int living = 0;

}  // namespace

#ifdef WICK_NVTX
EmitNvtx::EmitNvtx() {
  const std::lock_guard lock(mutex);
  ++living;
  detail::wanted_now.fetch_or(kEmitsNvtx, std::memory_order_relaxed);
}
#else
EmitNvtx::EmitNvtx() {
  throw Error("nvtx: not in this build: got one without CUDA, expected one of the preset cuda");
}

void nvtx_push(std::string_view) noexcept {}
void nvtx_pop() noexcept {}
#endif

EmitNvtx::~EmitNvtx() {
  const std::lock_guard lock(mutex);
  if (--living == 0) detail::wanted_now.fetch_and(~kEmitsNvtx, std::memory_order_relaxed);
}

}  // namespace wick::profile
