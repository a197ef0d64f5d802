#ifndef WICK_SIM  // whose build needs no toolkit, and has no tool to tell
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <array>

#include "wick/core/profile/detail/nvtx_calls.h"

namespace wick::profile {

namespace {

nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t made = nvtxDomainCreateA("wick");
  return made;
}

}  // namespace

void nvtx_push(std::string_view name) noexcept {
  std::array<char, 256> text;  // ends at the first zero, as names in C do
  const size_t size = std::min(name.size(), text.size() - 1);
  std::copy_n(name.data(), size, text.data());
  text[size] = 0;
  nvtxEventAttributes_t range{};
  range.version = NVTX_VERSION;
  range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  range.messageType = NVTX_MESSAGE_TYPE_ASCII;
  range.message.ascii = text.data();
  nvtxDomainRangePushEx(domain(), &range);
}

void nvtx_pop() noexcept { nvtxDomainRangePop(domain()); }

}  // namespace wick::profile
#endif
