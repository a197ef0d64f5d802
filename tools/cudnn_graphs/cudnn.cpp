// Stands before cuDNN as libcudnn.so.9: no device is there, but engines are asked for with one's
// properties (CUDNN_ATTR_ENGINEHEUR_DEVICEPROP), of WICK_CAPABILITY (90 unless set).
#include <cudnn_graph.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

namespace {

void* library() {
  static void* const handle = dlopen(std::getenv("WICK_CUDNN"), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) {
    std::fprintf(stderr, "cudnn_graphs: %s\n", dlerror());
    std::exit(2);
  }
  return handle;
}

template <class Function>
Function* real(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library(), name));
}
#define REAL(function) real(&function, #function)

std::map<cudnnBackendDescriptor_t, cudnnBackendDescriptorType_t>& types() {
  static std::map<cudnnBackendDescriptor_t, cudnnBackendDescriptorType_t> instance;
  return instance;
}

std::string properties_of(int capability) {
  const auto number = [](const char* name, long value) {
    return "\"" + std::string(name) + "\":" + std::to_string(value) + ",";
  };
  const bool is_small = capability == 86 || capability == 89 || capability >= 120;
  const long shared = capability < 90 && !is_small ? 166912 : is_small ? 101376 : 232448;
  return "{" + number("deviceVer", capability * 10) + number("driverVer", 13000) +
         number("multiProcessorCount", 132) + number("warpSize", 32) +
         number("maxSharedMemoryPerBlock", 49152) + number("maxSharedMemoryPerBlockOptin", shared) +
         number("reservedSharedMemoryPerBlock", 1024) + number("maxRegistersPerSM", 65536) +
         number("regsPerBlock", 65536) + number("maxCtasPerSM", 32) +
         number("maxThreadsPerBlock", 1024) + number("maxThreadsPerSM", 2048) +
         number("totalGlobalMem", 80000000000) + number("smClockRateKHz", 1980000) +
         number("memClockRateKHz", 2619000) + number("l2CacheSize", 52428800) +
         number("supportCoopLaunch", 1) + number("pciDeviceId", 0) + number("isTccDriver", 0) +
         number("cudaDeviceId", 0) +
         "\"deviceName\":\"none\",\"maxBlockSize\":[1024,1024,64],"
         "\"maxGridSize\":[2147483647,65535,65535]}";
}

cudnnBackendDescriptor_t make_properties() {
  const char* const wanted = std::getenv("WICK_CAPABILITY");
  const std::string text = properties_of(wanted == nullptr ? 90 : std::atoi(wanted));
  cudnnBackendDescriptor_t device = nullptr;
  REAL(cudnnBackendCreateDescriptor)(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &device);
  REAL(cudnnBackendSetAttribute)
  (device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
   static_cast<int64_t>(text.size()), text.data());
  if (REAL(cudnnBackendFinalize)(device) != CUDNN_STATUS_SUCCESS) {
    std::fprintf(stderr, "cudnn_graphs: cuDNN takes no device by these properties: %s\n",
                 text.c_str());
    std::exit(2);
  }
  return device;
}

}  // namespace

extern "C" {

size_t CUDNNWINAPI cudnnGetVersion() { return REAL(cudnnGetVersion)(); }
cudnnStatus_t CUDNNWINAPI cudnnCreate(cudnnHandle_t* handle) {
  static char none;
  *handle = reinterpret_cast<cudnnHandle_t>(&none);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t CUDNNWINAPI cudnnSetStream(cudnnHandle_t, cudaStream_t) {
  return CUDNN_STATUS_SUCCESS;
}
const char* CUDNNWINAPI cudnnGetErrorString(cudnnStatus_t status) {
  return REAL(cudnnGetErrorString)(status);
}
void CUDNNWINAPI cudnnGetLastErrorString(char* text, size_t size) {
  REAL(cudnnGetLastErrorString)(text, size);
}
cudnnStatus_t CUDNNWINAPI cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                       cudnnBackendDescriptor_t* descriptor) {
  const cudnnStatus_t status = REAL(cudnnBackendCreateDescriptor)(type, descriptor);
  types()[*descriptor] = type;
  return status;
}
cudnnStatus_t CUDNNWINAPI cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  return REAL(cudnnBackendDestroyDescriptor)(descriptor);
}
cudnnStatus_t CUDNNWINAPI cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                                   cudnnBackendAttributeName_t name,
                                                   cudnnBackendAttributeType_t type, int64_t count,
                                                   const void* values) {
  if (type == CUDNN_TYPE_HANDLE) return CUDNN_STATUS_SUCCESS;
  return REAL(cudnnBackendSetAttribute)(descriptor, name, type, count, values);
}
cudnnStatus_t CUDNNWINAPI cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                                   cudnnBackendAttributeName_t name,
                                                   cudnnBackendAttributeType_t type, int64_t most,
                                                   int64_t* count, void* values) {
  return REAL(cudnnBackendGetAttribute)(descriptor, name, type, most, count, values);
}
cudnnStatus_t CUDNNWINAPI cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  static const cudnnBackendDescriptor_t device = make_properties();
  const cudnnBackendDescriptorType_t type = types()[descriptor];
  const auto add_device = [&](cudnnBackendAttributeName_t name) {
    REAL(cudnnBackendSetAttribute)(descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device);
  };
  if (type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) add_device(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
  if (type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    add_device(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
  }
  return REAL(cudnnBackendFinalize)(descriptor);
}
cudnnStatus_t CUDNNWINAPI cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t,
                                              cudnnBackendDescriptor_t) {
  return CUDNN_STATUS_NOT_SUPPORTED;
}

}  // extern "C"
