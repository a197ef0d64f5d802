#pragma once

// What the files of the simulated NCCL share.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "wick/core/base/check.h"
#include "wick/kernels/sim/nccl.h"
#include "wick/kernels/sim/sanitizers.h"
#include "wick/kernels/sim/simulator.h"

namespace wick::sim {

NcclFaults faults_of(int rank);

inline size_t bytes_of(ncclDataType_t type) {
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

// What queued work shares with the communicator, which it may outlive.
struct NcclMeeting {
  std::string folder;
  int rank = 0, size = 0;
  std::atomic<bool> is_aborted = false;

  std::string path(const std::string& what, int from, int to) const {
    return concat(folder, "/", what, "-", from, "-", to);
  }
  bool has(const std::string& what, int from, int to) const {
    return access(path(what, from, to).c_str(), F_OK) == 0;
  }
  bool has_all(const std::string& what, const std::vector<int>& givers) const {
    return std::all_of(givers.begin(), givers.end(), [&](int r) { return has(what, r, rank); });
  }

  void give(const std::string& what, const void* data, size_t bytes,
            const std::vector<int>& receivers) const {
    const std::string whole = path(what, rank, -1);
    std::ofstream(whole, std::ios::binary)
        .write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
    std::error_code gone;  // the folder is, once somebody has aborted
    for (const int r : receivers) {
      std::filesystem::create_hard_link(whole, path(what, rank, r), gone);
    }
    std::filesystem::remove(whole, gone);
  }

  std::vector<char> take(const std::string& what, int from, size_t bytes) const {
    std::vector<char> data(bytes);
    std::ifstream file(path(what, from, rank), std::ios::binary);
    file.read(data.data(), static_cast<std::streamsize>(bytes));
    std::error_code gone;
    std::filesystem::remove(path(what, from, rank), gone);
    return data;
  }
};

// A send or a receive.
struct NcclMessage {
  bool is_sent = false;
  std::string what = {};
  void* memory = nullptr;
  size_t bytes = 0;
  int peer = 0;
  cudaStream_t stream = nullptr;
};

}  // namespace wick::sim

struct ncclComm {
  using Meeting = wick::sim::NcclMeeting;
  std::shared_ptr<Meeting> meeting;
  int64_t operations = 0, collectives = 0;
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

  // Queues one piece of an operation, once `is_ready` at its turn, or aborted.
  template <class Ready, class Run>
  ncclResult_t queue_piece(const char* call, Ready is_ready, Run run) {
    const std::shared_ptr<Meeting> m = meeting;
    const auto work = [=] {
      if (!m->is_aborted) run(*m);
    };
    const cudaError_t queued =
        wick::sim::enqueue(call, stream, work, 0, [=] { return m->is_aborted || is_ready(*m); });
    return queued == cudaSuccess ? ncclSuccess
                                 : fail(ncclUnhandledCudaError, cudaGetErrorString(queued));
  }

  // Begins an operation on the stream `on`; whether it ever ends.
  bool begin(cudaStream_t on) {
    ++operations;
    stream = on;
    const wick::sim::NcclFaults faults = wick::sim::faults_of(meeting->rank);
    return faults.hangs_from == 0 || operations < faults.hangs_from;
  }

  // Queues one operation: `give` at its turn, and `take` when all of `givers` have given.
  template <class Give, class Take>
  ncclResult_t queue(const char* call, const std::string& what, cudaStream_t on,
                     const std::vector<int>& givers, Give give, Take take) {
    const bool ends = begin(on);
    const ncclResult_t given = queue_piece(
        call, [](const Meeting&) { return true; }, give);
    if (given != ncclSuccess) return given;
    return queue_piece(
        call, [=](const Meeting& m) { return ends && m.has_all(what, givers); }, take);
  }

  // Of a collective, which all ranks number alike.
  std::string next_name() { return wick::concat("c", ++collectives); }
};
