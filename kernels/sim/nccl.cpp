#include "wick/kernels/sim/nccl.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "wick/core/base/check.h"
#include "wick/core/base/half.h"
#include "wick/kernels/sim/sanitizers.h"
#include "wick/kernels/sim/simulator.h"

// Stands for NCCL. A rank gives its elements, when it is their stream's turn, as a file in memory
// under a name for each rank that takes them (links to one file), which deletes its name; a stream
// stands still until what it takes is there. So ranks may be threads or processes. Sums are made in
// the reverse order of the ranks, and in the elements' own type: as with NCCL, no bit of theirs is
// to be relied on.

namespace fs = std::filesystem;

namespace {

constexpr int kSimulatedVersion = 22809;

std::mutex faults_mutex;
wick::sim::NcclFaults current_faults;
std::atomic<int64_t> communicators = 0;

wick::sim::NcclFaults faults_of(int rank) {
  const std::lock_guard lock(faults_mutex);
  const bool is_meant = current_faults.rank < 0 || current_faults.rank == rank;
  return is_meant ? current_faults : wick::sim::NcclFaults{};
}

}  // namespace

namespace wick::sim {

// What queued work shares with the communicator, which it may outlive.
struct Meeting {
  std::string folder;
  int rank = 0, size = 0;
  std::atomic<bool> is_aborted = false;

  std::string path(const std::string& what, int from, int to) const {
    return wick::concat(folder, "/", what, "-", from, "-", to);
  }
  bool has(const std::string& what, int from, int to) const {
    return access(path(what, from, to).c_str(), F_OK) == 0;
  }

  void give(const std::string& what, const void* data, size_t bytes,
            const std::vector<int>& receivers) const {
    const std::string whole = path(what, rank, -1);
    std::ofstream(whole, std::ios::binary)
        .write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
    std::error_code gone;  // the folder is, once somebody has aborted
    for (const int r : receivers) fs::create_hard_link(whole, path(what, rank, r), gone);
    fs::remove(whole, gone);
  }

  std::vector<char> take(const std::string& what, int from, size_t bytes) const {
    std::vector<char> data(bytes);
    std::ifstream file(path(what, from, rank), std::ios::binary);
    file.read(data.data(), static_cast<std::streamsize>(bytes));
    std::error_code gone;
    fs::remove(path(what, from, rank), gone);
    return data;
  }
};

}  // namespace wick::sim

using wick::sim::Meeting;

namespace {

constexpr const char* kFolderPrefix = "wick-nccl-";

// Folders of processes that were killed.
void remove_left_behind(const char* root) {
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator(root, gone)) {
    const std::string name = entry.path().filename();
    if (name.rfind(kFolderPrefix, 0) != 0) continue;
    const int process = std::atoi(name.c_str() + std::strlen(kFolderPrefix));
    if (!fs::exists(wick::concat("/proc/", process), gone)) fs::remove_all(entry.path(), gone);
  }
}

size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    default: return 8;
  }
}

template <class T>
T reduced_value(T a, T b, ncclRedOp_t op) {
  switch (op) {
    case ncclProd: return T(a * b);
    case ncclMax: return a < b ? b : a;
    case ncclMin: return b < a ? b : a;
    default: return T(a + b);
  }
}

// total = total op x, of `count` elements; an average takes its share of each.
template <class T>
void reduce_into(void* total, const void* x, size_t count, ncclRedOp_t op) {
  auto* a = static_cast<T*>(total);
  const auto* b = static_cast<const T*>(x);
  for (size_t i = 0; i < count; ++i) a[i] = reduced_value(a[i], b[i], op);
}

void reduce_into(void* total, const void* x, size_t count, ncclDataType_t type, ncclRedOp_t op) {
  switch (type) {
    case ncclUint8: return reduce_into<uint8_t>(total, x, count, op);
    case ncclInt32: return reduce_into<int32_t>(total, x, count, op);
    case ncclInt64: return reduce_into<int64_t>(total, x, count, op);
    case ncclFloat16: return reduce_into<wick::Half>(total, x, count, op);
    case ncclBfloat16: return reduce_into<wick::BFloat16>(total, x, count, op);
    case ncclFloat32: return reduce_into<float>(total, x, count, op);
    case ncclFloat64: return reduce_into<double>(total, x, count, op);
    default: std::abort();  // refused before
  }
}

