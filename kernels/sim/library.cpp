#include "wick/kernels/sim/library.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <set>

#include "wick/core/base/check.h"
#include "wick/kernels/copy.h"
#include "wick/kernels/cuda/common/check.h"
#include "wick/kernels/engine.h"
#include "wick/kernels/sim/sanitizers.h"
#include "wick/kernels/sim/simulator.h"

namespace wick::sim {

namespace {

// Whether the CPU's libraries lack `dtype`.
bool is_missing(Dtype dtype) {
  return dtype == kFloat16 || (dtype == kBFloat16 && cpu_isa() != CpuIsa::kAvx512);
}

/// Calls note(address, bytes) for each run of elements of `x` from `axis` on.
template <class Note>
void for_runs(const View& x, char* data, int axis, int inner, Note note) {
  if (axis == inner) ++axis;
  const auto size = static_cast<size_t>(size_of(x.dtype));
  if (axis >= x.rank()) {
    const bool is_run = inner >= 0;
    return note(data, is_run ? static_cast<size_t>(x.shape[inner]) * size : size);
  }
  for (int64_t i = 0; i < x.shape[axis]; ++i) {
    for_runs(x, data + i * x.strides[axis] * int64_t(size), axis + 1, inner, note);
  }
}
template <class Note>
void for_runs(const View& x, Note note) {
  const bool is_watched = WICK_SIM_TSAN || WICK_SIM_ASAN;
  if (!is_watched || !x.defined() || x.numel() == 0) return;
  int inner = x.rank() - 1;
  while (inner >= 0 && x.strides[inner] != 1) --inner;
  for_runs(x, static_cast<char*>(x.data), 0, inner, note);
}

}  // namespace

HostWorkspace::~HostWorkspace() {
  for (void* block : blocks_) std::free(block);
}

void* HostWorkspace::allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  blocks_.push_back(nullptr);
  blocks_.back() = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (blocks_.back() == nullptr) throw std::bad_alloc();
  return blocks_.back();
}

void HostWorkspace::release(void* block) {
  if (block == nullptr) return;
  std::free(block);
  blocks_.pop_back();
}

void prepare(const char* call, const std::string& key) {
  static thread_local std::set<std::string> made;
  const std::string name = concat(call, " ", key);
  if (made.contains(name)) return;
  cuda::check(enter_call(call), call);
  made.insert(name);
}

void check_argument(const char* call, const char* what, const View& x, uintptr_t alignment) {
  if (!x.defined()) return;
  int64_t last = 0;
  for (int axis = 0; axis < x.rank(); ++axis) last += (x.shape[axis] - 1) * x.strides[axis];
  const int64_t size = size_of(x.dtype);
  WICK_CHECK(is_device_memory(x.data, static_cast<size_t>((last + 1) * size)), call, ": ", what,
             " is not in device memory");
  const auto address = reinterpret_cast<uintptr_t>(x.data);
  WICK_CHECK(address % static_cast<uintptr_t>(size) == 0, call, ": ", what,
             " is not aligned to its elements");
  WICK_CHECK(address % alignment == 0, call, ": ", what, " is not aligned to ", alignment,
             " bytes");
}

std::vector<Engine> offered_engines(bool deterministic) {
  std::vector<Engine> list = engines();
  if (list.empty()) list.push_back({"simulated"});
  if (deterministic) std::erase_if(list, [](const Engine& e) { return !e.deterministic; });
  return list;
}

std::vector<std::string> engine_names(const std::vector<Engine>& list) {
  std::vector<std::string> names;
  for (const Engine& engine : list) names.push_back(engine.name);
  return names;
}

Engine use_engine(const char* call, const std::vector<Engine>& list, int engine) {
  const size_t index = engine == kAnyEngine ? 0 : static_cast<size_t>(engine);
  WICK_CHECK(index < list.size(), call, ": no engine ", engine, " of ", list.size());
  const Engine& chosen = list[index];
  cuda::check(chosen.error, call);
  count_run(chosen.name);
  return chosen;
}

void* take_scratch(const char* call, Workspace& workspace) {
  void* const scratch = workspace.allocate(kScratch);
  WICK_CHECK(is_device_memory(scratch, kScratch), call, ": the workspace is not in device memory");
  return scratch;
}

LibraryWork::LibraryWork(std::initializer_list<const View*> read,
                         std::initializer_list<const View*> written, void* scratch) {
  note_write(scratch, kScratch);
  for (const View* x : read) for_runs(*x, note_read);
  for (const View* x : written) for_runs(*x, note_write);
  threads_ = num_threads();
  if (WICK_SIM_TSAN) set_num_threads(1);  // others would not be ignored
  std::memset(scratch, 0xff, kScratch);
}

LibraryWork::~LibraryWork() { set_num_threads(threads_); }

View on_host(const View& x) {
  View host = x;
  host.device = kCpu;
  return host;
}

View computable(const View& x, Workspace& workspace, bool is_input) {
  const View host = on_host(x);
  if (!x.defined() || !is_missing(x.dtype)) return host;
  View wide = host;
  wide.dtype = kFloat32;
  // The order of the axes stays; what was expanded becomes dense.
  if (!is_dense(x.shape, x.strides)) wide.strides = contiguous_strides(x.shape);
  wide.data = workspace.allocate(static_cast<size_t>(x.numel()) * sizeof(float));
  if (is_input) WICK_DISPATCH(kCpu, copy(host, wide));
  return wide;
}

void copy_back(const View& computed, const View& y) {
  if (computed.data != y.data) WICK_DISPATCH(kCpu, copy(computed, on_host(y)));
}

}  // namespace wick::sim
