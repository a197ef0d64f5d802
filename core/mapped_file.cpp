#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <system_error>

#include "wick/core/base/check.h"
#include "wick/core/file.h"

namespace wick {

// Where a file is mapped: what the handler of the signal looks through, which may take no lock.
struct detail::MappedRegion {
  std::atomic<uintptr_t> begin{0};  // 0: of no file
  std::atomic<uint64_t> size{0};
  std::atomic<bool> lost{false};  // something could not be read
};

namespace {

constexpr size_t kMostFiles = 1024;
constexpr uintptr_t kTaken = 1;  // begin of a region that is being set up

detail::MappedRegion mapped_regions[kMostFiles];
struct sigaction bus_errors_before;
uintptr_t mapped_page_bytes = 0;

// Puts a page of zeros where one cannot be read; the instruction that wanted it is then repeated.
void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (detail::MappedRegion& region : mapped_regions) {
    const uintptr_t begin = region.begin.load(), size = region.size.load();
    if (info->si_code <= 0 || begin <= kTaken || address < begin || address - begin >= size) {
      continue;
    }
    region.lost = true;
    void* const page = reinterpret_cast<void*>(address & ~(mapped_page_bytes - 1));
    constexpr int kInPlace = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    if (mmap(page, mapped_page_bytes, PROT_READ, kInPlace, -1, 0) == MAP_FAILED) break;
    errno = error;
    return;
  }
  if ((bus_errors_before.sa_flags & SA_SIGINFO) != 0) {
    bus_errors_before.sa_sigaction(signal, info, context);
  } else if (bus_errors_before.sa_handler != SIG_DFL && bus_errors_before.sa_handler != SIG_IGN) {
    bus_errors_before.sa_handler(signal);
  } else {
    ::signal(signal, SIG_DFL);
    raise(signal);  // upon return
  }
  errno = error;
}

void handle_bus_errors() {
  static std::once_flag once;
  std::call_once(once, [] {
    mapped_page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &bus_errors_before);
  });
}

detail::MappedRegion* take_region(const std::string& path) {
  for (detail::MappedRegion& region : mapped_regions) {
    uintptr_t none = 0;
    if (region.begin.compare_exchange_strong(none, kTaken)) return &region;
  }
  detail::fail("cannot map ", path, ": too many files are mapped: expected at most ", kMostFiles);
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const InputFile file(path);
  if (file.size() == 0) return;
  handle_bus_errors();
  region_ = take_region(path);
  void* mapped = mmap(nullptr, file.size(), PROT_READ, MAP_PRIVATE, file.descriptor_, 0);
  if (mapped == MAP_FAILED) {
    const int error = errno;
    region_->begin = 0;
    detail::fail("cannot map ", path, ": ", std::generic_category().message(error));
  }
  data_ = static_cast<const uint8_t*>(mapped);
  size_ = file.size();
  region_->lost = false;
  region_->size = size_;
  region_->begin = reinterpret_cast<uintptr_t>(data_);
}

MappedFile::~MappedFile() {
  if (region_ == nullptr) return;
  region_->size = 0;
  region_->begin = 0;
  munmap(const_cast<uint8_t*>(data_), size_);
}

void MappedFile::check() const {
  WICK_CHECK(region_ == nullptr || !region_->lost, path_,
             ": cannot be read any more: it has shrunk, or its disk fails");
}

}  // namespace wick
