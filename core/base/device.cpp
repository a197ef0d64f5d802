#include "wick/core/base/device.h"

#include <charconv>

#include "wick/core/base/check.h"

namespace wick {

std::string to_string(Device device) {
  return device.is_cpu() ? "cpu" : concat("cuda:", device.index);
}

Device parse_device(const std::string& text) {
  if (text == "cpu") return kCpu;
  if (text == "cuda") return cuda_device(0);
  constexpr std::string_view kPrefix = "cuda:";
  int index = -1;
  if (text.starts_with(kPrefix)) {
    const char* end = text.data() + text.size();
    const auto result = std::from_chars(text.data() + kPrefix.size(), end, index);
    if (result.ec != std::errc() || result.ptr != end || index > 255) index = -1;
  }
  WICK_CHECK(index >= 0, "device: unknown name: got \"", text, "\", expected cpu, cuda or cuda:N");
  return cuda_device(index);
}

Stream current_stream(Device device) { return {device, nullptr}; }

}  // namespace wick
