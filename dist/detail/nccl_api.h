#pragma once

#ifdef WICK_SIM
#include "wick/kernels/sim/nccl.h"
#else
#include <nccl.h>
#endif

namespace wick::dist {

/// The functions of NCCL that are used.
struct NcclApi {
  decltype(ncclGetVersion)* get_version;
  decltype(ncclGetErrorString)* error_string;
  decltype(ncclGetLastError)* last_error;
  decltype(ncclGetUniqueId)* get_unique_id;
  decltype(ncclCommInitRankConfig)* init_rank;
  decltype(ncclCommFinalize)* finalize;
  decltype(ncclCommDestroy)* destroy;
  decltype(ncclCommAbort)* abort;
  decltype(ncclCommGetAsyncError)* get_async_error;
  decltype(ncclAllReduce)* all_reduce;
  decltype(ncclBroadcast)* broadcast;
  decltype(ncclAllGather)* all_gather;
  decltype(ncclReduceScatter)* reduce_scatter;
  decltype(ncclGroupStart)* group_start;
  decltype(ncclGroupEnd)* group_end;
  decltype(ncclSend)* send;
  decltype(ncclRecv)* recv;

  NcclApi();
};

/// Opens the library when first called. Error if it is not installed, or too old.
const NcclApi& nccl();

}  // namespace wick::dist
