// What a tool like Nsight Systems puts into a program: NVTX hands it every range. It writes them to
// the file that WICK_NVTX_LOG names, a line each: thread, "push" or "pop", name.
#include <nvtx3/nvToolsExt.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace {

std::mutex mutex;
std::FILE* log_file() {
  static std::FILE* file = std::fopen(std::getenv("WICK_NVTX_LOG"), "w");
  return file;
}

void note(const char* what, const char* name) {
  const std::lock_guard lock(mutex);
  std::fprintf(log_file(), "%d\t%s\t%s\n", gettid(), what, name);
  std::fflush(log_file());
}

nvtxDomainHandle_t create(const char* name) {
  note("domain", name);
  static int domain;
  return reinterpret_cast<nvtxDomainHandle_t>(&domain);
}

int push(nvtxDomainHandle_t, const nvtxEventAttributes_t* range) {
  note("push", range->message.ascii);
  return 0;
}

int pop(nvtxDomainHandle_t) {
  note("pop", "");
  return 0;
}

template <class Function>
void replace(NvtxFunctionTable table, int id, Function* function) {
  *table[id] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t tables) {
  const auto* calls = static_cast<const NvtxExportTableCallbacks*>(tables(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (calls == nullptr || calls->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) {
    return 0;
  }
  replace(table, NVTX_CBID_CORE2_DomainCreateA, &create);
  replace(table, NVTX_CBID_CORE2_DomainRangePushEx, &push);
  replace(table, NVTX_CBID_CORE2_DomainRangePop, &pop);
  return 1;
}