template <class T>
void divide(void* x, size_t count, int by) {
  auto* a = static_cast<T*>(x);
  for (size_t i = 0; i < count; ++i) a[i] = T(a[i] / static_cast<float>(by));
}

void divide(void* x, size_t count, ncclDataType_t type, int by) {
  switch (type) {
    case ncclFloat16: return divide<wick::Half>(x, count, by);
    case ncclBfloat16: return divide<wick::BFloat16>(x, count, by);
    case ncclFloat32: return divide<float>(x, count, by);
    default: return divide<double>(x, count, by);
  }
}

bool is_reducible(ncclDataType_t type, ncclRedOp_t op) {
  const bool is_real = type >= ncclFloat16;
  return is_real ||
         (op != ncclAvg && (type == ncclUint8 || type == ncclInt32 || type == ncclInt64));
}

}  // namespace

struct ncclComm {
  std::shared_ptr<Meeting> meeting;
  int64_t operations = 0;
  std::map<int, int64_t> sent, received;  // by rank
  cudaStream_t stream = nullptr;          // of the last operation
  std::string words;                      // about the last error

  ncclResult_t fail(ncclResult_t result, const std::string& why) {
    words = why;
    return result;
  }

  // The other ranks, or only `one`.
  std::vector<int> others(int one = -1) const {
    std::vector<int> ranks;
    for (int r = 0; r < meeting->size; ++r) {
      if (r != meeting->rank && (one < 0 || r == one)) ranks.push_back(r);
    }
    return ranks;
  }

  ncclResult_t check(const char* call, const void* memory, size_t bytes) {
    if (bytes > 0 && !wick::sim::is_device_memory(memory, bytes)) {
      return fail(ncclInvalidArgument, wick::concat(call, ": not in device memory"));
    }
    return ncclSuccess;
  }

  // Queues one operation: `give` at its turn, and `take` when all of `givers` have given.
  template <class Give, class Take>
  ncclResult_t queue(const char* call, const std::string& what, cudaStream_t on,
                     const std::vector<int>& givers, Give give, Take take) {
    const std::shared_ptr<Meeting> m = meeting;
    ++operations;
    const wick::sim::NcclFaults faults = faults_of(m->rank);
    const bool hangs = faults.hangs_from > 0 && operations >= faults.hangs_from;
    stream = on;
    const cudaError_t given = wick::sim::enqueue(call, on, [=] {
      if (!m->is_aborted) give(*m);
    });
    if (given != cudaSuccess) return fail(ncclUnhandledCudaError, cudaGetErrorString(given));
    const auto is_ready = [=] {
      if (m->is_aborted) return true;
      return !hangs && std::all_of(givers.begin(), givers.end(),
                                   [&](int r) { return m->has(what, r, m->rank); });
    };
    const auto run = [=] {
      if (!m->is_aborted) take(*m);
    };
    const cudaError_t taken = wick::sim::enqueue(call, on, run, 0, is_ready);
    if (taken != cudaSuccess) return fail(ncclUnhandledCudaError, cudaGetErrorString(taken));
    return ncclSuccess;
  }

  std::string next_name() const { return wick::concat("c", operations + 1); }
};

ncclResult_t ncclGetVersion(int* version) {
  *version = kSimulatedVersion;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    default: return "internal error";
  }
}

