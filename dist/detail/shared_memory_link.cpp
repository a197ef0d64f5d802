// A ring of slots for each pair of ranks and direction, in memory that all of them map. Who waits
// spins for a moment and then sleeps on the ring's counter (futex).
#include "wick/dist/detail/shared_memory_link.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstring>
#include <ctime>
#include <random>

namespace wick::dist {

namespace {

constexpr uint32_t kRingSlots = 4;
constexpr size_t kMostRingBytes = 1 << 20, kLeastRingBytes = 1 << 14;
constexpr size_t kMostBytesOfRings = 64 << 20;
constexpr auto kSpinTime = std::chrono::microseconds(30);
constexpr long kSleepNanoseconds = 20'000'000;

static_assert(std::atomic<uint32_t>::is_always_lock_free);

// A counter that one process raises and another waits for.
struct alignas(64) SharedCounter {
  std::atomic<uint32_t> value;
  std::atomic<uint32_t> has_waiter;

  void raise() {
    value.fetch_add(1);
    if (has_waiter.load() != 0) syscall(SYS_futex, word(), FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }
  // Until it is no longer `old`, or for some milliseconds.
  void sleep(uint32_t old) {
    has_waiter.store(1);
    const timespec most{0, kSleepNanoseconds};
    if (value.load() == old) syscall(SYS_futex, word(), FUTEX_WAIT, old, &most, nullptr, 0);
    has_waiter.store(0);
  }
  uint32_t* word() { return reinterpret_cast<uint32_t*>(&value); }
};

struct RingHead {
  SharedCounter written, read;
  uint32_t bytes[kRingSlots];
};
constexpr size_t kHeadBytes = 256;
static_assert(sizeof(RingHead) <= kHeadBytes);

// The memory: a page with the key, then rings.
class SharedMemory {
 public:
  SharedMemory(int descriptor, size_t bytes)
      : bytes_(bytes),
        data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)) {}
  ~SharedMemory() {
    if (is_mapped()) munmap(data_, bytes_);
  }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  bool is_mapped() const { return data_ != MAP_FAILED; }
  char* at(size_t offset) const { return static_cast<char*>(data_) + offset; }

 private:
  size_t bytes_;
  void* data_;
};
constexpr size_t kKeyBytes = 4096;

class SharedMemoryLink final : public Link {
 public:
  SharedMemoryLink(Control& control, std::shared_ptr<SharedMemory> memory, int peer, char* outbox,
                   char* inbox, size_t ring_bytes)
      : control_(control),
        memory_(std::move(memory)),
        peer_(peer),
        out_(reinterpret_cast<RingHead*>(outbox)),
        in_(reinterpret_cast<RingHead*>(inbox)),
        slot_bytes_((ring_bytes - kHeadBytes) / kRingSlots / 64 * 64) {}

  size_t slot_bytes() const override { return slot_bytes_; }

  void* begin_send() override {
    await(out_->read, [&] { return sent_ - out_->read.value.load() < kRingSlots; });
    return slot(out_, sent_);
  }
  void end_send(size_t bytes) override {
    out_->bytes[sent_ % kRingSlots] = static_cast<uint32_t>(bytes);
    ++sent_;
    out_->written.raise();
  }
  const void* receive(size_t bytes) override {
    await(in_->written, [&] { return has_message(); });
    const uint32_t got = in_->bytes[received_ % kRingSlots];
    if (got != bytes) {
      throw ProcessGroupError(
          concat("rank ", peer_, " sent ", got, " bytes where ", bytes, " belong"));
    }
    return slot(in_, received_);
  }
  void release() override {
    ++received_;
    in_->read.raise();
  }
  bool has_message() override { return in_->written.value.load() != received_; }

 private:
  char* slot(RingHead* ring, uint32_t number) const {
    return reinterpret_cast<char*>(ring) + kHeadBytes + number % kRingSlots * slot_bytes_;
  }

  template <class Condition>
  void await(SharedCounter& counter, const Condition& condition) {
    if (condition()) return;
    const auto sleep_at = Clock::now() + kSpinTime;
    while (Clock::now() < sleep_at) {
      for (int i = 0; i < 16; ++i) {
        if (condition()) return;
        __builtin_ia32_pause();
      }
    }
    while (!condition()) {
      const uint32_t seen = counter.value.load();
      if (condition()) return;
      try {
        control_.check(peer_);
      } catch (...) {
        if (condition()) return;  // it came before the peer left
        throw;
      }
      counter.sleep(seen);
    }
  }

