#include "wick/train/device.h"

#include "wick/core/options.h"
#include "wick/core/stream.h"

namespace wick::train {

void check_device_name(const std::string& name) {
  if (name == "auto") return;
  try {
    parse_device(name);
  } catch (const Error&) {
    throw InvalidOption("device", concat("got \"", name, "\", expected auto, cpu, cuda or cuda:N"));
  }
}

Device choose_device(const std::string& name, std::string* why) {
  if (name != "auto") {
    const Device device = parse_device(name);
    WICK_CHECK(device.is_cpu() || cuda_is_available(), "--device ", name,
               ": no GPU to use: ", why_no_cuda(), ": use --device cpu");
    WICK_CHECK(device.is_cpu() || device.index < cuda_device_count(), "--device ", name,
               ": no such GPU: got ", device.index, ", expected less than ", cuda_device_count());
    return device;
  }
  const bool usable = cuda_is_available();
  if (usable && !device_properties(cuda_device(0)).simulated) return cuda_device(0);
  if (why != nullptr) *why = usable ? "the only GPU is a simulated one" : why_no_cuda();
  return kCpu;
}

Device choose_device(const std::string& name, int local_rank, std::string* why) {
  const Device device = choose_device(name, why);
  if (device.is_cpu() || name.find(':') != std::string::npos) return device;
  return cuda_device(local_rank % cuda_device_count());
}

}  // namespace wick::train
