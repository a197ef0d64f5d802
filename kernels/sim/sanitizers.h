#pragma once

#include <cstddef>

// What the simulator tells the sanitizers: which stack runs, and, for ThreadSanitizer, which thread
// of a GPU or which stream the host's one thread stands for.

#if defined(__has_feature) && !defined(WICK_SIM_TSAN)
#if __has_feature(thread_sanitizer)
#define WICK_SIM_TSAN 1
#endif
#if __has_feature(address_sanitizer)
#define WICK_SIM_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define WICK_SIM_ASAN 1
#endif
#ifndef WICK_SIM_TSAN
#define WICK_SIM_TSAN 0
#endif
#ifndef WICK_SIM_ASAN
#define WICK_SIM_ASAN 0
#endif

#if WICK_SIM_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if WICK_SIM_TSAN
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
void __tsan_read_range(void* address, unsigned long bytes);
void __tsan_write_range(void* address, unsigned long bytes);
void __tsan_ignore_thread_begin();
void __tsan_ignore_thread_end();
}
#define WICK_SIM_UNWATCHED __attribute__((no_sanitize("thread"), noinline))
#else
#define WICK_SIM_UNWATCHED __attribute__((noinline))
#endif

namespace wick::sim {

/// A thread as ThreadSanitizer knows it. Null without it.
using Identity = void*;

#if WICK_SIM_TSAN
WICK_SIM_UNWATCHED inline Identity current_identity() { return __tsan_get_current_fiber(); }
WICK_SIM_UNWATCHED inline Identity make_identity() { return __tsan_create_fiber(0); }
/// From here on, and without any order between the two, this is `identity`.
WICK_SIM_UNWATCHED inline void become(Identity identity) { __tsan_switch_to_fiber(identity, 1); }
/// What was done before `release(x)` comes before what is done after `acquire(x)`.
WICK_SIM_UNWATCHED inline void acquire(void* token) { __tsan_acquire(token); }
WICK_SIM_UNWATCHED inline void release(void* token) { __tsan_release(token); }
/// From `ignore` to `watch`, what this identity does with memory is nobody's race, ...
WICK_SIM_UNWATCHED inline void ignore() { __tsan_ignore_thread_begin(); }
WICK_SIM_UNWATCHED inline void watch() { __tsan_ignore_thread_end(); }
/// ... but for what is said, in between, to be read or written.
WICK_SIM_UNWATCHED inline void note_read(const void* p, size_t bytes) {
  watch();
  __tsan_read_range(const_cast<void*>(p), bytes);
  ignore();
}
WICK_SIM_UNWATCHED inline void note_write(void* p, size_t bytes) {
  watch();
  __tsan_write_range(p, bytes);
  ignore();
}
#else
inline void ignore() {}
inline void watch() {}
inline Identity current_identity() { return nullptr; }
inline Identity make_identity() { return nullptr; }
inline void become(Identity) {}
inline void acquire(void*) {}
inline void release(void*) {}
#endif

#if WICK_SIM_ASAN
/// What code that AddressSanitizer does not see through reads and writes is looked at here: the
/// first hidden byte is touched, which it reports.
inline void note_read(const void* p, size_t bytes) {
  const void* const hidden = __asan_region_is_poisoned(const_cast<void*>(p), bytes);
  if (hidden != nullptr) (void)*static_cast<const volatile char*>(hidden);
}
inline void note_write(void* p, size_t bytes) {
  void* const hidden = __asan_region_is_poisoned(p, bytes);
  if (hidden != nullptr) *static_cast<volatile char*>(hidden) = 0;
}
#elif !WICK_SIM_TSAN
inline void note_read(const void*, size_t) {}
inline void note_write(void*, size_t) {}
#endif

inline void hide([[maybe_unused]] const void* memory, [[maybe_unused]] size_t bytes) {
#if WICK_SIM_ASAN
  __asan_poison_memory_region(memory, bytes);
#endif
}
inline void show([[maybe_unused]] const void* memory, [[maybe_unused]] size_t bytes) {
#if WICK_SIM_ASAN
  __asan_unpoison_memory_region(memory, bytes);
#endif
}

}  // namespace wick::sim