  Control& control_;
  std::shared_ptr<SharedMemory> memory_;
  const int peer_;
  RingHead *const out_, *const in_;
  const size_t slot_bytes_;
  uint32_t sent_ = 0, received_ = 0;
};

// What is the same for processes that can share memory, and different on every host.
std::string host_name() {
  char boot[64] = "", network[64] = "";
  const int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  const ssize_t read_bytes = file < 0 ? 0 : read(file, boot, sizeof boot);
  if (file >= 0) close(file);
  const ssize_t link_bytes = readlink("/proc/self/ns/net", network, sizeof network);
  return std::string(boot, static_cast<size_t>(std::max<ssize_t>(read_bytes, 0))) +
         std::string(network, static_cast<size_t>(std::max<ssize_t>(link_bytes, 0)));
}

// A file without a name, open in one process.
class MemoryFile {
 public:
  explicit MemoryFile(size_t bytes) : descriptor_(memfd_create("wick", MFD_CLOEXEC)) {
    if (descriptor_ >= 0 && ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) close_it();
  }
  // Another process's, by what its path() says. Not open if it is of another size.
  MemoryFile(const std::string& path, size_t bytes)
      : descriptor_(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
    struct stat status {};
    if (descriptor_ >= 0 && (fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode) ||
                             static_cast<size_t>(status.st_size) != bytes)) {
      close_it();
    }
  }
  ~MemoryFile() { close_it(); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  std::string path() const { return concat("/proc/", getpid(), "/fd/", descriptor_); }

 private:
  void close_it() {
    if (descriptor_ >= 0) close(descriptor_);
    descriptor_ = -1;
  }
  int descriptor_;
};

// The same memory in all ranks, or null on all of them.
std::shared_ptr<SharedMemory> share_memory(Control& control, int rank, size_t bytes) {
  std::unique_ptr<MemoryFile> file;
  std::string offer;
  if (rank == 0) {
    file = std::make_unique<MemoryFile>(bytes);
    if (file->is_open()) offer = file->path();
  }
  // The key tells this memory from whatever else may be found under that path.
  std::random_device random;
  std::string key = concat(random(), "-", random(), "-", random(), "-", random());
  const std::vector<std::string> offers = control.exchange(offer);
  const std::vector<std::string> keys = control.exchange(key);
  if (rank != 0) file = std::make_unique<MemoryFile>(offers[0], bytes);
  std::shared_ptr<SharedMemory> memory;
  if (file->is_open()) memory = std::make_shared<SharedMemory>(file->descriptor(), bytes);
  if (memory && !memory->is_mapped()) memory = nullptr;
  if (memory && rank == 0) std::memcpy(memory->at(0), key.c_str(), key.size() + 1);
  control.exchange("");  // it is written
  const bool is_right = memory && keys[0].size() < kKeyBytes &&
                        std::memcmp(memory->at(0), keys[0].c_str(), keys[0].size() + 1) == 0;
  const std::vector<std::string> all = control.exchange(is_right ? "shared" : "");
  const bool is_shared =
      std::all_of(all.begin(), all.end(), [](const auto& s) { return !s.empty(); });
  return is_shared ? memory : nullptr;
}

}  // namespace

std::vector<std::unique_ptr<Link>> make_shared_memory_links(Control& control, int rank, int size) {
  const std::vector<std::string> hosts = control.exchange(host_name());
  for (const std::string& host : hosts) {
    if (host != hosts[0]) return {};
  }
  const auto ranks = static_cast<size_t>(size);
  const size_t ring_bytes =
      std::clamp(kMostBytesOfRings / (ranks * ranks), kLeastRingBytes, kMostRingBytes) / 64 * 64;
  const auto memory = share_memory(control, rank, kKeyBytes + ranks * ranks * ring_bytes);
  if (!memory) return {};
  const auto ring = [&](size_t from, size_t to) {
    return memory->at(kKeyBytes + (from * ranks + to) * ring_bytes);
  };
  std::vector<std::unique_ptr<Link>> links(ranks);
  const auto own = static_cast<size_t>(rank);
  for (size_t r = 0; r < ranks; ++r) {
    if (r == own) continue;
    links[r] = std::make_unique<SharedMemoryLink>(control, memory, static_cast<int>(r),
                                                  ring(own, r), ring(r, own), ring_bytes);
  }
  return links;
}

}  // namespace wick::dist
