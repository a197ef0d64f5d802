#include "wick/core/base/device.h"

#include <charconv>
#include <ostream>

#include "wick/core/base/check.h"

namespace wick {

std::string to_string(Device device) {
  return device.is_cpu() ? "cpu" : concat("cuda:", device.index);
}

std::ostream& operator<<(std::ostream& out, Device device) { return out << to_string(device); }

Device parse_device(const std::string& text) {
  if (text == "cpu") return kCpu;
  if (text == "cuda") return cuda_device(0);
  constexpr std::string_view kPrefix = "cuda:";
  int index = -1;
  if (text.starts_with(kPrefix)) {
    const char* end = text.data() + text.size();
    const auto result = std::from_chars(text.data() + kPrefix.size(), end, index);
    if (result.ec != std::errc() || result.ptr != end || index >= kMaxGpus) index = -1;
  }
  WICK_CHECK(index >= 0, "device: unknown name: got \"", text, "\", expected cpu, cuda or cuda:N");
  return cuda_device(index);
}

namespace {
thread_local void* current_streams[kMaxGpus] = {};
}

Stream current_stream(Device device) {
  const bool chosen = device.is_cuda() && device.index >= 0 && device.index < kMaxGpus;
  return {device, chosen ? current_streams[device.index] : nullptr};
}

void set_current_stream(Stream stream) {
  if (stream.device.is_cpu()) return;
  WICK_CHECK(stream.device.index >= 0 && stream.device.index < kMaxGpus,
             "set_current_stream: no such device: got ", stream.device);
  current_streams[stream.device.index] = stream.handle;
}

}  // namespace wick