const char* ncclGetLastError(ncclComm_t comm) { return comm == nullptr ? "" : comm->words.c_str(); }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  *id = {};
  const char* const root = fs::is_directory("/dev/shm") ? "/dev/shm" : "/tmp";
  remove_left_behind(root);
  // mkdtemp puts a name of its own in place of the X.
  std::snprintf(id->internal, sizeof id->internal, "%s/%s%d-XXXXXX", root, kFolderPrefix, getpid());
  return mkdtemp(id->internal) == nullptr ? ncclSystemError : ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  *comm = nullptr;
  if (config->blocking != 0 || rank < 0 || rank >= ranks) return ncclInvalidArgument;
  if (wick::sim::enter_call("ncclCommInitRankConfig") != cudaSuccess) return ncclUnhandledCudaError;
  auto meeting = std::make_shared<Meeting>();
  meeting->folder = id.internal;
  meeting->rank = rank;
  meeting->size = ranks;
  std::ofstream(meeting->path("here", rank, rank)) << "here";
  *comm = new ncclComm;
  (*comm)->meeting = std::move(meeting);
  ++communicators;
  return ncclInProgress;
}

// Here, as on a GPU, queued work goes on though nobody waits for it.
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const Meeting& m = *comm->meeting;
  const wick::sim::NcclFaults faults = faults_of(m.rank);
  *error = ncclSuccess;
  if (faults.error_from > 0 && comm->operations >= faults.error_from) *error = ncclRemoteError;
  if (comm->operations == 0) {
    bool is_complete = !faults.init_hangs;
    for (int r = 0; r < m.size; ++r) is_complete = is_complete && m.has("here", r, r);
    if (!is_complete) *error = ncclInProgress;
  } else {
    wick::sim::run_what_is_ready(comm->stream);
  }
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const Meeting& m = *comm->meeting;
  std::error_code gone;
  std::ofstream(m.path("left", m.rank, m.rank)) << "left";
  bool is_last = true;
  for (int r = 0; r < m.size; ++r) is_last = is_last && m.has("left", r, r);
  if (is_last) fs::remove_all(m.folder, gone);
  --communicators;
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  while (faults_of(comm->meeting->rank).abort_hangs) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::error_code gone;
  comm->meeting->is_aborted = true;
  fs::remove_all(comm->meeting->folder, gone);
  --communicators;
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* give, void* get, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  const size_t bytes = count * bytes_of(type);
  if (!is_reducible(type, op)) return comm->fail(ncclInvalidArgument, "ncclAllReduce: no such sum");
  for (const void* memory : {give, static_cast<const void*>(get)}) {
    if (comm->check("ncclAllReduce", memory, bytes) != ncclSuccess) return ncclInvalidArgument;
  }
  const std::string what = comm->next_name();
  const std::vector<int> others = comm->others();
  return comm->queue(
      "ncclAllReduce", what, stream, others,
      [=](const Meeting& m) {
        wick::sim::note_read(give, bytes);
        m.give(what, give, bytes, others);
      },
      [=](const Meeting& m) {
        wick::sim::note_write(get, bytes);
        std::vector<char> total;
        for (int r = m.size - 1; r >= 0; --r) {
          std::vector<char> x(static_cast<const char*>(give),
                              static_cast<const char*>(give) + bytes);
          if (r != m.rank) x = m.take(what, r, bytes);
          if (total.empty()) {
            total = std::move(x);
          } else {
            reduce_into(total.data(), x.data(), count, type, op);
          }
        }
        if (op == ncclAvg) divide(total.data(), count, type, m.size);
        if (bytes > 0) std::memcpy(get, total.data(), bytes);
      });
}

ncclResult_t ncclBroadcast(const void* give, void* get, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  const size_t bytes = count * bytes_of(type);
  if (comm->check("ncclBroadcast", get, bytes) != ncclSuccess) return ncclInvalidArgument;
  const std::string what = comm->next_name();
  const bool is_root = comm->meeting->rank == root;
  const std::vector<int> receivers = is_root ? comm->others() : std::vector<int>();
  return comm->queue(
      "ncclBroadcast", what, stream, comm->others(root),
      [=](const Meeting& m) {
        if (!is_root) return;
        wick::sim::note_read(give, bytes);
        m.give(what, give, bytes, receivers);
      },
      [=](const Meeting& m) {
        if (is_root) return;
        wick::sim::note_write(get, bytes);
        std::memcpy(get, m.take(what, root, bytes).data(), bytes);
      });
}

