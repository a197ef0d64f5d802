#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <string>
#include <system_error>

#include "wick/core/base/check.h"
#include "wick/core/memory/allocator.h"

namespace wick {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;

/// Memory and swap of the machine, or what the control group allows.
size_t host_capacity() {
  struct sysinfo info = {};
  sysinfo(&info);
  size_t capacity = (size_t{info.totalram} + info.totalswap) * info.mem_unit;
  std::ifstream group("/sys/fs/cgroup/memory.max");  // a number, or "max"
  size_t bytes = 0;
  if (group >> bytes) capacity = std::min(capacity, bytes);
  return capacity;
}

/// Pages of the operating system, whole huge pages where it gives them: a fault per 2 MiB in place
/// of 512, and fewer TLB misses.
class HostSource : public RawSource {
 public:
  Device device() const override { return kCpu; }
  size_t capacity() const override { return host_capacity(); }
  void add_others(MemoryUse& use, int64_t reserved) const override {
    std::ifstream status("/proc/self/status");
    int64_t own = 0;  // pages without a file, the allocator's among them
    std::string word;
    for (int64_t kibibytes = 0; status >> word;) {
      const bool is_own = word == "RssAnon:" || word == "RssShmem:";
      if (!is_own && word != "RssFile:") continue;
      status >> kibibytes;
      (is_own ? own : use.libraries) += kibibytes * 1024;
    }
    use.context += std::max<int64_t>(0, own - reserved);
  }

  void* allocate(size_t bytes) override {
    void* pointer = new_pages(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
    if (pointer != nullptr) madvise(pointer, bytes, MADV_HUGEPAGE);
    return pointer;
  }
  void deallocate(void* pointer, size_t bytes) override { munmap(pointer, bytes); }

  /// Where addresses are rationed (`ulimit -v`) they are not to be had for more than is used.
  bool can_map() const override {
    rlimit addresses = {};
    return getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur == RLIM_INFINITY;
  }
  size_t large_page() const override { return kHugePage; }
  void* reserve(size_t bytes) override { return new_pages(bytes, PROT_NONE, kAddresses); }
  void unreserve(void* pointer, size_t bytes) override { munmap(pointer, bytes); }
  bool map(void* pointer, size_t bytes, size_t) override {
    if (mprotect(pointer, bytes, PROT_READ | PROT_WRITE) != 0) return false;
    madvise(pointer, bytes, MADV_HUGEPAGE);
    return true;
  }
  void unmap(void* pointer, size_t bytes, size_t) override {
    if (mmap(pointer, bytes, PROT_NONE, kAddresses | MAP_FIXED, -1, 0) != MAP_FAILED) return;
    // One mapping too many, of those that a process may have: the pages can go without it.
    WICK_CHECK(madvise(pointer, bytes, MADV_DONTNEED) == 0, "allocator: madvise of ", bytes,
               " bytes failed: ", std::generic_category().message(errno));
  }

 private:
  static constexpr int kAddresses = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

  /// Whole huge pages; null if there are none.
  static void* new_pages(size_t bytes, int protection, int flags) {
    void* mapped = mmap(nullptr, bytes + kHugePage, protection, flags, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    auto* begin = static_cast<char*>(mapped);
    const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
    if (before > 0) munmap(begin, before);
    munmap(begin + before + bytes, kHugePage - before);
    return begin + before;
  }
};

CachingAllocator::Config configured(const char* variable, CachingAllocator::Config config) {
  const char* text = std::getenv(variable);
  return text == nullptr ? config : CachingAllocator::Config::parse(text, config);
}

CachingAllocator& make_cpu_allocator() {
  CachingAllocator::Config config;
  config.granule = 64;
  config.expandable_segments = true;  // a training step takes 4 to 18 % less (docs/memory.md)
  // Never destroyed: tensors of static lifetime may outlive any order of destruction.
  return *new CachingAllocator(std::make_unique<HostSource>(),
                               configured("WICK_CPU_ALLOC", config));
}

std::atomic<SourceFactory> cuda_factory = nullptr;
std::atomic<PinnedFactory> pinned_factory = nullptr;
std::atomic<CachingAllocator*> cuda_allocators[kMaxGpus];

CachingAllocator& make_cuda_allocator(int index) {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  std::atomic<CachingAllocator*>& slot = cuda_allocators[index];
  if (CachingAllocator* made = slot.load()) return *made;
  const SourceFactory factory = cuda_factory.load();
  WICK_CHECK(factory != nullptr, "allocator: this build has no CUDA: got cuda:", index,
             ", expected cpu: the CMake option WICK_GPU=cuda builds with CUDA");
  auto* made = new CachingAllocator(factory(index), configured("WICK_CUDA_ALLOC", {}));
  slot.store(made);
  return *made;
}

}  // namespace

std::unique_ptr<RawSource> make_host_source() { return std::make_unique<HostSource>(); }

void register_cuda_sources(SourceFactory device, PinnedFactory pinned) {
  cuda_factory.store(device);
  pinned_factory.store(pinned);
}

CachingAllocator& pinned_allocator() {
  static CachingAllocator& pinned = [&]() -> CachingAllocator& {
    const PinnedFactory factory = pinned_factory.load();
    WICK_CHECK(factory != nullptr,
               "pinned memory: this build has no CUDA, and the CPU needs none: leave it off");
    return *new CachingAllocator(factory(), configured("WICK_PINNED_ALLOC", {}));
  }();
  return pinned;
}

CachingAllocator& allocator(Device device) {
  if (device.is_cpu()) {
    static CachingAllocator& cpu = make_cpu_allocator();
    return cpu;
  }
  const int index = device.index;
  WICK_CHECK(index >= 0 && index < kMaxGpus, "allocator: no such device: got ", device);
  CachingAllocator* made = cuda_allocators[index].load(std::memory_order_acquire);
  return made != nullptr ? *made : make_cuda_allocator(index);
}

}  // namespace wick
