#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <vector>

#include "wick/core/base/threads.h"
#include "wick/core/base/view.h"
#include "wick/core/base/workspace.h"
#include "wick/kernels/sim/simulator.h"

// What the files that stand for vendor libraries share: they queue the CPU's computation, after a
// check of what they are handed.
namespace wick::sim {

/// What runs a graph of cuDNN's.
inline constexpr const char* kCudnnCall = "cudnnBackendExecute";

/// Bytes of scratch memory that a call takes on the device.
inline constexpr size_t kScratch = 4096;

/// Scratch memory of the host, for the CPU's kernels.
class HostWorkspace final : public Workspace {
 public:
  HostWorkspace() = default;
  ~HostWorkspace();
  HostWorkspace(const HostWorkspace&) = delete;
  HostWorkspace& operator=(const HostWorkspace&) = delete;

  void* allocate(size_t bytes) override;
  void release(void* block) override;

 private:
  std::vector<void*> blocks_;
};

/// A call by which a library makes what `key` names, the first time that this thread needs it.
void prepare(const char* call, const std::string& key);

/// Error unless `x`, an argument of the library call `call`, is device memory, aligned to its
/// elements and to `alignment` bytes. Undefined views pass.
void check_argument(const char* call, const char* what, const View& x, uintptr_t alignment = 1);

/// The engines that a library has: those of set_engines, or one that takes no time; without those
/// that are not `deterministic`, if that is asked for.
std::vector<Engine> offered_engines(bool deterministic = false);
/// Their names.
std::vector<std::string> engine_names(const std::vector<Engine>& list);
/// Number `engine` of `list`, the first for kAnyEngine. Counts a run of it. Error if there is
/// none, or it is one that fails.
Engine use_engine(const char* call, const std::vector<Engine>& list, int engine);

/// Takes scratch from `workspace` as a library would.
void* take_scratch(const char* call, Workspace& workspace);

/// Stands while queued work runs: ruins what others keep in its scratch, and tells the sanitizers
/// which device memory it reads and writes, but nothing of how the host computes it.
class LibraryWork {
 public:
  LibraryWork(std::initializer_list<const View*> read, std::initializer_list<const View*> written,
              void* scratch);
  ~LibraryWork();
  LibraryWork(const LibraryWork&) = delete;
  LibraryWork& operator=(const LibraryWork&) = delete;

 private:
  int threads_;
};

/// Device memory as a view of the host, which shares its addresses.
View on_host(const View& x);
/// `x` on the host in a dtype that the CPU's libraries compute in; float16 as float32. An output
/// may be converted back with copy_back.
View computable(const View& x, Workspace& workspace, bool is_input);
/// Converts `computed`, what `computable` made of the output `y`, to where it belongs.
void copy_back(const View& computed, const View& y);

}  // namespace wick::sim