ncclResult_t ncclAllGather(const void* give, void* get, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  const size_t bytes = count * bytes_of(type);
  const size_t all_bytes = bytes * static_cast<size_t>(comm->meeting->size);
  if (comm->check("ncclAllGather", give, bytes) != ncclSuccess ||
      comm->check("ncclAllGather", get, all_bytes) != ncclSuccess) {
    return ncclInvalidArgument;
  }
  const std::string what = comm->next_name();
  const std::vector<int> others = comm->others();
  return comm->queue(
      "ncclAllGather", what, stream, others,
      [=](const Meeting& m) {
        wick::sim::note_read(give, bytes);
        m.give(what, give, bytes, others);
      },
      [=](const Meeting& m) {
        wick::sim::note_write(get, all_bytes);
        auto* const parts = static_cast<char*>(get);
        std::memmove(parts + static_cast<size_t>(m.rank) * bytes, give, bytes);
        for (const int r : others) {
          std::memcpy(parts + static_cast<size_t>(r) * bytes, m.take(what, r, bytes).data(), bytes);
        }
      });
}

ncclResult_t ncclReduceScatter(const void* give, void* get, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  const size_t bytes = count * bytes_of(type);
  const size_t all_bytes = bytes * static_cast<size_t>(comm->meeting->size);
  if (!is_reducible(type, op)) {
    return comm->fail(ncclInvalidArgument, "ncclReduceScatter: no such sum");
  }
  if (comm->check("ncclReduceScatter", give, all_bytes) != ncclSuccess ||
      comm->check("ncclReduceScatter", get, bytes) != ncclSuccess) {
    return ncclInvalidArgument;
  }
  const std::string what = comm->next_name();
  const std::vector<int> others = comm->others();
  return comm->queue(
      "ncclReduceScatter", what, stream, others,
      [=](const Meeting& m) {
        wick::sim::note_read(give, all_bytes);
        const auto* const parts = static_cast<const char*>(give);
        for (const int r : others) {
          m.give(what, parts + static_cast<size_t>(r) * bytes, bytes, {r});
        }
      },
      [=](const Meeting& m) {
        wick::sim::note_write(get, bytes);
        const auto* const mine =
            static_cast<const char*>(give) + static_cast<size_t>(m.rank) * bytes;
        std::vector<char> total(mine, mine + bytes);
        for (const int r : others) {
          reduce_into(total.data(), m.take(what, r, bytes).data(), count, type, op);
        }
        if (op == ncclAvg) divide(total.data(), count, type, m.size);
        if (bytes > 0) std::memcpy(get, total.data(), bytes);
      });
}

ncclResult_t ncclSend(const void* give, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  const size_t bytes = count * bytes_of(type);
  if (comm->check("ncclSend", give, bytes) != ncclSuccess) return ncclInvalidArgument;
  const std::string what = wick::concat("m", ++comm->sent[peer]);
  return comm->queue(
      "ncclSend", what, stream, {},
      [=](const Meeting& m) {
        wick::sim::note_read(give, bytes);
        m.give(what, give, bytes, {peer});
      },
      [](const Meeting&) {});
}

ncclResult_t ncclRecv(void* get, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  const size_t bytes = count * bytes_of(type);
  if (comm->check("ncclRecv", get, bytes) != ncclSuccess) return ncclInvalidArgument;
  const std::string what = wick::concat("m", ++comm->received[peer]);
  return comm->queue(
      "ncclRecv", what, stream, {peer}, [](const Meeting&) {},
      [=](const Meeting& m) {
        wick::sim::note_write(get, bytes);
        if (bytes > 0) std::memcpy(get, m.take(what, peer, bytes).data(), bytes);
      });
}

namespace wick::sim {

void set_nccl_faults(const NcclFaults& faults) {
  const std::lock_guard lock(faults_mutex);
  current_faults = faults;
}

int64_t nccl_communicators() { return communicators; }

}  // namespace wick::sim
