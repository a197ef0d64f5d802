#include <cstdint>
#include <cstring>

#include "wick/kernels/sim/machine.h"

// The one file of the simulator that ThreadSanitizer watches.
namespace wick::sim {

namespace {

template <class T>
void copy_elements(void* to, const void* from, size_t count) {
  for (size_t i = 0; i < count; ++i) static_cast<T*>(to)[i] = static_cast<const T*>(from)[i];
}

}  // namespace

void copy_watched(void* to, const void* from, size_t bytes) {
#if WICK_SIM_TSAN
  const auto misaligned = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from);
  if ((misaligned | bytes) % 4 == 0) return copy_elements<uint32_t>(to, from, bytes / 4);
  return copy_elements<char>(to, from, bytes);
#else
  std::memcpy(to, from, bytes);
#endif
}

}  // namespace wick::sim
