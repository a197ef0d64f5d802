#include "wick/dist/detail/nccl_api.h"

#include "wick/core/base/check.h"
#include "wick/core/base/detail/dynamic_library.h"

namespace wick::dist {

namespace {

// 2.14, in which communicators first need not block.
constexpr int kOldestVersion = 21400;

#ifdef WICK_SIM
struct NcclLibrary {
  template <class Function>
  void find(Function*& function, Function* simulated, const char*) const {
    function = simulated;
  }
};
#define WICK_NCCL_FIND(member, function) library.find(member, &function, #function)
#else
struct NcclLibrary : DynamicLibrary {
  NcclLibrary() : DynamicLibrary("NCCL", "libnccl.so.2") {}
};
#define WICK_NCCL_FIND(member, function) library.find(member, #function)
#endif

}  // namespace

NcclApi::NcclApi() {
  const NcclLibrary library;
  WICK_NCCL_FIND(get_version, ncclGetVersion);
  WICK_NCCL_FIND(error_string, ncclGetErrorString);
  int version = 0;
  WICK_CHECK(get_version(&version) == ncclSuccess && version >= kOldestVersion,
             "NCCL: too old: got version code ", version, ", expected at least ", kOldestVersion);
  WICK_NCCL_FIND(last_error, ncclGetLastError);
  WICK_NCCL_FIND(get_unique_id, ncclGetUniqueId);
  WICK_NCCL_FIND(init_rank, ncclCommInitRankConfig);
  WICK_NCCL_FIND(finalize, ncclCommFinalize);
  WICK_NCCL_FIND(destroy, ncclCommDestroy);
  WICK_NCCL_FIND(abort, ncclCommAbort);
  WICK_NCCL_FIND(get_async_error, ncclCommGetAsyncError);
  WICK_NCCL_FIND(all_reduce, ncclAllReduce);
  WICK_NCCL_FIND(broadcast, ncclBroadcast);
  WICK_NCCL_FIND(all_gather, ncclAllGather);
  WICK_NCCL_FIND(reduce_scatter, ncclReduceScatter);
  WICK_NCCL_FIND(group_start, ncclGroupStart);
  WICK_NCCL_FIND(group_end, ncclGroupEnd);
  WICK_NCCL_FIND(send, ncclSend);
  WICK_NCCL_FIND(recv, ncclRecv);
}

const NcclApi& nccl() {
  static const NcclApi instance;
  return instance;
}

}  // namespace wick::dist
