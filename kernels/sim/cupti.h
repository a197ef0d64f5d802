#pragma once

// The part of CUPTI's activity interface that Wick uses, for simulated GPUs: the same names and
// meanings. How it behaves in tests is set in activity.h.

#include <cstddef>
#include <cstdint>

#define CUPTIAPI

// clang-format off
enum CUptiResult {
  CUPTI_SUCCESS = 0, CUPTI_ERROR_INVALID_PARAMETER = 1, CUPTI_ERROR_INVALID_OPERATION = 7,
  CUPTI_ERROR_MAX_LIMIT_REACHED = 12, CUPTI_ERROR_NOT_INITIALIZED = 15,
  CUPTI_ERROR_QUEUE_EMPTY = 18, CUPTI_ERROR_INVALID_KIND = 21
};
enum CUpti_ActivityKind {
  CUPTI_ACTIVITY_KIND_INVALID = 0, CUPTI_ACTIVITY_KIND_MEMCPY = 1, CUPTI_ACTIVITY_KIND_MEMSET = 2,
  CUPTI_ACTIVITY_KIND_DRIVER = 4, CUPTI_ACTIVITY_KIND_RUNTIME = 5,
  CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL = 10, CUPTI_ACTIVITY_KIND_MEMCPY2 = 22,
  CUPTI_ACTIVITY_KIND_SYNCHRONIZATION = 38, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION = 39
};
enum CUpti_ActivityFlag { CUPTI_ACTIVITY_FLAG_FLUSH_FORCED = 1 };
enum CUpti_ActivityMemcpyKind {
  CUPTI_ACTIVITY_MEMCPY_KIND_HTOD = 1, CUPTI_ACTIVITY_MEMCPY_KIND_DTOH = 2,
  CUPTI_ACTIVITY_MEMCPY_KIND_DTOD = 8, CUPTI_ACTIVITY_MEMCPY_KIND_HTOH = 9,
  CUPTI_ACTIVITY_MEMCPY_KIND_PTOP = 10
};
enum CUpti_ActivityMemoryKind {
  CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE = 1, CUPTI_ACTIVITY_MEMORY_KIND_PINNED = 2,
  CUPTI_ACTIVITY_MEMORY_KIND_DEVICE = 3, CUPTI_ACTIVITY_MEMORY_KIND_MANAGED = 5
};
enum CUpti_ActivitySynchronizationType {
  CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE = 1,
  CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT = 2,
  CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE = 3,
  CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE = 4
};
enum CUpti_ExternalCorrelationKind { CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0 = 3 };
// clang-format on

inline constexpr uint32_t CUPTI_SYNCHRONIZATION_INVALID_VALUE = 0xFFFFFFFFu;

struct CUpti_Activity {
  CUpti_ActivityKind kind;
};
struct alignas(8) CUpti_ActivityAPI {
  CUpti_ActivityKind kind;
  uint64_t start, end;
  uint32_t correlationId;
};
struct alignas(8) CUpti_ActivityExternalCorrelation {
  CUpti_ActivityKind kind;
  CUpti_ExternalCorrelationKind externalKind;
  uint64_t externalId;
  uint32_t correlationId;
};
struct alignas(8) CUpti_ActivityKernel9 {
  CUpti_ActivityKind kind;
  uint16_t registersPerThread;
  uint64_t start, end;
  uint32_t deviceId, contextId, streamId;
  int32_t gridX, gridY, gridZ, blockX, blockY, blockZ;
  int32_t staticSharedMemory, dynamicSharedMemory;
  uint32_t correlationId;
  const char* name;
  uint64_t graphNodeId;
};
struct alignas(8) CUpti_ActivityMemcpy5 {
  CUpti_ActivityKind kind;
  uint8_t copyKind, srcKind, dstKind;
  uint64_t bytes, start, end;
  uint32_t deviceId, contextId, streamId, correlationId, runtimeCorrelationId;
  uint64_t graphNodeId;
};
struct alignas(8) CUpti_ActivityMemcpyPtoP4 {
  CUpti_ActivityKind kind;
  uint8_t copyKind, srcKind, dstKind;
  uint64_t bytes, start, end;
  uint32_t deviceId, contextId, streamId, correlationId;
  uint64_t graphNodeId;
};
struct alignas(8) CUpti_ActivityMemset4 {
  CUpti_ActivityKind kind;
  uint64_t bytes, start, end;
  uint32_t deviceId, contextId, streamId, correlationId;
  uint16_t memoryKind;
  uint64_t graphNodeId;
};
struct alignas(8) CUpti_ActivitySynchronization {
  CUpti_ActivityKind kind;
  CUpti_ActivitySynchronizationType type;
  uint64_t start, end;
  uint32_t correlationId, contextId, streamId;
};

struct SimulatedContext;
using CUcontext = SimulatedContext*;
using CUpti_BuffersCallbackRequestFunc = void (*)(uint8_t** buffer, size_t* size, size_t* most);
using CUpti_BuffersCallbackCompleteFunc = void (*)(CUcontext context, uint32_t stream,
                                                   uint8_t* buffer, size_t size, size_t valid);

CUptiResult cuptiGetResultString(CUptiResult result, const char** text);
CUptiResult cuptiGetTimestamp(uint64_t* timestamp);
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
                                           CUpti_BuffersCallbackCompleteFunc completed);
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind);
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind);
CUptiResult cuptiActivityFlushAll(uint32_t flags);
CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, CUpti_Activity** record);
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t* dropped);
CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t id);
CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                  uint64_t* last);
