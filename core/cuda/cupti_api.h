#pragma once

#ifdef WICK_SIM
#include "wick/kernels/sim/cupti.h"
#else
#include <cupti.h>
#endif

namespace wick::cuda {

// Records of later versions have these members at the same places, and more behind them.
using KernelRecord = CUpti_ActivityKernel9;
using CopyRecord = CUpti_ActivityMemcpy5;
using PeerCopyRecord = CUpti_ActivityMemcpyPtoP4;
using FillRecord = CUpti_ActivityMemset4;
using WaitRecord = CUpti_ActivitySynchronization;

/// The functions of CUPTI that are used.
struct CuptiApi {
  decltype(cuptiGetResultString)* result_string;
  decltype(cuptiGetTimestamp)* get_timestamp;
  decltype(cuptiActivityRegisterCallbacks)* register_callbacks;
  decltype(cuptiActivityEnable)* enable;
  decltype(cuptiActivityDisable)* disable;
  decltype(cuptiActivityFlushAll)* flush_all;
  decltype(cuptiActivityGetNextRecord)* get_next_record;
  decltype(cuptiActivityGetNumDroppedRecords)* get_dropped;
  decltype(cuptiActivityPushExternalCorrelationId)* push_id;
  decltype(cuptiActivityPopExternalCorrelationId)* pop_id;

  CuptiApi();
};

/// Opens the library when first called. Null if it is not there, or lacks a function.
const CuptiApi* find_cupti();
/// The same where find_cupti() has found it.
const CuptiApi& cupti();
/// Throws Error, which names `call`, unless it has succeeded.
void check_cupti(CUptiResult result, const char* call);

}  // namespace wick::cuda
