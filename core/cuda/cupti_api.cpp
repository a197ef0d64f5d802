#include "wick/core/cuda/cupti_api.h"

#ifdef WICK_SIM
#include "wick/kernels/sim/activity.h"
#else
#include <cuda_runtime_api.h>
#endif
#include <optional>

#include "wick/core/base/check.h"
#include "wick/core/base/detail/dynamic_library.h"

namespace wick::cuda {

namespace {

#ifdef WICK_SIM
struct CuptiLibrary {
  template <class Function>
  void find(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(sim::cupti_function(name));
    WICK_CHECK(function != nullptr, "cuda: CUPTI has no function ", name);
  }
};
#else
struct CuptiLibrary : DynamicLibrary {
  CuptiLibrary()
      : DynamicLibrary("CUPTI", concat("libcupti.so.", int64_t{CUDART_VERSION / 1000}).c_str()) {}
};
#endif

}  // namespace

CuptiApi::CuptiApi() {
  const CuptiLibrary library;
  library.find(result_string, "cuptiGetResultString");
  library.find(get_timestamp, "cuptiGetTimestamp");
  library.find(register_callbacks, "cuptiActivityRegisterCallbacks");
  library.find(enable, "cuptiActivityEnable");
  library.find(disable, "cuptiActivityDisable");
  library.find(flush_all, "cuptiActivityFlushAll");
  library.find(get_next_record, "cuptiActivityGetNextRecord");
  library.find(get_dropped, "cuptiActivityGetNumDroppedRecords");
  library.find(push_id, "cuptiActivityPushExternalCorrelationId");
  library.find(pop_id, "cuptiActivityPopExternalCorrelationId");
}

const CuptiApi* find_cupti() {
  static const auto found = []() -> std::optional<CuptiApi> {
    try {
      return CuptiApi();
    } catch (const Error&) {
      return std::nullopt;
    }
  }();
  return found ? &*found : nullptr;
}

const CuptiApi& cupti() { return *find_cupti(); }

void check_cupti(CUptiResult result, const char* call) {
  if (result == CUPTI_SUCCESS) return;
  const char* text = nullptr;
  cupti().result_string(result, &text);
  throw Error(concat("CUPTI: ", call, " failed: ", text == nullptr ? "no reason" : text));
}

}  // namespace wick::cuda
